# m2 installs a view with m3 and m5. m3 lacks the first frame of m0, which crashed; m5, which had it, crashed too, and m1 and m4 had it
# until they went to views without m3. Only rule T can leave out the entry of m3. No time-out is needless here.
boot 0 1 3 4 5|2
mode hold
service causal
calm throughout

attempt 2 4
deliver 0 2
break 0 1
crash 0
lose 2 0 2
lose 3 0 2
deliver 5 0
deliver 5 0
break 3 0
break 5 0
break 5 4
break 3 4
deliver 3 5
crash 5
