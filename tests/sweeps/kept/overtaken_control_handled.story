# handle a non-member's FA or JOIN though it has spoken from a newer view since:
boot 3|0 1 2
mode hold
service safe

attempt 3 0
deliver 0 3
deliver 1 0
deliver 2 3
break 0 1
deliver 1 0
deliver 1 3
collect 2
break 2 3
deliver 2 1
fetch 2 0 1
answer 2
calm
attempt 0 3
deliver 1 0
deliver 2 1
deliver 0 1
deliver 3 1
deliver 1 2
deliver 1 3
break 1 3
deliver 2 1
collect 2
deliver 3 2
deliver 0 1
collect 0
deliver 1 0
split 1 0 0 0
break 2 0
calm
