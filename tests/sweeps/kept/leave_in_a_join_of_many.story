# Members leave during a join: a member that hears itself counted from a view it has left says where
# it is; without that a time-out left it out (JN).
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
