# begin phase 1 with the changes of strangers that take no part in the join:
boot 1|0
mode flow
service causal

attempt 1 0
deliver 0 1
deliver 1 0
break 0 1
attempt 0 1
deliver 1 0
drop 1 0
deliver 0 1
collect 0
leave 0
