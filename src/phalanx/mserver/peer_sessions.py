"""Sessions with peers: which senders are there now, so that old packets are refused.

A sealed packet shows that its sender had the key, not when. So a process takes data only from
sessions that have answered a question of its own, a random token, from the address that the data
comes from. A session ends when another one answers from its address, or after a minute of silence.
Within a session each number is taken once (`replay_window.py`). Nothing of this is durable and no
clock is compared: a restarted process knows nobody and asks again.

    a -> b  control: ask A
    b -> a  control: answer A, ask B        a knows the session of b, and sends its data
    a -> b  control: answer B               b knows the session of a

Data for a peer that is not known yet waits for its answer, a few messages for half a second.

Packets without a valid seal change nothing but counts. Recorded packets of the cluster, sent again
by a stranger, can make a process ask: once in `ASK_NS` for each address, with a packet that is not
longer than about theirs, and for `ASKED_MAX` addresses at a time beside those of the configuration.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from phalanx.mserver.packet_seal import CONTROL, DATA, PacketSeal
from phalanx.mserver.replay_window import ReplayWindow

Address = tuple[str, int]
TOKEN_BYTES = 16
NO_TOKEN = bytes(TOKEN_BYTES)
ASK_NS = 100_000_000
ASKED_NS = 2_000_000_000
"""For which an answer to a question counts."""
ASKED_MAX = 64
"""Addresses outside the configuration that are asked at a time."""
SILENT_NS = 60_000_000_000
SESSIONS_MAX = 8192
HELD_MAX = 8
"""Messages that wait for the answer of one peer."""
HELD_BYTES_MAX = 64 << 10
"""A message that is longer does not wait, and is lost."""
HELD_NS = 500_000_000


class Received(NamedTuple):
    """What follows from one packet."""

    body: bytes | None = None
    """Data of a peer that is there now."""
    replies: tuple[bytes, ...] = ()
    """Packets for the address that this one came from."""
    refused: str = ""
    """Why the packet was dropped; empty if it was not, or was our own."""
    released: tuple[bytes, ...] = ()
    """Messages that have waited for this peer."""


@dataclass(slots=True)
class _Session:
    id: bytes
    window: ReplayWindow
    heard_ns: int
    answered_ns: int
    """When a question of this session was answered last."""


@dataclass(slots=True)
class _Asked:
    """A question to an address, and the messages that wait for its answer."""

    token: bytes
    since_ns: int
    sent_ns: int
    answered_ns: int
    """When a question from this address was answered last."""
    held: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=HELD_MAX))


class PeerSessions:
    """The sessions of all peers of one process. `refused` counts dropped packets by reason: those
    of `PacketSeal.open`, `unproven` (the session has not answered yet), `replayed`, `crowded`."""

    def __init__(
        self, seal: PacketSeal, token: Callable[[], bytes], configured: Iterable[Address] = ()
    ) -> None:
        self._seal = seal
        self._token = token
        self._configured = frozenset(configured)
        self._sessions: dict[Address, _Session] = {}
        self._places: dict[bytes, Address] = {}
        """Where each session is: at one address, so that no number is taken at two."""
        self._asked: dict[Address, _Asked] = {}
        self.refused: Counter[str] = Counter()

    def configure(self, addresses: Iterable[Address]) -> None:
        """These addresses are of servers of the configuration: they are always asked."""
        self._configured |= frozenset(addresses)

    @property
    def keys(self) -> list[str]:
        """The ids of the keys that open packets, the one that seals first."""
        return [key.hex() for key in self._seal.ring.keys]

    @property
    def known(self) -> int:
        """Peers whose sessions are known."""
        return len(self._sessions)

    @property
    def asked(self) -> int:
        """Addresses that have a question open."""
        return len(self._asked)

    # ------------------------------------------------------------------ sending

    def is_known(self, now: int, peer: Address) -> bool:
        """Whether data can go to this address."""
        session = self._sessions.get(peer)
        return session is not None and now - session.heard_ns < SILENT_NS

    def sealed(self, packet: bytes) -> bytes:
        """A packet of data."""
        return self._seal.seal(DATA, packet)

    def hold(self, now: int, peer: Address, message: bytes) -> list[bytes]:
        """Keep a message until the peer has answered. The question, if it is to be sent now."""
        asked = self._question(now, peer, own=True)
        assert asked is not None
        if len(message) <= HELD_BYTES_MAX:
            asked.held.append((now, message))
        return self._ask(now, asked)

    def _question(self, now: int, peer: Address, *, own: bool = False) -> _Asked | None:
        """The open question to an address; None if too many are open. Those for messages of our
        own, and to servers of the configuration, are always open."""
        asked = self._asked.get(peer)
        if asked is not None and now - asked.since_ns >= ASKED_NS:
            asked.token, asked.since_ns = self._token(), now
        if asked is None:
            if not own and peer not in self._configured and not self._has_room(now):
                return None
            asked = self._asked[peer] = _Asked(self._token(), now, now - ASK_NS, now - ASK_NS)
        return asked

    def _has_room(self, now: int) -> bool:
        if len(self._asked) >= ASKED_MAX:
            for peer in [p for p, each in self._asked.items() if now - each.since_ns >= ASKED_NS]:
                del self._asked[peer]
        return len(self._asked) < ASKED_MAX + len(self._configured)

    def _ask(self, now: int, asked: _Asked) -> list[bytes]:
        if now - asked.sent_ns < ASK_NS:
            return []
        asked.sent_ns = now
        return [self._seal.seal(CONTROL, NO_TOKEN + asked.token)]

    # ------------------------------------------------------------------ receiving

    def take(self, now: int, source: Address, packet: bytes) -> Received:
        """What follows from a packet."""
        if self._seal.ring.refresh(now):
            self._seal.renew()
        opened = self._seal.open(packet)
        if isinstance(opened, str):
            return self._refuse(opened) if opened != "own" else Received()
        session = self._sessions.get(source)
        if session is not None and now - session.heard_ns >= SILENT_NS:
            self._drop(source)
            session = None
        if session is not None and session.id == opened.session:
            if not session.window.take(opened.number):
                return self._refuse("replayed")
            session.heard_ns = now
            if opened.kind == DATA:
                return Received(opened.body)
            return self._control_of_known(now, source, session, opened.body)
        if opened.kind == DATA:
            asked = self._question(now, source)
            if asked is None:
                return self._refuse("crowded")
            return self._refuse("unproven", tuple(self._ask(now, asked)))
        return self._control_of_unknown(now, source, opened.session, opened.number, opened.body)

    def _control_of_known(
        self, now: int, source: Address, session: _Session, body: bytes
    ) -> Received:
        """A peer that we know asks: it was restarted or has lost our answer. Or it answers again,
        since recorded packets made us ask."""
        if len(body) != 2 * TOKEN_BYTES:
            return self._refuse("malformed-control")
        answer, question = body[:TOKEN_BYTES], body[TOKEN_BYTES:]
        asked = self._asked.get(source)
        if asked is not None and answer == asked.token:
            del self._asked[source]
        if question == NO_TOKEN or now - session.answered_ns < ASK_NS:
            return Received()
        session.answered_ns = now
        return Received(replies=(self._seal.seal(CONTROL, question + NO_TOKEN),))

    def _control_of_unknown(
        self, now: int, source: Address, session: bytes, number: int, body: bytes
    ) -> Received:
        if len(body) != 2 * TOKEN_BYTES:
            return self._refuse("malformed-control")
        answer, question = body[:TOKEN_BYTES], body[TOKEN_BYTES:]
        asked = self._asked.get(source)
        if asked is not None and answer == asked.token and now - asked.since_ns < ASKED_NS:
            del self._asked[source]
            self._know(now, source, session, number)
            replies: list[bytes] = []
            if question != NO_TOKEN:
                replies.append(self._seal.seal(CONTROL, question + NO_TOKEN))
            held = tuple(m for since, m in asked.held if now - since < HELD_NS)
            return Received(replies=tuple(replies), released=held)
        if question == NO_TOKEN:
            return self._refuse("unproven")
        asked = self._question(now, source)
        if asked is None:
            return self._refuse("crowded")
        if now - asked.answered_ns < ASK_NS:
            return Received()
        asked.sent_ns = asked.answered_ns = now
        return Received(replies=(self._seal.seal(CONTROL, question + asked.token),))

    def _know(self, now: int, source: Address, id_: bytes, number: int) -> None:
        moved = self._sessions.get(self._places.get(id_, source))
        window = moved.window if moved is not None and moved.id == id_ else ReplayWindow(number)
        for peer in (source, self._places.get(id_, source)):
            self._drop(peer)
        if len(self._sessions) >= SESSIONS_MAX:
            self._drop(min(self._sessions, key=lambda peer: self._sessions[peer].heard_ns))
        self._sessions[source] = _Session(id_, window, now, now - ASK_NS)
        self._places[id_] = source
        self._seal.keep(id_)

    def _drop(self, source: Address) -> None:
        session = self._sessions.pop(source, None)
        if session is not None:
            del self._places[session.id]
            self._seal.forget(session.id)

    def _refuse(self, reason: str, replies: tuple[bytes, ...] = ()) -> Received:
        self.refused[reason] += 1
        return Received(refused=reason, replies=replies)
