# later-proposals-release: J2
boot 0 1 2 3 4
mode hold
service causal

data 2
break 0 2
deliver 1 0
deliver 3 0
deliver 4 3
deliver 0 2
break 0 3
deliver 4 1
