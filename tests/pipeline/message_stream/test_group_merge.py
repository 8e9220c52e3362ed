"""Which journal is followed, what is yielded when, and where continuity breaks: made by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.pipeline.message_stream.made_group import VIEW, MadeGroup
from tests.pipeline.message_stream.simulated_group import check_seed, items_of

from phalanx.errors import PipelineError
from phalanx.journal import schema as ev
from phalanx.journal.tail_reader import Place
from phalanx.pipeline.message_stream import group_merge
from phalanx.pipeline.message_stream.group_merge import (
    NO_JOURNAL,
    OTHER_COMPONENT,
    ROWS_MISSING,
    Break,
    GroupMerge,
)
from phalanx.pipeline.message_stream.member_log import MemberLog, Range
from phalanx.pipeline.message_stream.order_comparison import compare


class Fed:
    """A merge that was given rows of a made group."""

    def __init__(self, group: MadeGroup) -> None:
        self.group = group
        self.merge = GroupMerge("g")
        self._at: dict[str, int] = {}

    def read(self, *names: str, skip: int = 0) -> Fed:
        for name in names:
            begin = self._at.get(name, 0) + skip
            rows = self.group.rows[name][begin:]
            self._at[name] = begin + len(rows)
            if rows:
                log = self.merge.log(name, f"{name}.1")
                place = Place(1, begin, begin)
                self.merge.fix(log.add(rows, rows[0].lseq, rows[-1].lseq, place))
        return self

    def step(self) -> list[Any]:
        """Numbers of messages with their senders, and breaks."""
        out: list[Any] = []
        for found in self.merge.step():
            if isinstance(found, Break):
                out.append((found.reason, found.from_journal, found.to_journal))
            else:
                out += [f"{i[2]}{i[4]}" for i in items_of(self.group.rows, found)]
        return out


def test_a_position_is_yielded_when_all_members_have_delivered_it() -> None:
    group = MadeGroup("ada", "bea").say("ada", 3)
    fed = Fed(group)
    assert fed.read("ada").step() == []
    assert fed.read("bea").step() == ["ada1", "ada2", "ada3"]


def test_a_position_is_yielded_when_a_later_message_of_a_member_that_delivered_it_is_stable() -> (
    None
):
    """Journals of bea are missing: what ada knows is enough."""
    group = MadeGroup("ada", "bea").say("bea", 3).say("bea", 1)
    sent: dict[str, Any] = {"service": "AGREED", "view": VIEW, "phase": 0, "frame": 1}
    group.put("ada", ev.Sent, first=1, last=1, **sent).say("bea", 1)
    fed = Fed(group)
    assert fed.read("ada").step() == []
    stable: dict[str, Any] = {"sender": "ada", "sender_incarnation": 1, "view": VIEW}
    group.put("ada", ev.Stable, upto=1, **stable, members=["ada"], member_incarnations=[1])
    assert fed.read("ada").step() == [], "known of some members only"
    group.put("ada", ev.Sent, first=2, last=2, **sent).put("ada", ev.Stable, upto=2, **stable)
    assert fed.read("ada").step() == ["bea1", "bea2", "bea3", "bea4", "bea5"]


def test_all_of_a_view_is_yielded_when_the_member_has_left_it() -> None:
    group = MadeGroup("ada", "bea").say("bea", 2).close()
    assert Fed(group).read("ada").step() == ["bea1", "bea2"]


def test_when_the_member_dies_the_stream_goes_on_with_one_that_came_along() -> None:
    group = MadeGroup("ada", "bea", "cyd").say("bea", 2)
    fed = Fed(group)
    assert fed.read("ada", "bea", "cyd").step() == ["bea1", "bea2"]
    group.say("cyd", 1, only=("bea", "cyd"))
    assert fed.read("bea", "cyd").step() == [], "ada has not said so, and may live"
    group.close("bea", "cyd").say("bea", 1)
    assert fed.read("bea", "cyd").step() == ["cyd1", "bea3"]


def test_a_member_of_another_component_continues_with_a_break_that_loses_nothing() -> None:
    group = MadeGroup("ada", "bea").say("bea", 1)
    install = group.rows["ada"][1]
    assert isinstance(install, ev.ViewInstalled)
    install.transitional.remove("bea")
    install.transitional_incarnations.pop()
    group.put("ada", ev.Life, op="STOP")
    group.say("bea", 1, only=("bea",)).close("bea")
    fed = Fed(group).read("ada", "bea")
    assert fed.step() == ["bea1", (OTHER_COMPONENT, "ada", "bea"), "bea2"]


def test_without_a_journal_of_the_view_there_is_a_break() -> None:
    group = MadeGroup("ada", "bea").say("bea", 1).close("ada").say("ada", 1)
    group.put("ada", ev.Life, op="STOP")
    fed = Fed(group).read("ada")
    assert fed.step() == ["bea1", "ada1"]
    group.install("bea", "4.0:v4", 4, "3.1:v3", ("bea",))
    told: dict[str, Any] = {"sender": "bea", "sender_incarnation": 1, "batch": 1, "frame": 1}
    told |= {"view": "4.0:v4", "origin": "4.0:v4", "region": "REGULAR", "service": "SAFE"}
    group.put("bea", ev.Deliver, first=1, last=3, phase=0, pos=0, **told)
    assert fed.read("bea").step() == [(NO_JOURNAL, "ada", "bea"), "bea2", "bea3"]


def test_missing_rows_are_a_break_in_the_same_journal_if_there_is_no_other() -> None:
    group = MadeGroup("ada").say("ada", 1)
    fed = Fed(group)
    assert fed.read("ada").step() == ["ada1"]
    group.say("ada", 1).say("ada", 1)
    assert fed.read("ada", skip=1).step() == [(ROWS_MISSING, "ada", "ada"), "ada3"]


def test_messages_to_some_members_are_not_part_of_the_stream() -> None:
    group = MadeGroup("ada", "bea").say("ada", 1)
    group.say("ada", 1, only=("bea",))
    row = group.rows["bea"][-1]
    assert isinstance(row, ev.Deliver)
    kept = {f: getattr(row, f) for f in row.__struct_fields__}
    group.rows["bea"][-1] = ev.Deliver(**kept | {"to": ["bea"], "to_incarnations": [1]})
    group.say("bea", 1).close()
    for first, second in (("ada", "bea"), ("bea", "ada")):
        assert Fed(group).read(first).step() == ["ada1", "bea1"]
        assert Fed(group).read(first, second).step() == ["ada1", "bea1"]


def test_a_position_that_another_member_left_out_is_refused() -> None:
    group = MadeGroup("ada", "bea").say("ada", 1).say("ada", 1, only=("ada",)).say("bea", 1).close()
    with pytest.raises(PipelineError, match="position 1: journal ada, row 4, has ada"):
        Fed(group).read("ada", "bea").step()


@pytest.mark.parametrize(
    ("ones", "others", "pos"),
    [
        ([(0, 1, 5)], [(0, 1, 2), (2, 3, 5)], None),
        ([(0, 1, 5)], [(0, 1, 2), (2, 4, 6)], 2),
        ([(0, 1, 2), (5, 3, 4)], [(0, 1, 2), (5, 3, 4)], None),
        ([(0, 1, 2), (5, 3, 4)], [(0, 1, 2), (4, 3, 4)], 4),
        ([], [(3, 1, 1)], 3),
        ([], [], None),
    ],
)
def test_orders_are_compared_by_position(
    ones: list[tuple[int, int, int]], others: list[tuple[int, int, int]], pos: int | None
) -> None:
    def ranges(some: list[tuple[int, int, int]]) -> list[Range]:
        return [Range(p, "ada", 1, a, b, 1, "j", Place(1, 0, 0)) for p, a, b in some]

    found = compare(ranges(ones), ranges(others), 0, 7)
    assert (found.pos if found else None) == pos


# ---------------------------------------------------------------------- rules that matter


def _everything_is_fixed(merge: GroupMerge, stay: Any) -> int:
    return 1 << 60


def test_the_sweep_finds_a_merge_that_yields_positions_that_are_not_fixed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GroupMerge, "_fixed", _everything_is_fixed)
    assert _fails(range(40))


def test_the_sweep_finds_a_merge_that_takes_receipts_for_the_own_side_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mutant: all that a member has delivered counts as fixed with its next receipt."""

    def stable(log: MemberLog, row: ev.Stable) -> int | None:
        return log.last.upto if log.last is not None and log.last.view == row.view else None

    monkeypatch.setattr(MemberLog, "_stable", stable)
    assert _fails(range(60))


def _fails(seeds: range) -> bool:
    for seed in seeds:
        try:
            check_seed(seed)
        except (AssertionError, PipelineError):
            return True
    return False


def test_the_state_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    group = MadeGroup("ada", "bea")
    random = Random(1)
    for _ in range(300):
        group.say(random.choice(["ada", "bea"]), random.randint(1, 9))
    fed = Fed(group).read("ada", "bea")
    fed.step()
    assert not any(fed.merge.merged.logs[name].ranges[2] for name in ("ada", "bea"))
    monkeypatch.setattr(group_merge, "YIELDED_RANGES_MAX", 10)
    group.say("ada", 1)
    assert fed.read("ada", "bea").step() != []
