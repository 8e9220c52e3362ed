# stable-by-phase-1: JM
boot 1|0 2
mode flow
service safe

attempt 0 1
data 2
