# m1 installs the join and moves on; m0 leaves it out, m2 goes on with m0 alone; m3 proposes m1 as it
# stands now, so m0 counts m1 again, from another view, when a late frame of m1 says that it had installed the join
boot 0|1 2|3
mode flow
service agreed

attempt 0 1
deliver 1 0
deliver 0 1
collect 0
deliver 1 0
deliver 2 0
deliver 2 0
deliver 1 2
deliver 1 2
deliver 0 2
deliver 0 2
ack 1
break 1 0
break 1 2
break 0 1
break 2 1
deliver 2 0
attempt 1 3
late 3 0 0
late 3 1 5
collect 3
deliver 0 3
deliver 0 3
deliver 0 1
deliver 0 1
