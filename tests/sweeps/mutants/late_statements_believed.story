# late-statements-believed: J4
boot 2|3|4|1|0
mode hold
service agreed

attempt 1 4
deliver 3 1
deliver 2 3
deliver 3 2
deliver 1 3
collect 3
collect 1
break 3 2
deliver 2 3
deliver 2 3
break 2 1
