"""Corners of history and measures, each a run by hand in one set of tables."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession
from tests.pipeline.made import MS, Hand

from phalanx.journal import events as ev
from phalanx.pipeline.history.intervals import stays
from phalanx.pipeline.history.removals import removals
from phalanx.pipeline.measures.changes import changes
from phalanx.pipeline.measures.detector import detector
from phalanx.pipeline.measures.links import links
from phalanx.pipeline.measures.suspicions import suspicions
from phalanx.pipeline.tables import Tables, from_rows


def two_views_of_one_change() -> list[Hand]:
    """Both are named at once, and removed one after the other."""
    ada = Hand("ada.1", "twice").view(0, "v1", "ada.1 bea.1 cyd.1")
    ada.step(10, "FA", "bea.1 cyd.1").step(20, "CLOSED").view(20, "v2", "ada.1 cyd.1")
    return [ada.step(30, "CLOSED").view(30, "v3", "ada.1")]


def given_up_before() -> list[Hand]:
    """cyd was named once, in a change that was given up, and is removed views later."""
    ada = Hand("ada.1", "given up").view(0, "v1", "ada.1 bea.1 cyd.1")
    ada.step(10, "FA", "cyd.1").step(12, "FORGET")
    ada.step(20, "FA", "bea.1").step(21, "CLOSED").view(21, "v2", "ada.1 cyd.1")
    return [ada.step(50, "FA", "cyd.1").step(51, "CLOSED").view(51, "v3", "ada.1")]


def heard_through_others() -> list[Hand]:
    ada = Hand("ada.1", "semi").view(0, "v1", "ada.1 bea.1")
    ada.suspect(100, "bea.1", "SUSPECTED").suspect(200, "bea.1", "SEMI", evidence="RELAY")
    ada.suspect(5000, "bea.1", "SUSPECTED").suspect(5400, "bea.1", "FAULTY")
    return [ada.step(5400, "FA", "bea.1").step(5401, "CLOSED").view(5401, "v2", "ada.1")]


def gone_before_the_view() -> list[Hand]:
    """bea leaves, cyd crashes, dov lacks rows: none of them has v2, from which ada removes them."""
    everybody = "ada.1 bea.1 cyd.1 dov.1"
    ada = Hand("ada.1", "gone").view(0, "v1", everybody).view(10, "v2", everybody, cause="JOIN")
    ada.view(50, "v3", "ada.1")
    bea = Hand("bea.1", "gone").view(0, "v1", everybody).step(5, "LEAVE").life(6, "STOP")
    cyd = Hand("cyd.1", "gone").view(0, "v1", everybody).life(7, "CRASH")
    dov = Hand("dov.1", "gone").view(0, "v1", everybody).view(10, "v2", everybody)
    dov.life(40, "STOP")
    del dov.rows[1]
    return [ada, bea, cyd, dov]


def heard_after_its_last_row() -> list[Hand]:
    """bea writes nothing after 1000 ms, is heard at 1600, and is killed some time later."""
    ada = Hand("ada.1", "heard").view(0, "v1", "ada.1 bea.1")
    ada.suspect(1500, "bea.1", "SUSPECTED").suspect(1600, "bea.1", "OPERATIONAL", evidence="DIRECT")
    ada.suspect(5500, "bea.1", "SUSPECTED").view(6000, "v2", "ada.1").clock(90_000, 0)
    return [ada, Hand("bea.1", "heard").view(0, "v1", "ada.1 bea.1").clock(1000, 0)]


def held_again() -> list[Hand]:
    """bea's journal ends early, and it is a member once more: it lived."""
    ada = Hand("ada.1", "again").view(0, "v1", "ada.1 bea.1").suspect(150, "bea.1", "SUSPECTED")
    ada.view(200, "v2", "ada.1").view(210, "v3", "ada.1 bea.1", cause="JOIN")
    ada.suspect(550, "bea.1", "SUSPECTED").view(600, "v4", "ada.1")
    return [ada, Hand("bea.1", "again").view(0, "v1", "ada.1 bea.1").clock(90, 0)]


def beginning_missing() -> list[Hand]:
    return [Hand("ada.1", "late").view(9, "v2", "ada.1 bea.1", prev_vid="v1")]


def dying_links() -> list[Hand]:
    ada = Hand("ada.1", "links").view(0, "v1", "ada.1 bea.1 cyd.1 dov.1")
    counts = {"bea": (25, 57), "cyd": (0, 3), "dov": (0, 0)}
    for peer, (frames, missed) in counts.items():
        known = {"peer": peer, "peer_inc": 1, "vid": "v1", "asked": 0, "repeated": 0}
        ada.put(9, ev.Link, frames=frames, missed=missed, **known)
    return [ada]


MADE = (
    *(two_views_of_one_change, given_up_before, heard_through_others, gone_before_the_view),
    *(heard_after_its_last_row, held_again, beginning_missing, dying_links),
)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    return from_rows(spark, [hand.journal for made in MADE for hand in made()])


@pytest.fixture(scope="module")
def removed(tables: Tables) -> dict[tuple[str, str], Row]:
    return {(row.run, row.member): row for row in removals(tables).collect()}


@pytest.fixture(scope="module")
def changed(tables: Tables) -> dict[tuple[str, str], Row]:
    return {(row.run, row.vid): row for row in changes(tables).collect()}


@pytest.fixture(scope="module")
def detected(tables: Tables) -> dict[str, Row]:
    """By ada, one row in a run: a second one would be lost, so it is counted."""
    rows = detector(tables).where("node = 'ada' and run in ('heard', 'again')").collect()
    assert len(rows) == 2
    return {row.run: row for row in rows}


def test_the_step_that_named_a_member_is_evidence_of_a_later_view_too(
    removed: dict[tuple[str, str], Row], changed: dict[tuple[str, str], Row]
) -> None:
    for member in ("bea", "cyd"):
        (observer,) = removed["twice", member].observers
        assert observer.stepped_ns == 10 * MS
    told = [row.action for row in removed["twice", "cyd"].chain if row.kind == "STEP"]
    assert told == ["FA", "CLOSED"]
    assert changed["twice", "v2"].agreement_ns == 10 * MS
    assert changed["twice", "v3"].agreement_ns == 20 * MS


def test_a_change_that_was_given_up_views_ago_is_no_evidence(
    removed: dict[tuple[str, str], Row], changed: dict[tuple[str, str], Row]
) -> None:
    (observer,) = removed["given up", "cyd"].observers
    assert observer.stepped_ns == 50 * MS
    assert changed["given up", "v3"].agreement_ns == MS


def test_a_suspicion_that_was_taken_back_through_others_does_not_count(
    removed: dict[tuple[str, str], Row], changed: dict[tuple[str, str], Row]
) -> None:
    found = changed["semi", "v2"]
    assert (found.suspicion_ns, found.took_ns) == (400 * MS, 401 * MS)
    removal = removed["semi", "bea"]
    assert removal.observers[0].suspected_ns == 5000 * MS
    states = [row.state for row in removal.chain if row.kind == "SUSPECT"]
    assert states == ["SUSPECTED", "SEMI", "SUSPECTED", "FAULTY"], "all of it is told"


def test_who_was_gone_before_the_view_is_not_said_to_have_missed_it(
    removed: dict[tuple[str, str], Row],
) -> None:
    fates = {member: row.fate for (run, member), row in removed.items() if run == "gone"}
    assert fates == {"bea": "LEFT", "cyd": "CRASHED", "dov": "UNKNOWN"}


def test_who_was_heard_after_its_last_row_was_up_then(
    tables: Tables, detected: dict[str, Row]
) -> None:
    kinds = [r.kind for r in suspicions(tables).where("run = 'heard'").orderBy("from_ns").collect()]
    assert kinds == ["MISTAKE", "RIGHT"]
    found = detected["heard"]
    assert (found.mistakes, found.mistake_ns, found.watched_ns) == (1, 100 * MS, 1600 * MS)
    assert (found.crash, found.detection_ns) == ("ESTIMATED", 3900 * MS)


def test_a_pair_has_one_row_and_who_came_back_had_not_crashed(detected: dict[str, Row]) -> None:
    found = detected["again"]
    assert (found.crash, found.detection_ns, found.suspicions) == ("ESTIMATED", 460 * MS, 2)


def test_whom_a_view_gained_is_unknown_where_the_one_before_is_missing(tables: Tables) -> None:
    (found,) = stays(tables).where("run = 'late'").collect()
    assert (found.gained, found.lost) == (None, None)


def test_the_loss_of_a_link_is_a_share(tables: Tables) -> None:
    found = {row.peer: row.loss for row in links(tables).where("run = 'links'").collect()}
    assert found == {"bea": 1.0, "cyd": 1.0, "dov": None}
