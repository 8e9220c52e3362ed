# any-witness: J1x
boot 1 2|0 4|3
mode flow
service causal

attempt 3 4
attempt 2 3
deliver 4 2
deliver 2 3
deliver 3 4
deliver 4 3
collect 4
deliver 3 4
deliver 2 3
deliver 4 2
deliver 2 4
deliver 2 4
attempt 1 0
deliver 2 1
break 0 4
break 2 0
deliver 1 3
deliver 1 3
deliver 4 2
deliver 2 1
deliver 3 4
break 4 2
deliver 3 4
deliver 2 3
deliver 1 3
deliver 2 4
deliver 2 1
