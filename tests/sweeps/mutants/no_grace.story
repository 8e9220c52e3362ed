# no-grace: JC
boot 0 1 2 3 4
mode flow
service agreed
changes 2

break 1 3
deliver 4 1
deliver 2 4
deliver 1 2
break 1 0
deliver 4 1
deliver 2 4
answer 4
