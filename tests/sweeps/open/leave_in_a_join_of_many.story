# open: a time-out leaves out a member that is alive after another has left in a join (JN)
boot 2|0|3|1|4
mode hold
service causal
calm throughout

attempt 0 4
deliver 1 0
deliver 3 1
collect 3
deliver 1 3
leave 2
leave 3
deliver 1 3
leave 0
deliver 4 1
deliver 1 4
