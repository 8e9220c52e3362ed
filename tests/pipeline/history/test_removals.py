"""Why members were removed: by hand, and against plain loops on simulated runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.pipeline import corners
from tests.pipeline.made import MS, WALL, Hand, each, of_rows, simulated

from phalanx.errors import PipelineError
from phalanx.journal import schema as ev
from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.pipeline.history.instant import Instant
from phalanx.pipeline.history.removals import Removal, removals
from phalanx.pipeline.history.render import story, to_json
from phalanx.pipeline.history.why import removals_of, why
from phalanx.pipeline.time_window import TimeWindow

MADE = "made"
CORNERS = (
    *(corners.two_views_of_one_change, corners.given_up_before, corners.heard_through_others),
    *(corners.gone_before_the_view, corners.without_a_view),
)


@pytest.fixture(scope="module")
def runs() -> dict[str, list[ev.Event]]:
    return simulated()


def by_hand() -> list[Hand]:
    """bea removes cyd (killed), then dov (leaves), then eli (parted), then fay (no journal)."""
    all_of_them = "bea.1 cyd.1 dov.1 eli.1 fay.1"
    bea = Hand("bea.1", MADE, boot="two").view(0, "v1", all_of_them)
    bea.suspect(5, "cyd.1", "SUSPECTED").suspect(8, "cyd.1", "OPERATIONAL", evidence="DIRECT")
    bea.suspect(10, "cyd.1", "SUSPECTED").suspect(11, "dov.1", "SEMI", evidence="RELAY")
    bea.step(20, "START", stage="COLLECT").step(25, "FORGET")
    bea.suspect(30, "cyd.1", "FAULTY", evidence="STALLED").step(31, "FA", "cyd.1")
    bea.step(32, "CLOSED").put(32, ev.Transitional, view="v1", pos=7)
    bea.view(33, "v2", "bea.1 dov.1 eli.1 fay.1")
    bea.step(50, "FA", "dov.1").step(51, "CLOSED").view(52, "v3", "bea.1 eli.1 fay.1")
    bea.step(60, "FA", "eli.1").step(61, "CLOSED").view(62, "v4", "bea.1 fay.1")
    bea.step(70, "FA", "fay.1").step(71, "CLOSED").view(72, "v5", "bea.1")
    bea.view(100, "v6", "bea.1 cyd.2 eli.1", cause="join")
    cyd = Hand("cyd.1", MADE).view(1, "v1", all_of_them)
    dov = Hand("dov.1", MADE).view(40, "v2", "bea.1 dov.1 eli.1 fay.1")
    dov.step(45, "LEAVE").life(46, "STOP")
    eli = Hand("eli.1", MADE).view(0, "v3", "bea.1 eli.1 fay.1").view(9, "v8", "eli.1")
    return [bea, cyd, dov, eli]


@pytest.fixture(scope="module")
def groups(runs: dict[str, list[ev.Event]]) -> list[GroupTables]:
    hands = (*by_hand(), *(hand for corner in CORNERS for hand in corner()))
    made = [hand.journal for hand in hands]
    return groups_of_rows([*made, *(j for rows in runs.values() for j in of_rows(rows))])


@pytest.fixture(scope="module")
def found(groups: list[GroupTables]) -> list[Removal]:
    return each(removals, groups)


def why_in(
    groups: list[GroupTables], member: str, window: TimeWindow | None = None
) -> list[Removal]:
    results = (removals_of(member, window or TimeWindow(), MADE, group) for group in groups)
    return why(results, "g", member, MADE)


def test_what_became_of_the_removed_is_told_by_its_own_journal(found: list[Removal]) -> None:
    told = sorted(
        (r.target, r.view, r.next_view, r.fate, r.own_next_view)
        for r in found
        if r.run == MADE and r.observers[0].member == "bea"
    )
    assert told == [
        ("cyd", "v1", "v2", "ENDED", None),
        ("dov", "v2", "v3", "LEFT", None),
        ("eli", "v3", "v4", "APART", "v8"),
        ("fay", "v4", "v5", "UNKNOWN", None),
    ]


def removed(found: list[Removal], run: str) -> dict[str, Removal]:
    return {row.target: row for row in found if row.run == run}


def test_the_last_rows_of_a_killed_member_may_lack_its_view(found: list[Removal]) -> None:
    assert removed(found, "killed")["gus"].fate == "ENDED"
    assert removed(found, "stopped")["gus"].fate == "NEVER"


def test_who_was_gone_before_the_view_is_not_said_to_have_missed_it(found: list[Removal]) -> None:
    fates = {member: row.fate for member, row in removed(found, "gone").items()}
    assert fates == {"bea": "LEFT", "cyd": "CRASHED", "dov": "UNKNOWN"}


def test_the_step_that_named_a_member_is_evidence_of_a_later_view_too(found: list[Removal]) -> None:
    twice = removed(found, "twice")
    for member in ("bea", "cyd"):
        assert twice[member].observers[0].stepped_ns == 10 * MS
    told = [proof.action for proof in twice["cyd"].chain if proof.kind == "STEP"]
    assert told == ["FA", "CLOSED"]
    given_up = removed(found, "given up")["cyd"].observers[0]
    assert given_up.stepped_ns == 50 * MS, "a change that was given up is no evidence later"


def test_a_suspicion_that_was_taken_back_through_others_is_told_and_does_not_count(
    found: list[Removal],
) -> None:
    removal = removed(found, "semi")["bea"]
    assert removal.observers[0].suspected_ns == 5000 * MS
    states = [proof.state for proof in removal.chain if proof.kind == "SUSPECT"]
    assert states == ["SUSPECTED", "SEMI", "SUSPECTED", "FAULTY"]


def test_the_evidence_is_what_led_to_the_view_and_not_what_was_taken_back(
    found: list[Removal],
) -> None:
    (removal,) = (r for r in found if r.run == MADE and r.target == "cyd")
    chain = [(p.t_ns // MS, p.kind, p.state or p.action, p.names_it) for p in removal.chain]
    assert chain == [
        (10, "SUSPECT", "SUSPECTED", None),
        (30, "SUSPECT", "FAULTY", None),
        (31, "STEP", "FA", True),
        (32, "STEP", "CLOSED", False),
        (32, "MARKER", None, None),
        (33, "VIEW", None, None),
    ]
    (observer,) = removal.observers
    assert (observer.suspected_ns, observer.stepped_ns) == (10 * MS, 31 * MS)
    assert (observer.removed_ns, observer.back_ns) == (33 * MS, 100 * MS)
    assert (removal.back_view, removal.back_incarnation) == ("v6", 2)


def test_a_removal_is_told_as_a_story(groups: list[GroupTables]) -> None:
    (removal,) = why_in(groups, "cyd")
    assert "\n".join(story(removal)) == STORY.strip()
    assert to_json(removal)["chain"][0]["evidence"] == "SILENCE"


STORY = """
cyd.1 was removed: view v1 became v2
  its journal ends without a stop: it was killed, or the rest was not read
  from 2027-01-15T08:00:00.010000Z:
         +0.000 ms  bea.1  suspects cyd.1: no packets received
        +20.000 ms  bea.1  considers cyd.1 faulty: packets received, but no acknowledgements
        +21.000 ms  bea.1  proposes to remove cyd.1 (FA)
        +22.000 ms  bea.1  closes the view (CLOSED)
        +22.000 ms  bea.1  deliveries are transitional from position 7 on
        +23.000 ms  bea.1  installs v2 of bea.1, dov.1, eli.1, fay.1
  at bea.1: suspected for 21.000 ms, removed 2.000 ms after the proposal
  it rejoined, as cyd.2 in view v6, after 67.000 ms
"""


def test_who_was_never_in_a_view_is_an_error_that_names_who_was(groups: list[GroupTables]) -> None:
    with pytest.raises(PipelineError, match=r"member 'gus' of group 'g': .*bea.1, cyd.1"):
        why_in(groups, "gus")


def test_a_removal_is_of_the_window_in_which_the_view_without_the_member_came(
    groups: list[GroupTables],
) -> None:
    def between(first_ms: int, last_ms: int) -> list[str]:
        bounds = (Instant(WALL + ms * MS, simulated=False) for ms in (first_ms, last_ms))
        return [removal.view for removal in why_in(groups, "cyd", TimeWindow(*bounds))]

    assert between(33, 34) == ["v1"]
    assert between(10, 33) == between(34, 99) == []


# ---------------------------------------------------------------------- simulated runs


def plain_removals(rows: list[ev.Event]) -> dict[tuple[Any, ...], dict[str, tuple[Any, ...]]]:
    """(target, incarnation, view, next view) to, per observer, the numbers of the rows of
    evidence; by loops."""
    found: dict[tuple[Any, ...], dict[str, tuple[Any, ...]]] = {}
    lives: dict[tuple[str, int], list[Any]] = {}
    for row in rows:
        lives.setdefault((row.member, row.incarnation), []).append(row)
    for (member, incarnation), mine in lives.items():
        installs = [row for row in mine if isinstance(row, ev.ViewInstalled)]
        for before, after in pairwise(installs):
            stay = set(zip(after.members, after.member_incarnations, strict=True))
            for gone in zip(before.members, before.member_incarnations, strict=True):
                if gone not in stay:
                    proof = _proof(mine, gone, before.lseq, after.lseq)
                    key = (*gone, before.view, after.view)
                    found.setdefault(key, {})[f"{member}.{incarnation}"] = proof
    return found


def _proof(mine: list[Any], gone: tuple[str, int], begin: int, end: int) -> tuple[int, ...]:
    label = f"{gone[0]}.{gone[1]}"
    held = begin
    for row in reversed([r for r in mine if isinstance(r, ev.ViewInstalled) and r.lseq <= begin]):
        if gone not in zip(row.members, row.member_incarnations, strict=True):
            break
        held = row.lseq
    doubts: list[int] = []
    steps: list[tuple[int, bool]] = []
    rest: list[int] = [end]
    for row in mine:
        if isinstance(row, ev.PeerSuspicion) and held < row.lseq < end:
            if (row.target, row.target_incarnation) == gone:
                doubts = [] if row.state == "OPERATIONAL" else [*doubts, row.lseq]
        elif begin < row.lseq < end and isinstance(row, ev.Transitional):
            rest.append(row.lseq)
        elif begin < row.lseq < end and isinstance(row, ev.ViewChangeStep):
            steps.append((row.lseq, label in [*row.failed_before, *row.failed_after]))
            if row.action == "FORGET":
                steps = [step for step in steps if step[1]]
    return tuple(sorted([*doubts, *(lseq for lseq, _ in steps), *rest]))


def test_simulated_runs_have_the_removals_and_the_evidence_that_loops_find(
    found: list[Removal], runs: dict[str, list[ev.Event]]
) -> None:
    told: dict[tuple[Any, ...], dict[str, list[int]]] = {}
    for r in found:
        if r.run not in runs:
            continue
        key = (r.run, r.target, r.target_incarnation, r.view, r.next_view)
        for proof in r.chain:
            observer = f"{proof.member}.{proof.incarnation}"
            told.setdefault(key, {}).setdefault(observer, []).append(proof.lseq)
    expected = {
        (run, *key): {who: list(proof) for who, proof in seen.items()}
        for run, rows in runs.items()
        for key, seen in plain_removals(rows).items()
    }
    assert told == expected
    assert len(expected) > 10
