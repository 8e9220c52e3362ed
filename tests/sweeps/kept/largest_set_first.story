# of several closed sets install the largest:
boot 0 1 2 3 4
mode hold
service causal

break 4 2
deliver 0 4
deliver 1 4
break 0 1
deliver 4 1
