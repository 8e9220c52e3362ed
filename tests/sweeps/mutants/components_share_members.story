# components-share-members: JC
boot 0 1 2 3
mode flow
service agreed
changes 2

break 2 0
deliver 1 2
break 3 2
split 0 0 1 1
break 1 2
deliver 2 3
break 2 1
break 1 3
split 0 0 0 0
deliver 3 1
attempt 1 2
