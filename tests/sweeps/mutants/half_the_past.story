# hold views whose members did not come along for mergeable after a join:
# JC: m0 has changed its view 5 times, not 4
boot 0|2|1
mode flow
service agreed
changes 4

attempt 1 0
deliver 0 1
deliver 2 0
break 0 1
deliver 2 0
break 2 1
deliver 0 2
deliver 2 0
collect 0
deliver 2 0
break 2 0
attempt 2 0
break 0 2
deliver 2 0
deliver 0 2
deliver 0 2
deliver 0 2
deliver 0 2
collect 0
deliver 2 0
collect 2
break 2 0
