"""Loss and retransmissions by link.

A member counts, per view and peer, the frames received, the frames it knew to be missing (whether
they arrived later or not), its retransmission requests, and the packets of its own that it
retransmitted for the peer. A missing frame was lost, or overtaken by later ones; a frame is one
packet unless it is large. So `missed` over `frames` is the loss of the link from the peer as the
member saw it: too high where packets are reordered, too low where a lost frame was never detected
because none followed it. Where more frames were missing than arrived, as on a link that was cut,
all known frames were missing first.

Retransmissions of a third member's frames are not attributed to a link.
"""

from __future__ import annotations

import msgspec

from phalanx.pipeline.group_tables import GroupTables, each_row

Link = tuple[str, int, str, int]
"""From a peer to the member that counted."""
_COUNTED = ("frames", "missed", "asked", "repeated")


class LinkQuality(msgspec.Struct, frozen=True, kw_only=True):
    """A link that was in a view: from a peer to the member that counted."""

    cluster: str
    run: str
    group: str
    peer: str
    peer_incarnation: int
    member: str
    incarnation: int
    frames: int
    """That arrived."""
    missed: int
    """That were known to be missing."""
    asked: int
    """Times that one was asked for."""
    repeated: int | None
    """Packets that the peer sent again because this member asked, by the peer's journal; None where
    that is missing."""
    loss: float | None
    """missed / frames, at most 1; None if no frame is known of."""


def links(group: GroupTables) -> list[LinkQuality]:
    """All links, in the order of peers and members."""
    # Rows count from the beginning of the view: the last one is the largest in each column.
    whole: dict[tuple[Link, str, str], list[int]] = {}
    who = ("peer", "peer_incarnation", "member", "incarnation", "journal", "view")
    for peer, number, member, incarnation, journal, view, *counts in each_row(
        group["link_stats"], *who, *_COUNTED
    ):
        key = (peer, number, member, incarnation), journal, view
        whole[key] = list(map(max, counts, whole.get(key, counts)))
    summed: dict[Link, list[int]] = {}
    for (link, _, _), counts in whole.items():
        before = summed.get(link, [0] * len(_COUNTED))
        summed[link] = [a + b for a, b in zip(before, counts, strict=True)]
    found = []
    for link in sorted(summed):
        frames, missed, asked, _ = summed[link]
        answer = summed.get((*link[2:], *link[:2]))
        one = LinkQuality(
            cluster=group.key.cluster,
            run=group.key.run,
            group=group.key.group,
            peer=link[0],
            peer_incarnation=link[1],
            member=link[2],
            incarnation=link[3],
            frames=frames,
            missed=missed,
            asked=asked,
            repeated=None if answer is None else answer[-1],
            loss=share(frames, missed),
        )
        found.append(one)
    return found


def share(frames: int, missed: int) -> float | None:
    """Of the frames that are known of, those that were missing first."""
    known = max(frames, missed)
    return missed / known if known else None
