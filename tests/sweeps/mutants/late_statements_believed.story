# late-statements-believed: JC
boot 3|0|2|1
mode hold
service causal
changes 3

split 1 0 1 0
attempt 3 1
deliver 1 3
split 0 0 0 0
deliver 3 1
attempt 0 1
deliver 1 0
collect 1
deliver 3 1
deliver 0 3
drop 1 0
deliver 0 1
break 0 3
answer 0
