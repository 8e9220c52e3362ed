"""The audit: verdicts on the guarantees of any number of runs, computed on Spark.

chronicle, outline, small       lives and views of each run, as small tables
view_checks, markers, reports   the checks in Python, one run at a time
messages, cells, prepare        what the checks of messages look at, made once
integrity ... receipts          the checks of messages, as column functions
past, batched                   causality, in numpy
findings, sentences             one shape for all violations, and their texts
verdicts, run                   holds, violated, unverifiable; and the audit as a whole

The audit judges message-level properties without the checkers of `verify`: two independent programs
that a test compares on thousands of runs. View-level properties need few rows, so there the audit
runs the checkers themselves (`view_checks`). The catalogue `verify.properties` lists which property
is judged how.
"""

from phalanx.pipeline.audit.run import audit, audit_frames, wanted
from phalanx.pipeline.audit.verdicts import Audit, AuditViolation, Result, RunVerdicts
from phalanx.verify.properties import PROPERTIES

__all__ = [
    "PROPERTIES",
    "Audit",
    "AuditViolation",
    "Result",
    "RunVerdicts",
    "audit",
    "audit_frames",
    "wanted",
]
