"""The audit: what the journals of groups prove of each guarantee, by Spark.

lives, views, messages, cells   what the checks look at, made once
membership ... reports          the checks: from what was prepared to findings
past, batched                   the part that is numpy: cause and effect
findings, sentences             one shape for all that is found, and the words for it
verdicts, run                   holds, violated, unverifiable; and all of it put together

Of the checkers of the simulator nothing is used but the names of the properties, and what a
verdict needs (`sim.evidence`): they judge the same properties by another program, and a test
compares the two on thousands of runs.
"""

from phalanx.pipeline.audit.run import audit, audit_frames, wanted
from phalanx.pipeline.audit.verdicts import Audit, Result, Run, Violation
from phalanx.verify.properties import PROPERTIES

__all__ = ["PROPERTIES", "Audit", "Result", "Run", "Violation", "audit", "audit_frames", "wanted"]
