# J: m3 hears m1 count it from a view that m3 installs only later and leaves at once, alone; a time-out of m1 leaves it
# out unless it says where it is as soon as it is there (JN). Found by a walk; only crashed members are suspected.
boot 2|0 1|3
mode hold
service causal
calm throughout

attempt 2 0
crash 0
deliver 3 2
deliver 2 3
deliver 1 3
collect 3
break 1 0
deliver 1 3
deliver 2 3
ack 2
crash 2
