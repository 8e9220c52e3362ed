# no-install-by-tag: JC
boot 0 1 2 3
mode flow
service causal
changes 5

break 3 2
deliver 0 3
deliver 1 0
fetch 1 3 1
deliver 2 1
ack 3
answer 2
attempt 1 2
ack 3
calm
data 0
calm
ack 3
break 2 0
deliver 0 2
deliver 1 0
deliver 1 3
deliver 2 1
deliver 3 1
break 1 0
deliver 3 0
deliver 2 1
lose 0 1 4
lose 1 3 2
lose 3 1 3
data 1
ack 3
deliver 0 3
deliver 1 3
deliver 2 1
split 1 0 1 0
lose 0 1 1
break 0 1
fetch 1 3 8
deliver 3 1
break 2 3
break 0 3
split 1 1 0 1
deliver 1 3
attempt 1 0
fetch 3 1 6
collect 1
split 0 0 0 0
deliver 3 1
deliver 0 1
deliver 0 3
deliver 3 0
deliver 0 3
collect 3
deliver 0 3
deliver 1 0
deliver 2 1
collect 2
