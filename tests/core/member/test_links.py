"""What a member counts of its links: what was missing, asked for, and sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.core.effects import LinkStats

Build = Callable[..., Any]
ABC = "abc"


def counts(links: list[LinkStats]) -> dict[str, tuple[int, int, int, int]]:
    return {c.peer.name: (c.frames, c.missed, c.asked, c.repeated) for c in links}


def test_a_frame_that_is_lost_on_one_link_is_counted_at_both_its_ends(mesh: Build) -> None:
    group = mesh(ABC)
    group.pump(20)
    before = [counts(member.links()) for member in group.members]
    assert all(count[1:] == (0, 0, 0) for mine in before for count in mine.values())
    group.carry = lambda a, b, packet: [] if (a, b) == (0, 1) else [packet]
    group.submit(0, b"one")
    group.carry = lambda a, b, packet: [packet]
    group.submit(0, b"two")
    group.pump(100)
    a, b, c = (counts(member.links()) for member in group.members)
    assert b["a"][1:] == (1, 1, 0), "b missed one frame of a and asked for it once"
    assert a["b"][3] == 1, "a sent one packet again"
    assert b["a"][0] == c["a"][0] > before[1]["a"][0], "and then b had all of them"
    assert c["a"][1:] == (0, 0, 0)


def test_a_view_that_ends_tells_its_links_and_the_next_begins_at_nothing(mesh: Build) -> None:
    group = mesh(ABC)
    group.submit(0, b"one")
    group.pump(20)
    held = group.members[1].view.id
    group.crash(2)
    group.pump(3000)
    assert group.views(1)[-1] == "ab"
    told = [effect for effect in group.seen[1] if isinstance(effect, LinkStats)]
    assert [(count.peer.name, count.view) for count in told] == [("a", held), ("c", held)]
    assert told[0].frames > 0
    now = group.members[1].links()
    assert [(count.peer.name, count.view) for count in now] == [("a", group.members[1].view.id)]
    assert told[0].frames + now[0].frames == group.members[1].have[0], "each frame counts once"
