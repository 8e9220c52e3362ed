"""Did the run keep its promises? Every property of PROTOCOLS D.1 and D.2, on rows alone.

The checkers know the journal's schema and nothing of the code that made the rows, so that a
misunderstanding in one is not repeated in the other. They work on ranges of messages.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.journal.schema import Event
from phalanx.verify.checkers.causal import check_causal
from phalanx.verify.checkers.causal_vectors import CausalVectors
from phalanx.verify.checkers.convergence import check_settling
from phalanx.verify.checkers.delivery_view import Mode, check_homes
from phalanx.verify.checkers.findings import (
    Findings,
    PropertyResult,
    Report,
    RowPlace,
    Violation,
)
from phalanx.verify.checkers.integrity import Contents, check_integrity
from phalanx.verify.checkers.liveness import check_liveness
from phalanx.verify.checkers.lost_receivers import check_lost
from phalanx.verify.checkers.merge_reports import check_merges
from phalanx.verify.checkers.order import check_order
from phalanx.verify.checkers.receipt_truth import Inserted, check_receipts
from phalanx.verify.checkers.safe import check_safe
from phalanx.verify.checkers.toto_batches import check_batches
from phalanx.verify.checkers.trace import Trace
from phalanx.verify.checkers.transitions import routes
from phalanx.verify.checkers.view_reports import check_reports
from phalanx.verify.checkers.views import check_membership
from phalanx.verify.checkers.virtual_synchrony import check_synchrony
from phalanx.verify.checkers.window import FlowLimits, check_flow_control

__all__ = [
    "Contents",
    "FlowLimits",
    "Inserted",
    "Mode",
    "PropertyResult",
    "Report",
    "RowPlace",
    "Violation",
    "check",
]


def check(
    rows: Iterable[Event],
    *,
    expect_liveness: bool,
    mode: Mode | None = None,
    inserted: Inserted | None = None,
    contents: Contents | None = None,
    undisturbed_ns: int = 0,
    changes_max: int | None = None,
    limits: FlowLimits | None = None,
) -> Report:
    """Checks the rows of one run of one group, in any order.

    `expect_liveness` says that the run settled: whatever was going to happen has happened.
    `mode` is what the members do during changes; only `hold` promises delivery in the sending
    view. The rest only a simulator knows: when each member had each frame, what the bodies
    were, from when on nobody was disturbed, say by a pause (crashes, starts and topology are
    told by rows), and how often a member had cause to change its view. `limits` are settings of the
    members that bound what they may do.
    ValueError for rows of two runs or groups.
    """
    trace = Trace(rows, over=expect_liveness)
    vectors = CausalVectors(trace)
    ways = routes(trace)
    out = Findings()
    out.report.statistics["torn-journals"] = len(trace.lives.torn)
    check_membership(trace, out)
    check_integrity(trace, contents, out)
    check_homes(trace, mode, out)
    check_causal(trace, vectors, out)
    check_order(trace, ways, out)
    check_batches(ways, vectors, out)
    check_synchrony(trace, ways, out)
    check_safe(trace, inserted, out)
    check_liveness(trace, out)
    check_settling(trace, undisturbed_ns, changes_max, out)
    check_receipts(trace, inserted, out)
    check_lost(trace, out)
    check_merges(trace, out)
    check_reports(trace, None if limits is None else limits.leave_ns, out)
    check_flow_control(trace, limits, out)
    return out.report
