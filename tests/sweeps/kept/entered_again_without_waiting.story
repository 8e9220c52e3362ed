# let frames enter the next view before what they follow:
boot 0 1 2 3
mode flow
service agreed

break 3 1
deliver 2 3
data 3
deliver 2 3
data 2
