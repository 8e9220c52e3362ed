# unites-what-names-me: JC
boot 0 1 2
mode flow
service safe
changes 2

break 1 2
deliver 2 1
break 1 0
deliver 0 2
