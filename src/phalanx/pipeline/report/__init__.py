"""Journals as one page to look at: `phalanx report`.

model      what the page is told, as plain values, and how much of it at most
axis       runs, lives and the one axis of time that each run is drawn on
bands      who was in which view, and when
flows      sends and deliveries of a sample of the messages, suspicions
charts     throughput, links, latency
removals   who was taken out of a view, by whom, on what evidence
verdicts   what the audit says of each guarantee
collect    a set of tables to a model: all that Spark is asked
assembly   a model to the text of one HTML file
page/      the page itself: HTML, CSS and JavaScript, by hand
"""
