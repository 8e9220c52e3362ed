"""Notices of members that their clients have not acknowledged yet.

The machine of an interface reports each view of a member once. The outbox numbers these notices
and keeps each until the client has acknowledged it. The interface writes the outbox in one
transaction with the records of the machine, so that a restart of the interface neither loses nor
repeats a view.

The outbox is pure: it returns the records that have changed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phalanx.mserver.client_messages import MemberNotice, NoticeKind
from phalanx.service.effects import Notify, PassData

NOTICES_MAX = 4096
"""Notices of one member that may wait. A client that reads nothing for longer loses its member."""
KEY = "notices/"


class NoticeQueue(msgspec.Struct, array_like=True):
    """The notices of one member. `client` is the token of the client that the member belongs to;
    empty until the answer to its join names the member."""

    client: str = ""
    uid: str = ""
    """The group of the member."""
    last: int = 0
    """The number of the latest notice."""
    waiting: list[MemberNotice] = []
    over: bool = False
    """The membership has ended; the queue goes with the last acknowledgement."""
    departed: bool = False
    """The client is gone: nobody reads the notices."""


class NoticeOutbox:
    """The queues of all members of one interface."""

    def __init__(self, rows: Mapping[str, bytes] | None = None) -> None:
        self._queues: dict[str, NoticeQueue] = {}
        for key, body in (rows or {}).items():
            if key.startswith(KEY):
                queue = msgspec.msgpack.decode(body, type=NoticeQueue)
                self._queues[key.removeprefix(KEY)] = queue

    @property
    def members(self) -> dict[str, str]:
        """The client of each member."""
        return {member: queue.client for member, queue in self._queues.items()}

    def members_of(self, client: str) -> tuple[str, ...]:
        return tuple(m for m, queue in self._queues.items() if queue.client == client)

    def uid_of(self, member: str) -> str:
        """The group of the member; empty if nobody has reported it."""
        queue = self._queues.get(member)
        return "" if queue is None else queue.uid

    def is_over(self, member: str) -> bool:
        """Whether the membership has ended."""
        queue = self._queues.get(member)
        return queue is None or queue.over

    def open(self, member: str, client: str, uid: str) -> dict[str, bytes | None]:
        """A client has a member of a group. Does nothing if that is known."""
        queue = self._queues.setdefault(member, NoticeQueue())
        if queue.client:
            return {}
        queue.client, queue.uid = client, uid
        return self._row(member)

    def add(self, effect: Notify) -> dict[str, bytes | None]:
        """Number a notice and keep it. The first view of a member may come before the answer to
        its join. Nothing follows the end of a membership."""
        queue = self._queues.setdefault(effect.member, NoticeQueue())
        if queue.over:
            return {}
        queue.last += 1
        queue.uid = effect.uid
        queue.over = effect.view is None
        if not queue.client and "~" in effect.member:  # a split has made it; no call names it
            queue.client = effect.call.rpartition("/")[0]
        if not queue.departed:
            queue.waiting.append(_notice(effect, queue.last))
        return self._row(effect.member)

    def add_data(self, effect: PassData) -> dict[str, bytes | None]:
        """Number a message for a member and keep it, in order with its views."""
        queue = self._queues.get(effect.member)
        if queue is None or queue.over or queue.departed:
            return {}
        queue.last += 1
        data = effect.data
        queue.waiting.append(
            MemberNotice(
                effect.member, queue.last, "message", data.uid, sender=data.sender, body=data.body
            )
        )
        return self._row(effect.member)

    def is_overfull(self, member: str) -> bool:
        queue = self._queues.get(member)
        return queue is not None and len(queue.waiting) > NOTICES_MAX

    def waiting(self, member: str, after: int = 0) -> list[MemberNotice]:
        """The notices that the client has not got, oldest first."""
        queue = self._queues.get(member)
        return [] if queue is None else [n for n in queue.waiting if n.number > after]

    def acknowledge(self, client: str, member: str, number: int) -> dict[str, bytes | None]:
        """The client has got all notices up to this number."""
        queue = self._queues.get(member)
        if queue is None or queue.client != client:
            return {}
        kept = [notice for notice in queue.waiting if notice.number > number]
        if len(kept) == len(queue.waiting):
            return {}
        queue.waiting = kept
        return self._row(member)

    def depart(self, client: str) -> dict[str, bytes | None]:
        """The client is gone: drop its notices. Its queues go when the memberships end."""
        rows: dict[str, bytes | None] = {}
        for member in self.members_of(client):
            queue = self._queues[member]
            queue.departed = True
            queue.waiting = []
            rows |= self._row(member)
        return rows

    def _row(self, member: str) -> dict[str, bytes | None]:
        queue = self._queues[member]
        if queue.over and not queue.waiting:  # a member is never named again
            del self._queues[member]
            return {KEY + member: None}
        return {KEY + member: msgspec.msgpack.encode(queue)}


def _notice(effect: Notify, number: int) -> MemberNotice:
    previous = str(effect.previous) if effect.previous is not None else ""
    view = effect.view
    if view is None:
        kind: NoticeKind = "ended" if effect.ended else "excluded"
        return MemberNotice(effect.member, number, kind, effect.uid, previous=previous)
    return MemberNotice(
        effect.member,
        number,
        "view",
        effect.uid,
        str(view.vid),
        previous,
        view.members,
        view.cause,
    )
