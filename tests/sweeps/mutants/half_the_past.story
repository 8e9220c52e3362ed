# half-the-past: JC
boot 0 3 4|1 2
mode flow
service safe
changes 4

attempt 2 0
drop 3 2
deliver 4 2
break 2 1
deliver 2 4
deliver 3 2
deliver 3 2
attempt 0 2
deliver 2 3
break 4 3
deliver 2 4
break 4 2
deliver 2 4
break 3 0
deliver 2 3
deliver 4 2
deliver 4 2
deliver 4 2
deliver 2 4
break 4 2
deliver 2 4
deliver 2 0
