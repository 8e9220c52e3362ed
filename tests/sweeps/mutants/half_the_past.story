# m0 installs the join with (m1 m2), which are still in their old view when m0 is alone again: they propose
# to unite with it from there, and what m1 sent for the first join would be carried into the second too
boot 0|1 2|3
mode flow
service agreed

attempt 0 1
deliver 1 0
deliver 0 1
collect 0
deliver 1 0
data 1
deliver 2 0
deliver 2 0
deliver 0 1
deliver 0 2
deliver 0 2
deliver 0 1
break 0 1
break 0 2
attempt 0 3
late 1 0 4
late 2 1 3
deliver 2 1
deliver 2 1
deliver 2 1
deliver 2 1
late 0 1 3
late 0 2 2
collect 0
