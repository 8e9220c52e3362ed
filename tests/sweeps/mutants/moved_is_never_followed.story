# moved-is-never-followed: JC
boot 2|3|4|1|0
mode hold
service agreed
changes 2

attempt 1 4
collect 1
deliver 3 1
deliver 2 3
deliver 3 2
deliver 1 2
deliver 3 1
collect 3
deliver 2 3
deliver 1 2
late 0 1 1
deliver 3 2
deliver 3 1
collect 0
