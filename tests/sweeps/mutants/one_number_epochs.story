# count joins and removals in one number:
# JE: m2 goes from epoch 1.0:3a652f4f24c0edf8 to 1.0:bdc60a68f1371330
boot 1 2 3|0
mode flow
service agreed

attempt 1 0
collect 1
crash 3
break 2 3
deliver 1 2
