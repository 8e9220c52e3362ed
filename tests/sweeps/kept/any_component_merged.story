# merge components that count me in a view that I am not in:
boot 0 1
mode flow
service agreed

break 1 0
deliver 0 1
deliver 1 0
attempt 1 0
deliver 0 1
deliver 1 0
break 1 0
attempt 1 0
deliver 0 1
crash 0
