# m3 crashes after it issued the view of m1, m2 and m3. Its frame reaches m1 before m1 knows m3, and m2 not at all. m1 installs
# the view and must still have the frame when m2 asks for it.
boot 0 1 2|3
mode flow
service causal
calm throughout

crash 0
break 1 0
deliver 2 1
attempt 3 1
collect 3
attempt 2 3
deliver 3 2
deliver 3 2
late 2 3 1
collect 2
deliver 3 2
crash 3
lose 2 3 4
deliver 1 3
deliver 1 3
deliver 1 3
