# merge a component again that was merged or left before:
# J5: m1 delivers message 2 of m2 before message 1 of m1, which it follows
boot 1 2|0 3
mode flow
service agreed

attempt 3 2
deliver 2 3
deliver 3 2
break 2 3
break 0 3
calm
attempt 2 3
collect 2
leave 3
break 1 0
deliver 2 1
data 2
data 1
deliver 2 1
data 2
