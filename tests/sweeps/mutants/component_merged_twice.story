# component-merged-twice: JC
boot 0 1 2 3
mode flow
service agreed
changes 3

break 1 3
deliver 2 1
deliver 0 1
deliver 3 2
deliver 3 0
deliver 0 2
deliver 3 1
attempt 3 1
split 1 0 1 1
break 0 1
