# Members unite with what was proposed from another view than the entry; m1 then waits for m0, which is alive,
# until the time-out (JN)
boot 1 2 3 4|0
mode flow
service safe

attempt 1 0
deliver 4 1
deliver 0 1
deliver 4 0
break 4 3
deliver 1 4
deliver 2 4
deliver 0 4
deliver 0 2
break 4 2
break 4 0
deliver 1 4
