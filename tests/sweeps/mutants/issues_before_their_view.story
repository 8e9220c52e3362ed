# issues-before-their-view: JX
boot 0 1 2 3
mode flow
service causal

break 2 1
deliver 3 2
deliver 0 3
deliver 0 2
break 0 3
