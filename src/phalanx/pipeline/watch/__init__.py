"""Continuous ingest and audit: `phalanx watch`.

closed_views    when a view of a group can be judged
unit_audit      judge views of the groups of a lake, as rows of `verdicts` and `findings`
fill_verdicts   the same for whole groups or a window of time
watcher         ingest, judge what has closed, write the verdicts, and find alerts
alerts          what is reported to an operator, and from which thresholds on
webhook, open_metrics
                where alerts and counts go
"""
