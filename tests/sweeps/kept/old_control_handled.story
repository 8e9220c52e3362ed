# handle a non-member's FA or JOIN from a view that was left or overtaken:
boot 2|0 1
mode flow
service causal

attempt 2 1
deliver 1 2
break 0 1
deliver 1 0
deliver 2 1
deliver 2 1
deliver 0 2
deliver 2 0
break 2 0
