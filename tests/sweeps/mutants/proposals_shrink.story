# proposals-shrink: JC
boot 0|1|2|3
mode hold
service agreed
changes 2

attempt 3 2
deliver 2 3
deliver 0 2
deliver 0 3
collect 0
break 0 2
