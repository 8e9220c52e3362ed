# break with whoever names me, also in a change that is not mine:
boot 0 1
mode flow
service agreed

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
