"""The audit: verdicts on the guarantees of any number of groups, by kernels on Arrow columns.

chronicle, message_columns      lives and views of a group; its messages as numpy columns
group_facts, delivered_cells    what the checks look up: views, routes, who delivered what how
view_checks, markers, reports   the checks in Python, on few rows
integrity ... receipts          the checks of messages, in numpy
past, past_vectors, batched, causality
                                causality and batches
group_findings, sentences       one shape for all violations, and their texts
verdicts, judge                 holds, violated, unverifiable; and one group as a whole
group_summary, group_part, large_group
                                a large group, in parts of bounded size
plan_audit                      all groups, in this process or on Spark

The audit judges message-level properties without the checkers of `verify`: two independent programs
that a test compares on thousands of runs. View-level properties need few rows, so there the audit
runs the checkers themselves (`view_checks`). The catalogue `verify.properties` lists which property
is judged how.
"""

from phalanx.pipeline.audit.judge import audit_groups, judge_group, summed, wanted
from phalanx.pipeline.audit.plan_audit import audit_plan
from phalanx.pipeline.audit.verdicts import Audit, AuditViolation, Result, RunVerdicts
from phalanx.verify.properties import PROPERTIES

__all__ = [
    "PROPERTIES",
    "Audit",
    "AuditViolation",
    "Result",
    "RunVerdicts",
    "audit_groups",
    "audit_plan",
    "judge_group",
    "summed",
    "wanted",
]
