"""Did the run keep its promises? Every property of PROTOCOLS D.1 and D.2, on rows alone.

The checkers know the journal's schema and nothing of the code that made the rows, so that a
misunderstanding in one is not repeated in the other. They work on ranges of messages.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.journal.events import Event
from phalanx.sim.checkers.batches import check_batches
from phalanx.sim.checkers.causal import check_causal
from phalanx.sim.checkers.findings import (
    FIXED_VIEW,
    PROPERTIES,
    Findings,
    Place,
    PropertyResult,
    Report,
    Verdict,
    Violation,
)
from phalanx.sim.checkers.flow_control import Limits, check_flow_control
from phalanx.sim.checkers.homes import Mode, check_homes
from phalanx.sim.checkers.integrity import Contents, check_integrity
from phalanx.sim.checkers.liveness import check_liveness
from phalanx.sim.checkers.lost import check_lost
from phalanx.sim.checkers.membership import check_membership
from phalanx.sim.checkers.merges import check_merges
from phalanx.sim.checkers.order import check_order
from phalanx.sim.checkers.receipts import Inserted, check_receipts
from phalanx.sim.checkers.reports import check_reports
from phalanx.sim.checkers.routes import routes
from phalanx.sim.checkers.safe import check_safe
from phalanx.sim.checkers.settling import check_settling
from phalanx.sim.checkers.synchrony import check_synchrony
from phalanx.sim.checkers.trace import Trace
from phalanx.sim.checkers.vectors import Vectors

__all__ = [
    "FIXED_VIEW",
    "PROPERTIES",
    "Contents",
    "Inserted",
    "Limits",
    "Mode",
    "Place",
    "PropertyResult",
    "Report",
    "Verdict",
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
    limits: Limits | None = None,
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
    vectors = Vectors(trace)
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
