# m3 installs a view with m0 and m1, which m0 has proposed too. m0 lacks a frame of m4 under the closing frame of m1, and both crashed. So
# m0 cannot come, and waits for m3 in its old view until its time is over: only rule T can leave out that entry. No time-out is needless here.
boot 0 1 2 4|3
mode flow
service causal
calm throughout

attempt 3 1
crash 2
deliver 4 3
deliver 1 4
deliver 1 3
ack 4
deliver 1 4
break 1 2
crash 4
lose 0 4 1
deliver 3 1
break 1 4
deliver 3 1
crash 1
