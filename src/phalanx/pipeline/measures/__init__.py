"""Measures of a group: failure detectors, deliveries, view changes, links.

watch_intervals       who watched whom from when to when, and when the watched member went down
suspicion_intervals   suspicions as intervals, and whether each was right
detector_quality      the quality of the failure detectors (Chen, Toueg, Aguilera)
delivered_ranges      deliveries, split at the boundaries of their submissions
latency               from submission to delivery, percentiles
throughput            messages and bytes delivered over time
links                 loss and retransmissions by link
view_change_duration  the duration of view changes
partitions            the components of the group over time
registry              the measures by name

Each is a function of the tables of one group in one run, without Spark; `engine` runs them on all
groups. Durations at one member are by its own clock, or by the simulator's. Clocks of two members
are compared only in a simulation and within one boot of one machine; results that would need more
are left out, or marked.
"""
