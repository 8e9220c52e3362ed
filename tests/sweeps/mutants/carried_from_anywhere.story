# carried-from-anywhere: J2
boot 1 2|3|0
mode hold
service agreed

attempt 0 1
calm
break 3 0
deliver 2 3
deliver 1 2
lose 2 1 1
break 2 3
deliver 1 3
deliver 0 1
deliver 1 0
deliver 0 3
break 0 2
data 2
attempt 0 1
leave 2
drop 1 0
deliver 1 0
deliver 1 0
collect 1
