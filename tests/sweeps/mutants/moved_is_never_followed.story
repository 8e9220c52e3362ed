# break with a member of another component that has moved on in a join:
# JC: m0 has changed its view 3 times, not 2
boot 1 4|0 2 3
mode flow
service safe
changes 2

attempt 1 0
split 0 1 1 1 1
calm
split 0 0 0 0 0
deliver 0 1
collect 0
