# cut-at-last-proposals: J2
boot 0 1 2 3 4
mode flow
service agreed

break 2 3
send 3 2
deliver 1 2
deliver 0 1
deliver 4 1
deliver 4 2
break 0 1
