"""The quality of detectors: by hand, and against plain loops on simulated runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pipeline import corners
from tests.pipeline.made import MS, Hand, each, of_rows, rows_of, simulated

from phalanx.core.effects import PROTOCOL_EVIDENCE
from phalanx.journal import schema as ev
from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.pipeline.measures.detector_quality import DetectorQuality, detector
from phalanx.pipeline.measures.suspicion_intervals import suspicions

Found = dict[tuple[Any, ...], DetectorQuality]


@pytest.fixture(scope="module")
def runs() -> dict[str, list[ev.Event]]:
    return simulated()


def known() -> list[Hand]:
    """Simulated by hand: ada suspects bea three times before it crashes at 1000 ms, and dov,
    which it cannot reach."""
    ada = Hand("ada.1", "known", simulated=True).view(0, "v1", "ada.1 bea.1 dov.1")
    ada.put(0, ev.Topology, component=["ada", "bea"])
    ada.suspect(100, "bea.1", "SUSPECTED").suspect(110, "bea.1", "OPERATIONAL", evidence="DIRECT")
    ada.suspect(300, "bea.1", "SUSPECTED").suspect(330, "bea.1", "SEMI", evidence="RELAY")
    ada.suspect(400, "dov.1", "SUSPECTED").suspect(500, "bea.1", "SUSPECTED")
    ada.suspect(520, "bea.1", "OPERATIONAL", evidence="DIRECT")
    ada.suspect(1400, "bea.1", "SUSPECTED").suspect(1800, "bea.1", "FAULTY")
    ada.view(1810, "v2", "ada.1").life(2000, "STOP")
    bea = Hand("bea.1", "known", simulated=True).view(0, "v1", "ada.1 bea.1 dov.1")
    bea.life(1000, "CRASH")
    dov = Hand("dov.1", "known", simulated=True).view(0, "v1", "ada.1 bea.1 dov.1")
    dov.life(2000, "STOP")
    return [ada, bea, dov]


def real() -> list[Hand]:
    """Real: bea is killed on ada's machine, cyd on another, dov went on elsewhere, eli is heard
    again."""
    members = "ada.1 bea.1 cyd.1 dov.1 eli.1"
    ada = Hand("ada.1", "real").view(0, "v1", members)
    ada.suspect(50, "eli.1", "SUSPECTED").suspect(60, "eli.1", "OPERATIONAL", evidence="DIRECT")
    for target in ("bea.1", "cyd.1", "dov.1"):
        ada.suspect(1400, target, "SUSPECTED")
    ada.view(1500, "v2", "ada.1 eli.1").suspect(1600, "eli.1", "SUSPECTED").clock(1700, 0)
    bea = Hand("bea.1", "real").view(0, "v1", members).clock(1000, 0)
    cyd = Hand("cyd.1", "real", boot="two").view(7000, "v1", members).clock(7500, 0)
    dov = Hand("dov.1", "real", boot="three").view(0, "v1", members).view(9000, "v3", "dov.1")
    return [ada, bea, cyd, dov]


@pytest.fixture(scope="module")
def groups(runs: dict[str, list[ev.Event]]) -> list[GroupTables]:
    heard, again = corners.heard_after_its_last_row(), corners.held_again()
    made = [hand.journal for hand in (*known(), *real(), *heard, *again)]
    return groups_of_rows([*made, *(j for rows in runs.values() for j in of_rows(rows))])


@pytest.fixture(scope="module")
def found(groups: list[GroupTables]) -> Found:
    rows = each(detector, groups)
    key = ("run", "member", "incarnation", "target", "target_incarnation")
    by_pair = {tuple(getattr(row, name) for name in key): row for row in rows}
    assert len(by_pair) == len(rows), "one row a pair"
    return by_pair


def test_a_suspicion_is_judged_by_what_is_known_of_the_suspected(groups: list[GroupTables]) -> None:
    told = [one for one in each(suspicions, groups) if one.run in ("heard", "known", "real")]
    columns = ("run", "target", "from_ns", "to_ns", "ended_by", "kind", "mistake_ns", "faulty")
    assert sorted(rows_of(told, *columns), key=lambda row: (row[0], row[2], row[1])) == [
        ("heard", "bea", 1500 * MS, 1600 * MS, "TRUST", "MISTAKE", 100 * MS, 0),
        ("heard", "bea", 5500 * MS, 6000 * MS, "REMOVAL", "RIGHT", None, 0),
        ("known", "bea", 100 * MS, 110 * MS, "TRUST", "MISTAKE", 10 * MS, 0),
        ("known", "bea", 300 * MS, 330 * MS, "TRUST", "MISTAKE", 30 * MS, 0),
        ("known", "dov", 400 * MS, 1810 * MS, "REMOVAL", "APART", None, 0),
        ("known", "bea", 500 * MS, 520 * MS, "TRUST", "MISTAKE", 20 * MS, 0),
        ("known", "bea", 1400 * MS, 1810 * MS, "REMOVAL", "RIGHT", None, 1),
        ("real", "eli", 50 * MS, 60 * MS, "TRUST", "MISTAKE", 10 * MS, 0),
        ("real", "bea", 1400 * MS, 1500 * MS, "REMOVAL", "RIGHT", None, 0),
        ("real", "cyd", 1400 * MS, 1500 * MS, "REMOVAL", "RIGHT", None, 0),
        ("real", "dov", 1400 * MS, 1500 * MS, "REMOVAL", "APART", None, 0),
        ("real", "eli", 1600 * MS, 1700 * MS, "END", "UNKNOWN", None, 0),
    ]


def test_the_quality_of_a_detector_is_as_chen_toueg_and_aguilera_define_it(
    found: Found,
) -> None:
    row = found["known", "ada", 1, "bea", 1]
    assert (row.watched_ns, row.suspicions, row.mistakes) == (1000 * MS, 4, 3)
    assert (row.mistake_ns, row.mistake_ns_max) == (20 * MS, 30 * MS)
    assert row.recurrence_ns == 200 * MS
    # Good periods of 190 and 170 ms: mean 180, variance 100.
    assert row.good_ns == 180 * MS
    assert row.forward_good_ns == pytest.approx(90 * (1 + 100 / 180**2) * MS)
    assert row.rate == pytest.approx(3.0)
    assert row.accuracy == pytest.approx(1 - 60 / 1000)
    assert (row.crash, row.detected) == ("KNOWN", 1)
    assert (row.detection_ns, row.removal_ns) == (400 * MS, 810 * MS)


def test_a_crash_is_estimated_only_on_the_same_machine(
    found: Found,
) -> None:
    same = found["real", "ada", 1, "bea", 1]
    assert (same.crash, same.detection_ns, same.removal_ns) == (
        *("ESTIMATED", 400 * MS),
        500 * MS,
    )
    other = found["real", "ada", 1, "cyd", 1]
    assert (other.crash, other.detection_ns) == (None, None)


def test_who_was_heard_or_held_again_had_not_crashed(found: Found) -> None:
    heard = found["heard", "ada", 1, "bea", 1]
    assert (heard.mistakes, heard.watched_ns) == (1, 1600 * MS)
    assert (heard.crash, heard.detection_ns) == ("ESTIMATED", 3900 * MS)
    again = found["again", "ada", 1, "bea", 1]
    assert (again.crash, again.detection_ns, again.suspicions) == (
        *("ESTIMATED", 460 * MS),
        2,
    )


def test_who_never_suspects_is_never_wrong(found: Found) -> None:
    row = found["known", "dov", 1, "ada", 1]
    assert (row.suspicions, row.rate, row.accuracy) == (0, 0.0, 1.0)
    crash = found["known", "dov", 1, "bea", 1]
    assert (crash.detected, crash.detection_ns, crash.after_ns) == (0, None, 1000 * MS)


# ---------------------------------------------------------------------- simulated runs


def plain_detections(rows: list[ev.Event]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """(observer, target) to (mistakes, their length, detection time), by loops over the rows in
    simulated order."""
    down = {
        (row.member, row.incarnation): row.sim_ns or 0
        for row in rows
        if isinstance(row, ev.Life) and row.op in ("STOP", "CRASH")
    }
    crashed = {(row.member, row.incarnation) for row in rows if getattr(row, "op", "") == "CRASH"}
    held: dict[tuple[str, int], set[tuple[str, int]]] = {}
    reach: dict[tuple[str, int], list[str]] = {}
    since: dict[tuple[Any, ...], tuple[int, bool]] = {}
    length: dict[tuple[Any, ...], list[int]] = {}
    noticed: dict[tuple[Any, ...], int] = {}

    def ended(pair: tuple[Any, ...], now: int, removed: bool = False) -> None:
        begin, wrong = since.pop(pair, (now, False))
        dead = down.get(pair[1], now)
        if wrong:
            length.setdefault(pair, []).append(min(now, dead) - begin)
        if removed and pair[1] in crashed and dead <= now:
            noticed[pair] = max(0, begin - dead)

    for row in rows:
        me, now = (row.member, row.incarnation), row.sim_ns or 0
        if isinstance(row, ev.Topology):
            reach[me] = row.component
        elif isinstance(row, ev.ViewInstalled):
            after = set(zip(row.members, row.member_incarnations, strict=True)) - {me}
            for gone in held.get(me, set()) - after:
                ended((me, gone), now, removed=True)
            held[me] = after
        elif isinstance(row, ev.PeerSuspicion) and row.evidence not in PROTOCOL_EVIDENCE:
            target = row.target, row.target_incarnation
            if target not in held.get(me, set()):
                continue
            if row.state in ("OPERATIONAL", "SEMI"):
                ended((me, target), now)
            elif (me, target) not in since:
                up = now < down.get(target, now + 1)
                since[me, target] = now, up and row.target in reach[me]
        elif isinstance(row, ev.Life) and row.op != "START":
            for target in held.get(me, set()):
                pair = me, target
                begun = pair in since
                ended(pair, now, removed=begun)
    keys = {(me, target) for me, targets in _ever(rows).items() for target in targets}
    return {
        (*me, *target): (
            len(length.get((me, target), [])),
            sum(length.get((me, target), [])),
            noticed.get((me, target)),
        )
        for me, target in keys
    }


def _ever(rows: list[ev.Event]) -> dict[tuple[str, int], set[tuple[str, int]]]:
    found: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for row in rows:
        if isinstance(row, ev.ViewInstalled):
            me = row.member, row.incarnation
            others = set(zip(row.members, row.member_incarnations, strict=True)) - {me}
            found.setdefault(me, set()).update(others)
    return found


def test_simulated_runs_have_the_mistakes_and_detections_that_loops_find(
    found: Found, runs: dict[str, list[ev.Event]]
) -> None:
    told = {
        key: (
            row.mistakes,
            round((row.mistake_ns or 0) * row.mistakes),
            row.detection_ns,
        )
        for key, row in found.items()
        if key[0] in runs
    }
    expected = {
        (run, *key): value
        for run, rows in runs.items()
        for key, value in plain_detections(rows).items()
    }
    assert told == expected
    assert sum(mistakes for mistakes, _, _ in expected.values()) > 3
    assert sum(time is not None for _, _, time in expected.values()) > 3
