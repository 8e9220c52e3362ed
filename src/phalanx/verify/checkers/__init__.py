"""Checkers of the guaranteed properties on the rows of one run (docs/protocol/properties.md).

The checkers know the schema of the journal and nothing of the protocol's code, so that a mistake in
one is not repeated in the other. They work on ranges of messages.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.journal.schema import Event
from phalanx.verify.checkers.causal import check_causal
from phalanx.verify.checkers.causal_vectors import CausalVectors
from phalanx.verify.checkers.convergence import check_convergence, count_changes
from phalanx.verify.checkers.delivery_view import Mode, check_delivery_view
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
from phalanx.verify.checkers.view_reports import check_queues, check_view_reports
from phalanx.verify.checkers.views import check_views
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
    """Check the rows of one run of one group, in any order.

    `expect_liveness`: the run settled, nothing more would have happened. `mode` is the setting of
    the members; only `hold` promises delivery in the sending view. Only a simulator knows the rest:
    when each member had each frame (`inserted`), what the bodies were (`contents`), when it last
    disturbed a member, for example by a pause (`undisturbed_ns`; rows show crashes, starts and
    topology), how often a member had cause to change its view (`changes_max`), and the settings
    that bound the members (`limits`). ValueError for rows of two runs or groups.
    """
    trace = Trace(rows, over=expect_liveness)
    vectors = CausalVectors(trace)
    ways = routes(trace)
    out = Findings()
    out.report.statistics["torn-journals"] = len(trace.lives.torn)
    check_views(trace.view_trace, out)
    check_integrity(trace, contents, out)
    check_delivery_view(trace, mode, out)
    check_causal(trace, vectors, out)
    check_order(trace, ways, out)
    check_batches(ways, vectors, out)
    check_synchrony(trace, ways, out)
    check_safe(trace, inserted, out)
    check_liveness(trace, out)
    check_convergence(trace.view_trace, undisturbed_ns, changes_max, out)
    count_changes(trace, out)
    check_receipts(trace, inserted, out)
    check_lost(trace, out)
    check_merges(trace, out)
    if limits is None:
        check_view_reports(trace.view_trace, None, out)
    else:
        check_view_reports(trace.view_trace, limits.leave_ns, out, trusted=limits.trusted)
    check_queues(trace, out)
    check_flow_control(trace, limits, out)
    return out.report
