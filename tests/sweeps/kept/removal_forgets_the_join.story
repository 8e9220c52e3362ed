# end the join under way when a removal is installed:
boot 0|1 2 3
mode hold
service agreed

attempt 1 0
break 3 2
collect 1
deliver 3 1
deliver 1 3
deliver 2 1
deliver 0 1
deliver 2 1
fetch 2 3 1
deliver 2 0
deliver 3 1
break 2 0
split 0 1 0 0
calm
