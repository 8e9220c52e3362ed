# no-answer-without-news: m1 proposes to unite with a component that m0 has merged before; m0 has nothing to add and must answer
boot 0|1|2
mode flow
service agreed
calm throughout

attempt 0 2
deliver 2 0
deliver 0 2
collect 0
collect 2
deliver 0 2
break 0 2
lose 1 0 9
attempt 0 1
deliver 1 0
deliver 0 1
collect 0
collect 1
deliver 0 1
deliver 1 0
deliver 0 1
deliver 1 0
ack 0
ack 1
deliver 0 1
deliver 1 0
crash 2
lose 1 2 9
late 1 2 0
collect 1
deliver 0 1
deliver 0 1
