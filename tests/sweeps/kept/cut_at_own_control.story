# deliver a member's frames up to its own JOIN or FA in the view that ends (Fig. 8):
boot 2|0 1 3 4
mode flow
service agreed

attempt 0 2
deliver 2 0
deliver 0 2
collect 0
split 0 1 1 1 1
collect 2
data 2
break 0 4
