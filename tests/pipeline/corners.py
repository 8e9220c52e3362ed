"""Small runs by hand in which history and measures are easily wrong, each with its own name."""

from __future__ import annotations

from tests.pipeline.made import Hand


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
    ada = Hand("ada.1", "gone").view(0, "v1", everybody).view(10, "v2", everybody, cause="join")
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
    ada.view(200, "v2", "ada.1").view(210, "v3", "ada.1 bea.1", cause="join")
    ada.suspect(550, "bea.1", "SUSPECTED").view(600, "v4", "ada.1")
    return [ada, Hand("bea.1", "again").view(0, "v1", "ada.1 bea.1").clock(90, 0)]


def beginning_missing() -> list[Hand]:
    return [Hand("ada.1", "late").view(9, "v2", "ada.1 bea.1", previous="v1")]


def without_a_view() -> list[Hand]:
    """gus never has the view from which bea removes it: it was killed, or it stopped."""
    hands = []
    for run in ("killed", "stopped"):
        hands.append(Hand("bea.1", run).view(0, "v1", "bea.1 gus.1").view(9, "v2", "bea.1"))
        gus = Hand("gus.1", run).view(0, "v0", "gus.1")
        hands.append(gus.life(5, "STOP") if run == "stopped" else gus)
    return hands
