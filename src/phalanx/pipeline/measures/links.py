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

from phalanx.pipeline.group_tables import GroupRow, GroupTables, each_row

Link = tuple[str, int, str, int]
"""From a peer to the member that counted."""
_COUNTED = ("frames", "missed", "asked", "repeated")


class LinkInView(GroupRow, frozen=True, kw_only=True):
    """A link during one view: from a peer to the member that counted."""

    journal: str
    """Of the member that counted."""
    lseq: int
    """Its last row about the link in this view."""
    peer: str
    peer_incarnation: int
    member: str
    incarnation: int
    view: str
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


class LinkQuality(GroupRow, frozen=True, kw_only=True):
    """A link that was in a view: from a peer to the member that counted."""

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
    summed: dict[Link, list[int]] = {}
    for (link, _, _), (_, *counts) in _by_view(group).items():
        before = summed.get(link, [0] * len(_COUNTED))
        summed[link] = [a + b for a, b in zip(before, counts, strict=True)]
    found = []
    for link in sorted(summed):
        frames, missed, asked, _ = summed[link]
        answer = summed.get((*link[2:], *link[:2]))
        one = LinkQuality(
            **group.key._asdict(),
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


def links_by_view(group: GroupTables) -> list[LinkInView]:
    """The same view by view, in the order of links, journals and rows."""
    whole = _by_view(group)
    repeated = {(link, view): counts[-1] for (link, _, view), counts in whole.items()}
    found = []
    for (link, journal, view), (lseq, frames, missed, asked, _) in whole.items():
        peer, peer_incarnation, member, incarnation = link
        one = LinkInView(
            **group.key._asdict(),
            journal=journal,
            lseq=lseq,
            peer=peer,
            peer_incarnation=peer_incarnation,
            member=member,
            incarnation=incarnation,
            view=view,
            frames=frames,
            missed=missed,
            asked=asked,
            repeated=repeated.get(((*link[2:], *link[:2]), view)),
            loss=share(frames, missed),
        )
        found.append(one)
    order = ("peer", "peer_incarnation", "member", "incarnation", "journal", "lseq")
    return sorted(found, key=lambda one: tuple(getattr(one, name) for name in order))


def _by_view(group: GroupTables) -> dict[tuple[Link, str, str], list[int]]:
    """The last row and the counts of each link, by link, journal and view. Rows count from the
    beginning of the view: the last one is the largest in each column."""
    whole: dict[tuple[Link, str, str], list[int]] = {}
    who = ("peer", "peer_incarnation", "member", "incarnation", "journal", "view")
    for peer, number, member, incarnation, journal, view, *counts in each_row(
        group["link_stats"], *who, "lseq", *_COUNTED
    ):
        key = (peer, number, member, incarnation), journal, view
        whole[key] = list(map(max, counts, whole.get(key, counts)))
    return whole


def share(frames: int, missed: int) -> float | None:
    """Of the frames that are known of, those that were missing first."""
    known = max(frames, missed)
    return missed / known if known else None
