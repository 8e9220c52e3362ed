# join-of-nobody-proposed: JC
boot 0 1 2 3
mode flow
service safe
changes 2

break 2 1
deliver 3 2
deliver 1 3
deliver 0 3
deliver 1 0
deliver 1 2
deliver 0 2
attempt 1 0
collect 1
