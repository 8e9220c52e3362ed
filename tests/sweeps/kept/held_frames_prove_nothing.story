# a frame that is held proves nothing stable: the marker must stand at the same place everywhere
boot 0 1 2
mode flow
service safe

data 0
deliver 1 0
deliver 2 0
ack 1
ack 2
break 0 2
deliver 0 1
deliver 0 2
drop 1 2
deliver 1 0
split 0 0 1
deliver 0 1
deliver 0 1
deliver 1 0
