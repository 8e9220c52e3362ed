# deliver at the end of a view all that is here, not what closed it follows:
# J2: in 0.0:68364f4c8b181cb2 only one of m0 and m3 delivers message 1 of m1
boot 0 1 2 3 4
mode flow
service causal

data 1
break 3 1
deliver 2 3
deliver 0 3
deliver 4 3
deliver 0 2
deliver 0 4
deliver 1 4
deliver 1 3
deliver 2 4
deliver 1 0
deliver 2 1
deliver 2 1
deliver 2 1
deliver 1 2
attempt 0 1
deliver 2 0
deliver 2 1
deliver 1 0
deliver 2 1
deliver 2 1
collect 1
deliver 2 1
ack 2
