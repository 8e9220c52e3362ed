# deliver what follows no JOIN or FA of the change in the view that ends (5.3):
# J2: in 1.0:38575f8273304f30 only one of m0 and m2 delivers message 1 of m1
boot 0 1 2
mode flow
service agreed

break 1 2
calm
attempt 0 2
deliver 2 0
deliver 1 2
collect 2
deliver 1 2
data 1
split 0 0 1
break 2 1
