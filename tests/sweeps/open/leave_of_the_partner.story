# open: a time-out leaves out a member that is alive after another has left in a join (JN)
boot 2|1|3|0
mode flow
service causal
calm throughout

attempt 3 1
deliver 1 3
deliver 3 1
leave 1
collect 3
deliver 2 1
deliver 3 2
