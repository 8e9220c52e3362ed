# closings-not-fetched: JC
boot 0 1 2 3
mode flow
service causal
changes 2

break 2 3
drop 3 2
lose 0 2 1
break 1 3
deliver 2 1
deliver 0 1
deliver 2 0
ack 2
