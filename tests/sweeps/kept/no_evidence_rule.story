# count what barred members said, however it came here:
boot 0 1 4|2 3
mode flow
service causal

attempt 3 1
deliver 4 3
deliver 0 4
deliver 1 3
deliver 2 1
deliver 0 3
deliver 0 2
break 1 4
collect 2
deliver 3 2
deliver 2 3
deliver 1 2
deliver 0 1
deliver 0 1
deliver 0 2
deliver 3 2
collect 0
deliver 1 0
collect 3
deliver 2 3
deliver 3 0
deliver 2 0
deliver 0 3
fetch 3 1 1
answer 3
deliver 1 3
deliver 0 3
deliver 0 3
deliver 1 0
deliver 1 3
deliver 2 0
deliver 1 3
deliver 2 3
deliver 2 1
fetch 2 3 3
deliver 1 2
attempt 1 2
deliver 2 1
deliver 2 1
deliver 3 2
crash 2
