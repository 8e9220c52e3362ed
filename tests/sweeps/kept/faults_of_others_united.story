# leave out of a join whom another component held for failed in its own change:
boot 0 1|2|3
mode flow
service agreed

attempt 2 3
deliver 3 2
deliver 0 3
deliver 2 0
break 2 1
deliver 0 2
break 0 3
