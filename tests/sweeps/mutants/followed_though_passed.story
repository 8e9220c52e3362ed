# m1 installs a view with m2 that m2 cannot install: nobody alive has the frame of m3 that it lacks. Only a time-out lets m1 go on.
# Then m1 refuses the base of m2 (N.1), so m2 must not follow m1 to its new view but go to a new view itself first.
boot 0 2 3|1
mode hold
service safe
calm throughout

attempt 1 3
send 3 0
deliver 2 1
deliver 0 2
crash 3
lose 2 3 2
deliver 0 3
break 2 3
deliver 0 2
crash 0
