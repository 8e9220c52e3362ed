# J: m3 goes on alone after its partner has left the join; m0 and m2 still count it from the view before,
# and a time-out leaves it out unless it says where it is (JN).
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
