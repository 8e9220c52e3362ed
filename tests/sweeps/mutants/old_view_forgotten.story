# forget the frames of the view before at the install:
# JC: m2 has changed its view 4 times, not 3
boot 0 1 2 3 4
mode flow
service safe
changes 3

break 4 3
deliver 2 4
split 1 0 0 1 0
break 1 3
