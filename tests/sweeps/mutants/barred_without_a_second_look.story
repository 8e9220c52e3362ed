# let a barred member's frame enter because of a frame that may not enter either:
# J2: in 0.0:48d527ad802ea638 only one of m0 and m3 delivers message 1 of m1
boot 0 1 2 3
mode flow
service safe

data 1
break 0 1
break 0 2
deliver 2 1
