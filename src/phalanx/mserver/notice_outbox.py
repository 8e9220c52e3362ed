"""Notices of members that their clients have not acknowledged yet.

The machine of an interface reports each view of a member once. The outbox numbers these notices
and keeps each until the client has acknowledged it. The interface writes the outbox in one
transaction with the records of the machine, so that a restart of the interface neither loses nor
repeats a view.

The outbox is pure: it returns the records that have changed. Each notice is a row of its own, until
it is acknowledged; what else is known of a member is another row.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phalanx.mserver.client_messages import MemberNotice, NoticeKind
from phalanx.service.effects import Notify, PassData

NOTICES_MAX = 4096
"""Notices of one member that may wait. A client that reads nothing for longer loses its member."""
KEY, NOTICE = "notices/", "notice/"


class NoticeQueue(msgspec.Struct, array_like=True):
    """The notices of one member, but for those that wait. `client` is the token of the client that
    the member belongs to; empty until the answer to its join names the member."""

    client: str = ""
    uid: str = ""
    """The group of the member."""
    last: int = 0
    """The number of the latest notice, or of an earlier one if that has a row."""
    over: bool = False
    """The membership has ended; the queue goes with the last acknowledgement."""
    departed: bool = False
    """The client is gone: nobody reads the notices."""


class NoticeOutbox:
    """The queues of all members of one interface."""

    def __init__(self, rows: Mapping[str, bytes] | None = None) -> None:
        self._queues: dict[str, NoticeQueue] = {}
        self._waiting: dict[str, list[MemberNotice]] = {}
        """For each member the notices that its client has not got, oldest first."""
        self._of_client: dict[str, dict[str, None]] = {}
        for key, body in sorted((rows or {}).items()):
            if key.startswith(KEY):
                queue = msgspec.msgpack.decode(body, type=NoticeQueue)
                self._enter(key.removeprefix(KEY), queue)
            elif key.startswith(NOTICE):
                notice = msgspec.msgpack.decode(body, type=MemberNotice)
                self._waiting.setdefault(notice.member, []).append(notice)
        for member, waiting in self._waiting.items():
            queue = self._queues[member]
            queue.last = max(queue.last, waiting[-1].number)

    @property
    def members(self) -> dict[str, str]:
        """The client of each member."""
        return {member: queue.client for member, queue in self._queues.items()}

    def client_of(self, member: str) -> str:
        """The client of a member; empty if none is known."""
        queue = self._queues.get(member)
        return "" if queue is None else queue.client

    def members_of(self, client: str) -> tuple[str, ...]:
        return tuple(self._of_client.get(client, ()))

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
        queue = self._queues.get(member) or NoticeQueue()
        if queue.client:
            return {}
        queue.client, queue.uid = client, uid
        self._enter(member, queue)
        return self._row(member)

    def add(self, effect: Notify) -> dict[str, bytes | None]:
        """Number a notice and keep it. The first view of a member may come before the answer to
        its join. Nothing follows the end of a membership."""
        queue, rows = self._queues.get(effect.member), dict[str, bytes | None]()
        if queue is None:
            queue = NoticeQueue(uid=effect.uid)
            if "~" in effect.member:  # a split has made it; no call names it
                queue.client = effect.call.rpartition("/")[0]
            self._enter(effect.member, queue)
            rows = self._row(effect.member)
        if queue.over:
            return {}
        queue.last += 1
        queue.uid = effect.uid
        if not queue.departed:
            rows |= self._keep(_notice(effect, queue.last))
        if effect.view is None:
            queue.over = True
            rows |= self._row(effect.member)
        return rows

    def add_data(self, effect: PassData) -> dict[str, bytes | None]:
        """Number a message for a member and keep it, in order with its views."""
        member, data = effect.member, effect.data
        queue = self._queues.get(member)
        if queue is None or queue.over or queue.departed:
            return {}
        queue.last += 1
        number = queue.last
        return self._keep(
            MemberNotice(member, number, "message", data.uid, sender=data.sender, body=data.body)
        )

    def is_overfull(self, member: str) -> bool:
        return len(self._waiting.get(member, ())) > NOTICES_MAX

    def waiting(self, member: str, after: int = 0) -> list[MemberNotice]:
        """The notices that the client has not got, oldest first."""
        return [n for n in self._waiting.get(member, ()) if n.number > after]

    def acknowledge(self, client: str, member: str, number: int) -> dict[str, bytes | None]:
        """The client has got all notices up to this number."""
        queue = self._queues.get(member)
        if queue is None or queue.client != client:
            return {}
        waiting = self._waiting.get(member, [])
        seen = [notice for notice in waiting if notice.number <= number]
        if not seen:
            return {}
        self._waiting[member] = waiting[len(seen) :]
        return {_key(notice): None for notice in seen} | self._row(member)

    def depart(self, client: str) -> dict[str, bytes | None]:
        """The client is gone: drop its notices. Its queues go when the memberships end."""
        rows: dict[str, bytes | None] = {}
        for member in self.members_of(client):
            self._queues[member].departed = True
            rows |= {_key(notice): None for notice in self._waiting.pop(member, ())}
            rows |= self._row(member)
        return rows

    def _enter(self, member: str, queue: NoticeQueue) -> None:
        self._queues[member] = queue
        self._of_client.setdefault(queue.client, {})[member] = None
        if queue.client:
            self._of_client.get("", {}).pop(member, None)

    def _keep(self, notice: MemberNotice) -> dict[str, bytes | None]:
        self._waiting.setdefault(notice.member, []).append(notice)
        return {_key(notice): msgspec.msgpack.encode(notice)}

    def _row(self, member: str) -> dict[str, bytes | None]:
        queue = self._queues[member]
        if queue.over and not self._waiting.get(member):  # a member is never named again
            del self._queues[member]
            self._waiting.pop(member, None)
            mine = self._of_client[queue.client]
            mine.pop(member, None)
            if not mine:
                del self._of_client[queue.client]
            return {KEY + member: None}
        return {KEY + member: msgspec.msgpack.encode(queue)}


def _key(notice: MemberNotice) -> str:
    return f"{NOTICE}{notice.member}/{notice.number:012d}"


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
