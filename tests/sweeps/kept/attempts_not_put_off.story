# forget attempts that come in the middle of a change:
boot 1 4|0 2 3
mode flow
service safe

attempt 1 0
deliver 2 1
deliver 3 2
deliver 1 2
break 0 2
break 1 0
collect 2
break 0 3
deliver 4 1
deliver 2 1
deliver 4 1
break 4 0
deliver 3 1
break 3 0
deliver 2 3
deliver 2 4
deliver 3 4
