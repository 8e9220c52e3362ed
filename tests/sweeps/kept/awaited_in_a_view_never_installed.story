# m0 counts m3 from the view of m2 and m3, which m2 installed and m3 did not: it went on alone when m2 crashed. The epoch
# of its view is lower, so that only rule T leaves out the entry that never comes. No time-out is needless here.
boot 3|0 1 5|2 4
mode hold
service safe
calm throughout

crash 4
attempt 2 3
deliver 3 2
collect 3
deliver 2 3
deliver 2 3
break 3 4
deliver 2 3
attempt 2 0
crash 2
break 3 2
