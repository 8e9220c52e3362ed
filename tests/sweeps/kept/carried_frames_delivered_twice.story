# deliver in a view that ends also what the next one carries on:
boot 1 2 3|0
mode flow
service agreed

attempt 1 0
collect 1
crash 3
break 2 3
deliver 1 2
data 2
