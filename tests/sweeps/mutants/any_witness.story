# any-witness: J1x
boot 0 1 3|2
mode hold
service safe

break 1 3
deliver 2 1
leave 0
deliver 3 0
deliver 1 0
deliver 2 1
deliver 3 1
deliver 3 1
deliver 1 3
attempt 3 1
deliver 1 3
deliver 1 3
deliver 2 1
deliver 3 2
deliver 3 1
collect 3
deliver 1 3
deliver 2 1
deliver 3 2
break 1 3
deliver 3 1
break 3 2
