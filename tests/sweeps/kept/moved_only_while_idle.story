# notice only outside joins that a member speaks from a view without me:
boot 2 3|1|0
mode hold
service safe

attempt 2 0
deliver 1 2
deliver 0 1
deliver 3 2
crash 1
break 0 1
data 0
deliver 3 0
leave 2
deliver 3 2
