# sound core, JN: seed 2005077, branch 7, of the walker at fe06b49, made smaller;
# only crashed members are suspected, and only packets of crashed members are lost
boot 2|0 1|3
mode hold
service causal
calm throughout

attempt 2 0
crash 0
deliver 3 2
deliver 2 3
deliver 1 3
collect 3
break 1 0
deliver 1 3
deliver 2 3
ack 2
crash 2
