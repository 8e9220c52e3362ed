# component-merged-twice: JC
boot 1|0 2 3
mode flow
service safe
changes 3

attempt 3 1
deliver 1 3
deliver 3 1
deliver 2 1
break 2 3
deliver 3 2
deliver 3 2
deliver 1 3
calm
break 0 1
