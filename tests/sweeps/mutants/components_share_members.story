# components-share-members: JC
boot 0 1 2 3
mode flow
service agreed
changes 3

ack 1
break 1 3
deliver 2 1
deliver 0 1
break 1 0
deliver 2 1
deliver 2 1
deliver 0 1
send 2 0
deliver 0 2
attempt 2 0
