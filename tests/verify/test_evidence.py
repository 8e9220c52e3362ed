"""What is missing from journals is held against nobody, point by point."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.journal.journal_folder import keep
from tests.verify.trace_builder import TraceBuilder, odyssey, renumbered

from phalanx.journal import schema as ev
from phalanx.journal.reader import read_all
from phalanx.verify.checkers import check
from phalanx.verify.evidence import judge
from phalanx.verify.properties import PROPERTIES, Needs, needing

SETTLED = needing(Needs.SETTLED_RUN)
ALONE = frozenset(PROPERTIES) - needing(Needs.ALL_JOURNALS)


def apart(tale: TraceBuilder) -> list[ev.Event]:
    """Rows of members that share no clock."""
    return [msgspec.structs.replace(row, sim_ns=None) for row in tale.rows]


def narrowed() -> TraceBuilder:
    """c goes, and what a accepted for b and c leaves for b alone."""
    tale = TraceBuilder("abc").submit("a", 1, to="bc").install("ab", "v2", "ab", removals=1)
    return tale.send("a", 1, to="b").deliver("b", "a", 1, pos=0)


def test_receivers_lost_in_a_view_that_is_missing_are_no_fault() -> None:
    rows = apart(narrowed())
    assert check(rows, expect_liveness=False).violated == ()
    torn = [
        r for r in rows if not (r.member == "a" and isinstance(r, ev.ViewInstalled) and r.removals)
    ]
    assert check(torn, expect_liveness=False).violated == ()
    found = check(renumbered(torn), expect_liveness=False).violated
    assert "integrity" in found, "without a hole it is one"


def test_a_carried_message_delivered_in_a_view_that_is_missing_is_no_fault() -> None:
    tale = TraceBuilder("abc").send("a", 1, to="bc", phase=1).install("b", "v2", "ab", removals=1)
    tale.deliver("b", "a", 1, pos=0, to=["b"], to_incarnations=[1])
    rows = apart(tale)
    assert check(rows, expect_liveness=False, mode="flow").violated == ()
    torn = [r for r in rows if not (isinstance(r, ev.ViewInstalled) and r.removals)]
    assert check(torn, expect_liveness=False, mode="flow").violated == ()


def test_two_that_stopped_in_a_view_that_others_left_are_not_compared() -> None:
    """Agreed is not uniform: whoever stopped may have stopped before the view was decided."""
    tale = TraceBuilder("abc").send("a", 1).send("b", 1)
    tale.deliver("a", "a", 1, pos=0).deliver("b", "b", 1, pos=0).life("ab", "STOP")
    tale.install("c", "v2", "c", removals=2)
    assert check(apart(tale), expect_liveness=False).violated == ()


def test_rows_are_told_in_order_only_where_members_share_a_clock(tmp_path: Path) -> None:
    keep(tmp_path, odyssey().rows)
    (evidence,) = judge(read_all([tmp_path]))
    times = [row.t_ns for row in evidence.story]
    assert times == sorted(times)
    member = next(iter(evidence.headers))
    other = msgspec.structs.replace(evidence.headers[member], boot_id="another machine")
    evidence.headers[member] = other
    assert evidence.story == evidence.rows


@pytest.mark.parametrize("letter", "abcdD")
def test_without_a_journal_only_what_each_shows_alone_is_judged(
    letter: str, tmp_path: Path
) -> None:
    keep(tmp_path, odyssey().rows, mode="flow")
    member, incarnation = letter.lower(), 1 + letter.isupper()
    (tmp_path / f"g-{member}-{incarnation:06}-000001.phj").unlink()
    (evidence,) = judge(read_all([tmp_path]))
    assert evidence.absent == [(member, incarnation)]
    judged = {name: evidence.judgement(name) for name in PROPERTIES}
    assert {name for name, found in judged.items() if found.verdict == "holds"} == ALONE
    why = {found.why for name, found in judged.items() if name not in ALONE | SETTLED}
    mode = "only mode 'hold' promises it, it is 'flow' here"
    assert why == {f"no journal of {member}.{incarnation}", mode}


def test_a_wrong_queue_is_found_though_all_other_journals_are_missing(tmp_path: Path) -> None:
    tale = TraceBuilder("abc", reports=True).submit("a", 1).queue("a", accepted=2)
    keep(tmp_path, [r for r in tale.life("a", "STOP", "left").rows if r.member == "a"])
    (evidence,) = judge(read_all([tmp_path]))
    assert evidence.absent == [("b", 1), ("c", 1)]
    assert evidence.report.violated == ("accepted-is-sent",)
