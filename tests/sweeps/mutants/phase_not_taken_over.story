# begin phase 1 with one's own control frame only:
# JC: m0 has changed its view 5 times, not 4
boot 0 1 2
mode flow
service agreed
changes 4

break 2 0
deliver 1 2
deliver 0 1
data 1
data 2
deliver 2 1
deliver 0 2
deliver 0 2
attempt 1 0
deliver 2 1
attempt 2 0
deliver 2 0
deliver 2 1
deliver 2 0
deliver 1 2
deliver 0 2
data 1
deliver 2 0
deliver 2 1
lose 0 1 2
break 2 1
break 0 1
deliver 2 0
deliver 1 2
deliver 1 2
attempt 2 1
deliver 0 2
deliver 1 2
collect 1
break 1 2
