# keep a barred member's frames out even if a survivor's frame follows them:
boot 0 1 2
mode flow
service safe

break 2 1
data 1
