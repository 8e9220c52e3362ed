# learn nothing from somebody who speaks from the view that I have not closed:
boot 0 1 2 3 4
mode hold
service agreed

break 3 1
deliver 4 3
deliver 2 4
deliver 1 3
deliver 0 3
deliver 4 1
fetch 2 3 1
deliver 1 2
break 3 2
deliver 3 4
deliver 1 4
deliver 4 1
deliver 2 0
deliver 3 2
fetch 4 2 1
deliver 0 3
deliver 1 0
deliver 4 3
break 0 4
deliver 3 4
attempt 1 2
