# let a floor hide frames of a member of my own view that has moved:
boot 0 1 2 3 4
mode flow
service agreed

break 2 4
deliver 0 2
deliver 1 2
data 2
deliver 1 2
deliver 0 1
data 1
deliver 0 1
fetch 0 2 2
deliver 2 1
answer 2
deliver 3 2
deliver 1 2
data 1
