# moved-upwards-only: JC
boot 0 1 2
mode hold
service agreed
changes 3

break 1 0
deliver 2 1
deliver 0 1
deliver 0 2
deliver 1 0
break 1 2
attempt 2 0
deliver 0 2
deliver 1 0
deliver 1 0
collect 1
