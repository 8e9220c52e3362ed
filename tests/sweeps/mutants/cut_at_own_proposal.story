# cut-at-own-proposal: J2
boot 0 1 2 3
mode hold
service agreed

data 3
break 1 2
crash 3
lose 0 3 3
deliver 1 3
