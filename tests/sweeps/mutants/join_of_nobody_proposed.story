# propose a join that nobody answered:
# JC: m1 has changed its view 2 times, not 1
boot 1|0
mode flow
service agreed
changes 1

attempt 1 0
collect 1
