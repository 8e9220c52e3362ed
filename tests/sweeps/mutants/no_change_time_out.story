# no-change-time-out: J4
boot 1|3|0|2
mode hold
service causal

attempt 3 0
deliver 2 3
deliver 3 2
collect 3
break 3 2
deliver 2 3
