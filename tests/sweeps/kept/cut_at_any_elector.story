# deliver what follows no JOIN or FA of the change in the view that ends (5.3):
boot 0 1 2
mode flow
service agreed

break 1 2
calm
attempt 0 2
deliver 2 0
deliver 1 2
collect 2
deliver 1 2
data 1
split 0 0 1
break 2 1
