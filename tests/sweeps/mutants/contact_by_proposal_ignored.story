# contact-by-proposal-ignored: JC
boot 3|1 2|0
mode flow
service agreed
changes 3

attempt 1 0
deliver 0 1
deliver 3 0
deliver 2 3
collect 2
break 2 3
calm
attempt 1 3
deliver 3 1
deliver 0 3
break 2 0
