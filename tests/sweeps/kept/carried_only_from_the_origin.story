# carry on only frames that were sent in the view their sender came from:
boot 1 2 3|0
mode flow
service agreed

attempt 1 0
collect 1
crash 3
break 2 3
deliver 1 2
deliver 2 1
deliver 2 1
data 2
