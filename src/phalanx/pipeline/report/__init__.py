"""The report page: the journals of a group as one HTML file (`phalanx report`).

model         the data of the page as plain values, and its limits
time_axis     the lives and the time axis of a run
view_bands    who was in which view, and when
message_flow  sends and deliveries of a sample of the messages, and suspicions
charts        throughput, links, latency
removals      who was removed from a view, by whom, on what evidence
verdicts      the verdicts of the audit, with the rows of its counter-examples
collect       from the tables of groups to a model
html          from a model to the text of one HTML file
page/         the page itself: HTML, CSS and JavaScript, without a framework
"""
