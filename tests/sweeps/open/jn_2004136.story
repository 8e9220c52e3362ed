# sound core, JN: seed 2004136, branch 7, of the walker at fe06b49, made smaller;
# only crashed members are suspected, and only packets of crashed members are lost
boot 3|0 1 5|2 4
mode hold
service safe
calm throughout

crash 4
attempt 2 3
deliver 3 2
collect 3
deliver 2 3
deliver 2 3
break 3 4
deliver 2 3
attempt 2 0
crash 2
break 3 2
