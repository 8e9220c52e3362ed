"""How components find each other: HELLO, at a bounded rate.

About once per `hello_ns` one member of a view, by chance any of them, broadcasts which view it is
in and which strangers it heard lately. A member that hears such a HELLO from its own view postpones
its own by a period. A stranger that was not known is answered soon, so that it learns that it is
heard. A join starts only between members that hear each other both ways: over a link that is dead
one way, joins and removals would follow each other without end.

A link that is bad now and then makes views come and go. After a view has lost members soon
after it was joined, for the third time, foreigners are ignored for a while, twice as long each
time; a quiet minute wipes that out. Members that leave are not lost: processes may come and go as
often as they like.
"""

from __future__ import annotations

import msgspec

from phalanx.config import Config
from phalanx.core.ids import MemberId, ViewId, encode_member
from phalanx.core.prng import Prng
from phalanx.core.wire.packets import Hello, JoinAttempt

STRANGERS_MAX = 1024
CONTACTS_MAX = 256
LISTED_MAX = 64
"""So many strangers a HELLO names, the latest heard."""
MEMBER_BYTES = 4
"""What a packet needs for a member beside its name and incarnation, at most."""
FLAPS_FREE = 2
FLAP_LEVEL_MAX = 8
FLAP_PERIODS = 20
"""Losing members within so many periods after a join is flapping."""
CALM_PERIODS = 240


class ForeignMember(msgspec.Struct):
    heard_ns: int
    number: int


class Discovery:
    __slots__ = (
        "_announced_ns",
        "_config",
        "_contacts",
        "_prng",
        "_due_ns",
        "_joined_ns",
        "_level",
        "_lost_ns",
        "_strangers",
        "me",
    )

    def __init__(self, me: MemberId, config: Config, prng: Prng) -> None:
        self.me = me
        self._config = config
        self._prng = prng
        self._due_ns = 0
        self._strangers: dict[MemberId, ForeignMember] = {}
        self._contacts: dict[ViewId, int] = {}
        """Views with whose members this view's hear each other, and when that was last seen."""
        self._announced_ns = -(1 << 62)
        self._joined_ns = -(1 << 62)
        self._lost_ns = -(1 << 62)
        self._level = 0

    def start(self, now: int) -> None:
        self._due_ns = now + self._prng.between(0, self._config.hello_ns // 8)

    # -------------------------------------------------------------- hearing

    def heard(self, now: int, hello: Hello | JoinAttempt, view: ViewId, ours: bool) -> bool:
        """A HELLO or AJ came; `view` is its sender's, `ours` if it is a member of mine. Whether
        its sender is a stranger that hears us too, and it is time to join (rule L-12)."""
        sender = hello.sender
        if ours:
            if isinstance(hello, Hello):
                self._later(now)
            return False
        known = self._strangers.get(sender)
        fresh = known is not None and now - known.heard_ns <= self._memory_ns
        if known is not None and fresh and hello.number < known.number:
            return False  # overtaken on the way
        hears_us = self.me in hello.heard
        if not fresh or not hears_us:
            self._soon(now)
        if known is None and len(self._strangers) >= STRANGERS_MAX:
            self._strangers.pop(next(iter(self._strangers)))
        self._strangers[sender] = ForeignMember(now, hello.number)
        return hears_us and self.is_patient(now)

    def made_contact(self, now: int, view: ViewId) -> None:
        """A member of another view hears a member of this one."""
        self._contacts.pop(view, None)
        self._contacts[view] = now
        while len(self._contacts) > CONTACTS_MAX:
            del self._contacts[next(iter(self._contacts))]

    def is_in_contact(self, now: int, view: ViewId) -> bool:
        """Whether members of that view hear this one's, and it is time to join others."""
        seen = self._contacts.get(view)
        return seen is not None and now - seen <= self._memory_ns and self.is_patient(now)

    @property
    def _memory_ns(self) -> int:
        return 4 * self._config.hello_ns

    def lately(self, now: int) -> tuple[MemberId, ...]:
        """Strangers heard lately, the latest that fit into a HELLO; sorted (rule L-11)."""
        recent = sorted(
            (-s.heard_ns, member)
            for member, s in self._strangers.items()
            if now - s.heard_ns <= self._memory_ns
        )
        room, listed = self._config.datagram_bytes_max // 2, []
        for _, member in recent[:LISTED_MAX]:
            room -= len(encode_member(member)) + MEMBER_BYTES
            if room < 0:
                break
            listed.append(member)
        return tuple(sorted(listed))

    def settled_with(self, members: tuple[MemberId, ...]) -> None:
        """These are members now."""
        for member in members:
            self._strangers.pop(member, None)

    # -------------------------------------------------------------- speaking

    def due(self, now: int) -> bool:
        return now >= self._due_ns

    def spoke(self, now: int) -> None:
        self._later(now)

    def may_announce(self, now: int) -> bool:
        """Whether the view may be announced at once to one that counts this member elsewhere. Such
        answers come at a bounded rate; after them the next HELLO comes soon (rule L-15)."""
        if now - self._announced_ns < self._config.hello_ns // 16:
            self._soon(now)
            return False
        self._announced_ns = now
        return True

    def deadline(self) -> int:
        return self._due_ns

    def _later(self, now: int) -> None:
        period = self._config.hello_ns
        self._due_ns = now + self._prng.between(period * 3 // 4, period * 5 // 4)

    def _soon(self, now: int) -> None:
        due = now + self._prng.between(0, self._config.hello_ns // 16)
        self._due_ns = min(self._due_ns, due)

    # -------------------------------------------------------------- flapping

    def is_patient(self, now: int) -> bool:
        """Whether it is time to join others: views have not come and gone too often of late
        (rule L-13)."""
        if self._level <= FLAPS_FREE:
            return True
        return now >= self._lost_ns + (self._config.hello_ns << self._level - FLAPS_FREE)

    def installed(self, now: int, joined: bool, lost: bool) -> None:
        """A view was installed: with members of other components, or without some that were held
        for failed."""
        period = self._config.hello_ns
        if now - max(self._lost_ns, self._joined_ns) > CALM_PERIODS * period:
            self._level = 0
        if joined:
            self._joined_ns = now
        if lost:
            if now - self._joined_ns < FLAP_PERIODS * period and not joined:
                self._level = min(self._level + 1, FLAP_LEVEL_MAX)
            self._lost_ns = now
