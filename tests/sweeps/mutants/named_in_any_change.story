# break with whoever names me, also in a change that is not mine:
# JC: m1 has changed its view 3 times, not 2
boot 0 1
mode flow
service agreed
changes 2

split 0 1
break 1 0
break 0 1
split 0 0
attempt 0 1
deliver 1 0
deliver 0 1
collect 0
break 0 1
attempt 0 1
crash 0
