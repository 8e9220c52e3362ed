# the frame that installs a view by arriving is carried into it (J4: it was kept too late, and repeats were dropped)
boot 0 1 2 3 4
mode flow
service safe

break 1 3
deliver 4 1
deliver 3 1
deliver 4 3
deliver 3 4
deliver 4 3
deliver 2 4
deliver 4 2
deliver 3 2
send 0 3
deliver 4 0
ack 2
fetch 2 1 1
deliver 4 2
deliver 4 3
deliver 3 2
break 0 3
deliver 4 0
deliver 3 0
deliver 3 0
deliver 4 3
deliver 2 1
deliver 2 0
send 2 2
deliver 4 2
deliver 3 2
deliver 2 0
attempt 2 3
deliver 4 2
deliver 3 2
deliver 4 3
deliver 2 3
deliver 2 3
deliver 2 3
deliver 2 3
break 0 2
break 4 0
break 2 0
deliver 1 2
deliver 1 2
deliver 1 2
deliver 3 2
send 4 0
deliver 1 2
deliver 1 2
deliver 0 2
deliver 4 2
send 2 2
deliver 1 2
deliver 4 2
send 1 1
deliver 1 0
deliver 1 0
deliver 1 0
deliver 4 0
deliver 0 3
deliver 0 3
deliver 0 3
fetch 0 4 1
deliver 0 3
deliver 0 3
deliver 3 4
deliver 0 3
deliver 3 4
deliver 4 3
deliver 1 4
deliver 2 3
deliver 2 3
send 3 3
deliver 1 2
deliver 4 2
deliver 0 3
deliver 4 3
ack 0
deliver 1 0
send 2 2
deliver 2 0
deliver 2 0
deliver 1 2
deliver 4 0
deliver 2 4
deliver 2 4
deliver 3 0
deliver 3 0
deliver 2 3
deliver 0 4
deliver 0 4
send 3 0
deliver 4 3
deliver 2 3
fetch 0 1 1
send 3 0
deliver 4 1
deliver 2 0
deliver 3 0
deliver 4 2
deliver 4 0
deliver 4 3
send 1 1
deliver 1 3
deliver 1 3
deliver 1 3
deliver 1 3
deliver 1 3
deliver 2 1
deliver 1 3
deliver 1 3
deliver 1 3
deliver 1 3
break 1 0
deliver 2 3
deliver 4 1
ack 1
break 1 4
break 3 4
deliver 1 3
deliver 4 3
ack 4
deliver 3 4
deliver 3 4
deliver 2 4
deliver 4 2
ack 0
deliver 2 0
break 4 2
break 0 2
deliver 3 4
deliver 4 0
deliver 2 4
fetch 0 2 2
deliver 2 4
deliver 4 2
ack 3
deliver 1 3
deliver 3 2
deliver 4 3
ack 2
deliver 3 2
deliver 0 2
deliver 4 2
attempt 1 2
deliver 2 3
deliver 2 3
fetch 0 2 3
deliver 4 1
deliver 1 2
deliver 2 1
deliver 3 1
deliver 3 0
deliver 2 1
deliver 2 1
