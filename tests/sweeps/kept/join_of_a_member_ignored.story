# do not take a member's JOIN for its AJ:
boot 0 1 4|2 3
mode flow
service agreed

attempt 4 2
deliver 0 4
deliver 1 4
deliver 2 4
deliver 3 2
collect 2
break 2 1
collect 3
