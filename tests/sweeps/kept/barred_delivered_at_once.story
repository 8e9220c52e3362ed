# deliver a barred member's frame when it enters, before it is known what closes the view:
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
