# let frames enter the next view before what they follow:
# JO: in 0.1:7d84906fafa65b3a m0 and m2 deliver in different orders
boot 0 1 2 3
mode flow
service agreed

break 3 1
deliver 2 3
data 3
deliver 2 3
data 2
