"""Members and messages by name. A member is a name and an incarnation: a process that restarts is
another member, and messages addressed to its earlier life are not for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phalanx.journal.schema import Accepted, Deliver, Sent

Member = tuple[str, int]


def named(
    names: Sequence[str] | None, incarnations: Sequence[int] | None
) -> frozenset[Member] | None:
    """The members that two columns name; None if the columns are null."""
    if names is None or incarnations is None:
        return None
    return frozenset(zip(names, incarnations, strict=True))


def label(member: Member) -> str:
    return f"{member[0]}.{member[1]}"


def labels(members: Iterable[Member]) -> str:
    return " ".join(map(label, sorted(members))) or "nobody"


def messages(sender: Member, first: int, last: int) -> str:
    return f"{label(sender)}#{first}" + (f"..{last}" if last > first else "")


def addressed(member: Member, row: Accepted | Sent | Deliver) -> bool:
    """Whether these messages are for the member. Older rows name receivers without incarnations."""
    to = row.to
    if to is None:
        return True
    if row.to_incarnations is None:
        return member[0] in to
    return member in zip(to, row.to_incarnations, strict=True)
