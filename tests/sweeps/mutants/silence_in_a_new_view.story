# wait for ever for members that never speak in the view:
# JC: m0 has changed its view 8 times, not 7
boot 4|0 3|1 2
mode flow
service safe
changes 7

attempt 2 0
deliver 0 2
deliver 4 0
collect 0
deliver 2 4
deliver 3 2
deliver 1 3
collect 1
break 3 2
calm
break 3 0
deliver 1 3
deliver 3 1
deliver 4 1
attempt 3 2
attempt 1 4
split 0 1 0 0 1
deliver 4 1
break 4 3
break 2 4
break 1 3
split 0 0 0 0 0
ack 1
calm
attempt 0 4
deliver 4 0
deliver 0 4
break 0 4
