# moved-upwards-only: JC
boot 0 1 2 3
mode hold
service agreed
changes 4

break 1 0
break 0 2
break 1 2
deliver 2 0
deliver 3 2
break 1 3
calm
break 2 1
