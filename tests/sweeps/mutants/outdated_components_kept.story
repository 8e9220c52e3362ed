# keep components in a join that are nobody's newest:
# JC: m0 has changed its view 3 times, not 2
boot 1|0|2
mode flow
service agreed
changes 2

attempt 2 1
deliver 0 2
collect 0
deliver 2 0
collect 2
