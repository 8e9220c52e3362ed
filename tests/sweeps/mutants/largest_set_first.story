# of several closed sets install the largest:
# J1: from 0.0:68364f4c8b181cb2 m0 goes to 0.1:f9c2d7d3f5f8aaab, m4 to 0.1:b723271975bcee6e
boot 0 1 2 3 4
mode hold
service causal

break 4 2
deliver 0 4
deliver 1 4
break 0 1
deliver 4 1
