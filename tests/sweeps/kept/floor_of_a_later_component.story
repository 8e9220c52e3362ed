# let the floor of a later component hide what a member said in the join under way:
boot 2|1|0 3
mode flow
service agreed

attempt 3 1
deliver 2 3
ack 3
break 2 3
calm
attempt 2 3
deliver 3 2
deliver 0 2
deliver 1 2
deliver 1 3
deliver 2 1
data 0
collect 0
deliver 3 1
collect 1
deliver 1 0
deliver 2 1
collect 3
collect 2
deliver 1 2
deliver 0 1
deliver 0 1
deliver 1 0
deliver 1 0
deliver 1 0
deliver 2 0
deliver 1 3
deliver 2 0
break 3 0
deliver 1 3
deliver 0 1
fetch 0 3 6
deliver 2 1
deliver 2 0
fetch 2 3 5
deliver 2 0
fetch 2 3 6
deliver 0 3
deliver 0 2
deliver 1 2
deliver 0 3
deliver 0 2
attempt 1 0
