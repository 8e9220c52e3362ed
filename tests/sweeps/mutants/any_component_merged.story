# merge components that count me in a view that I am not in:
# JC: m1 has changed its view 3 times, not 2
boot 0 1
mode flow
service agreed
changes 2

break 1 0
deliver 0 1
deliver 1 0
attempt 1 0
deliver 0 1
deliver 1 0
break 1 0
attempt 1 0
deliver 0 1
crash 0
