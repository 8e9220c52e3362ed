# old-view-forgotten: JC
boot 0 1 2 3 4
mode hold
service causal
changes 2

break 4 1
split 0 0 1 0 1
deliver 2 4
