# keep components in a join that are nobody's newest:
boot 1|0|2
mode flow
service agreed

attempt 2 1
deliver 0 2
collect 0
deliver 2 0
collect 2
