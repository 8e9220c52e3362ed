# stable-by-carried: JC
boot 1 2|0|3
mode flow
service safe
changes 2

attempt 2 0
deliver 3 2
deliver 2 3
break 1 2
deliver 2 1
deliver 3 2
drop 2 3
data 3
ack 2
deliver 3 2
