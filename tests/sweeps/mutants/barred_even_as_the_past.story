# keep a barred member's frames out even if a survivor's frame follows them:
# JC: m0 has changed its view 3 times, not 2
boot 0 1 2
mode flow
service safe
changes 2

break 2 1
data 1
