# m0 has issued a larger proposal than m1; m1 takes that for an answer to its own and installs what m0 never issued
boot 3|1|0|2
mode hold
service safe
calm throughout

attempt 3 1
deliver 1 3
deliver 0 1
collect 0
deliver 2 0
