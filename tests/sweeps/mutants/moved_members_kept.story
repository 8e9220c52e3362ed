# moved-members-kept: JC
boot 0 1 2 3
mode flow
service causal
changes 2

break 2 0
deliver 0 2
deliver 1 0
break 0 1
break 0 3
attempt 1 0
