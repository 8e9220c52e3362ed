# deliver frames that follow one which is held back until the view ends:
boot 1|2|3 4|0
mode flow
service agreed

attempt 4 1
deliver 3 4
break 4 3
deliver 2 4
deliver 0 4
deliver 2 4
collect 2
deliver 0 4
deliver 3 2
deliver 3 2
deliver 3 4
deliver 4 0
deliver 2 4
deliver 0 4
break 4 0
deliver 2 4
deliver 0 3
deliver 3 4
deliver 0 4
deliver 3 4
deliver 2 3
deliver 3 2
break 0 2
deliver 2 3
deliver 3 2
deliver 3 2
deliver 2 0
deliver 2 0
data 2
deliver 3 2
data 3
fetch 3 0 1
data 3
deliver 2 3
