"""How well a group did: its detectors, its deliveries, its changes, its links.

watches      who watched whom from when to when, and when the watched one went down
suspicions   each suspicion from when to when, and whether it was right
detector     the quality of the detectors (Chen, Toueg, Aguilera)
parts        deliveries, cut where their submissions are
latency      from submission to delivery, percentiles
throughput   messages and bytes delivered over time
links        loss and repeats by link
changes      how long changes of the view took
partitions   into which components the group fell, over time

Each is a function from tables to a frame. Durations at one member are by its own clock, or by the
simulator's. Clocks of two members are compared only in a simulation and within one boot of one
machine; what needs more is left out, or marked.
"""
