"""Journals of two groups over two days, made by hand, for derived tables and queries.

`orders`: ada, bea and cyd. ada's detector is wrong about bea three times. cyd is killed after two
minutes and comes back on the next day. `stock`: dov, and eve on another machine, who stops writing.
Times are milliseconds after 2027-01-15 08:00 UTC.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.journal.journal_folder import segment
from tests.pipeline.made import Hand

from phalanx.journal import schema as ev

BEGIN = "2027-01-15 08:00:00+00:00"
NEXT_DAY = 90_000_000
"""25 hours later."""
THREE = "ada.1 bea.1 cyd.1"
AGAIN = "ada.1 bea.1 cyd.2"


def link(hand: Hand, at_ms: float, peer: str, view: str, frames: int, missed: int) -> None:
    columns = {"peer": peer, "view": view, "frames": frames, "missed": missed}
    number = 2 if (peer, view) == ("cyd", "v3") else 1
    hand.put(at_ms, ev.LinkStats, peer_incarnation=number, asked=missed, repeated=0, **columns)


def orders() -> list[Hand]:
    """The group `orders`."""
    ada, bea, cyd, later = (
        Hand(who, "c", "orders") for who in ("ada.1", "bea.1", "cyd.1", "cyd.2")
    )
    for hand in (ada, bea, cyd):
        hand.life(0, "START").view(0, "v1", THREE)
    ada.submit(1000, 1, 100, 10, "AGREED").deliver(1002, "ada.1", 1, 100, "AGREED")
    ada.submit(2000, 101, 110, 10, "SAFE").deliver(2020, "ada.1", 101, 110, "SAFE")
    for at, state in ((10_000, 0), (10_400, 1), (20_000, 0), (20_100, 1), (30_000, 0), (30_300, 1)):
        if state:
            ada.suspect(at, "bea.1", "OPERATIONAL", evidence="DIRECT")
        else:
            ada.suspect(at, "bea.1", "SUSPECTED")
    ada.submit(61_000, 111, 120, 10, "AGREED").deliver(61_001, "ada.1", 111, 120, "AGREED")
    ada.suspect(121_000, "cyd.1", "SUSPECTED").suspect(121_400, "cyd.1", "FAULTY")
    ada.step(121_400, "FA", "cyd.1").step(121_450, "CLOSED")
    link(ada, 60_000, "bea", "v1", 500, 5)
    link(ada, 121_450, "bea", "v1", 1000, 10)
    link(ada, 121_450, "cyd", "v1", 500, 100)
    ada.view(121_500, "v2", "ada.1 bea.1")
    bea.deliver(1010, "ada.1", 1, 100, "AGREED").deliver(2050, "ada.1", 101, 110, "SAFE")
    bea.submit(3000, 1, 5, 20, "BASIC").deliver(3001, "bea.1", 1, 5, "BASIC")
    bea.suspect(40_000, "cyd.1", "SUSPECTED")
    bea.suspect(40_500, "cyd.1", "OPERATIONAL", evidence="DIRECT")
    bea.deliver(61_007, "ada.1", 111, 120, "AGREED")
    bea.suspect(121_100, "cyd.1", "SUSPECTED").step(121_420, "FA", "cyd.1").step(121_650, "CLOSED")
    link(bea, 121_650, "ada", "v1", 1000, 0)
    link(bea, 121_650, "cyd", "v1", 400, 8)
    bea.view(121_700, "v2", "ada.1 bea.1")
    cyd.deliver(1030, "ada.1", 1, 100, "AGREED").deliver(2040, "ada.1", 101, 110, "SAFE")
    cyd.deliver(3020, "bea.1", 1, 5, "BASIC").deliver(61_300, "ada.1", 111, 120, "AGREED")
    cyd.clock(119_000, 0)
    later.life(NEXT_DAY - 1000, "START").view(NEXT_DAY - 1000, "v0", "cyd.2")
    for hand, began, ended in ((ada, 0, 3000), (bea, 500, 3100), (later, 0, 3050)):
        hand.step(NEXT_DAY + began, "START", stage="COLLECT").step(NEXT_DAY + ended, "CLOSED")
        hand.view(NEXT_DAY + ended, "v3", AGAIN, cause="join")
    link(ada, NEXT_DAY + 9000, "cyd", "v3", 100, 50)
    ada.life(NEXT_DAY + 10_000, "STOP")
    bea.clock(NEXT_DAY + 5000, 0)
    return [ada, bea, cyd, later]


def stock() -> list[Hand]:
    """The group `stock`."""
    dov, eve = Hand("dov.1", "c", "stock"), Hand("eve.1", "c", "stock", boot="two")
    for hand in (dov, eve):
        hand.view(0, "w1", "dov.1 eve.1")
    dov.submit(100, 1, 3, 100, "CAUSAL").deliver(100, "dov.1", 1, 3, "CAUSAL")
    eve.deliver(104, "dov.1", 1, 3, "CAUSAL").clock(5000, 0)
    dov.clock(NEXT_DAY + 9000, 0)
    return [dov, eve]


def written_to(folder: Path, hands: list[Hand], offset: int = 0) -> list[Path]:
    """The journals of these members as files; `offset` gives them other identifiers."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for hand in hands:
        head, rows = hand.journal
        number = offset
        for letter in f"{hand.group}{hand.member}{hand.incarnation}".encode():
            number = 256 * number + letter
        facts = msgspec.structs.asdict(head) | {"journal": f"{number:032x}"}
        found.append(segment(folder, list(rows), **facts))
    return found
