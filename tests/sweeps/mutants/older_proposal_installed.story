# older-proposal-installed: J1x
boot 0 1 2
mode hold
service causal

break 2 1
calm
attempt 2 1
deliver 0 2
deliver 1 2
deliver 2 1
collect 2
deliver 0 2
break 0 2
