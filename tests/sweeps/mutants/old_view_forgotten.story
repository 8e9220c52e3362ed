# forget the frames of the view before at the install:
# JC: m0 has changed its view 3 times, not 1
boot 0 2|1 3
mode flow
service causal
changes 1

attempt 3 2
deliver 2 3
deliver 3 2
deliver 1 2
collect 2
deliver 3 2
collect 1
data 3
