"""A member whose clock stands still; the explorer fires its timers by name.

The clock always shows NOW, so no deadline ever passes: keep-alives, NACKs, HELLO, claims and
probes are off, and the member sends only in response to an input. Four inputs replace the timers:

    collect   the collection of components is over
    answer    members that have not answered a proposal are left out
    speak     members that have not spoken in the view are left out
    ack       an ack-only frame, as a keep-alive would be

`SuspectMember` replaces the failure detector, and HELLOs made by the explorer replace discovery:
all members hear each other, and none waits before it joins.
"""

from __future__ import annotations

import pickle
from typing import Literal

from phalanx.config import Config
from phalanx.core.deadline import NEVER
from phalanx.core.effects import DeadlinePassed, Effect
from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.member.member import Member
from phalanx.core.membership.discovery import Discovery
from phalanx.core.membership.instructions import Expired
from phalanx.core.membership.name_claim import NameClaim
from phalanx.core.prng import Prng
from phalanx.core.wire.frames import Frame
from phalanx.core.wire.packets import Hello, JoinAttempt

NOW = 1_000_000_000
GROUP = "explored"

Timer = Literal["collect", "answer", "speak", "ack"]
TIMERS: tuple[Timer, ...] = ("collect", "answer", "speak", "ack")


class AlwaysMutualDiscovery(Discovery):
    """Everybody hears everybody both ways, and views that come and go make nobody wait."""

    __slots__ = ()

    def heard(self, now: int, hello: Hello | JoinAttempt, view: ViewId, ours: bool) -> bool:
        return not ours

    def is_in_contact(self, now: int, view: ViewId) -> bool:
        return True

    def may_announce(self, now: int) -> bool:
        return True

    def lately(self, now: int) -> tuple[MemberId, ...]:
        return ()

    def installed(self, now: int, joined: bool, lost: bool) -> None:
        pass


class FrozenTimeMember(Member):
    """A member that does nothing by itself. Feed it with `step(NOW, ...)` and `pass_timer`."""

    def __init__(self, me: MemberId, view: View, config: Config) -> None:
        super().__init__(me, view, GROUP, config, entropy=1)
        prng = Prng(1)
        self._control_plane.claim = NameClaim(me, config, prng, needed=False)
        self._control_plane.search = AlwaysMutualDiscovery(me, config, prng)
        self._timer: Timer = "ack"

    # -------------------------------------------------------------- time

    def pass_timer(self, timer: Timer) -> list[Effect]:
        """Let this timer run out; nothing happens if it is not running."""
        self._timer = timer
        return self.step(NOW, DeadlinePassed())

    def _recover(self, now: int, out: list[Effect]) -> None:
        """Nothing is asked for: the explorer brings what is missing."""

    def _expire(self, now: int, out: list[Effect]) -> None:
        protocol = self._protocol
        match self._timer:
            case "collect" if protocol.stage == "COLLECTING":
                protocol._collect_until = now
            case "answer" if protocol.stage == "PROPOSED":
                protocol._answer_until = now
            case "speak" if protocol.stage != "PROPOSED" and protocol._speak_until != NEVER:
                protocol._speak_until = now
            case "ack":
                # The end of the step sends what is due.
                self._active.state.ack_scheduler._due_ns = now
                return
            case _:
                return
        self._view_change.give(now, Expired(self._unspoken()), out)

    # -------------------------------------------------------------- what the explorer asks

    @property
    def stage(self) -> str:
        return self._protocol.stage

    @property
    def busy(self) -> bool:
        """A change is under way here."""
        return self._protocol.changing

    @property
    def joins(self) -> bool:
        """A join is under way here."""
        return self._protocol.joining != "IDLE"

    @property
    def removes(self) -> bool:
        """It has proposed to leave out members of its view."""
        protocol = self._protocol
        return bool(protocol.issued) and not all(map(protocol.counts, self.view.members))

    @property
    def resting(self) -> bool:
        """No change is under way, all members have spoken, and all messages have left: it waits
        for nobody."""
        state = self._active.state
        waiting = state.awaiting_first_frames or self._sender.outbox.messages
        return not (self._protocol.changing or waiting) and state.queue.empty

    @property
    def known(self) -> frozenset[MemberId]:
        """With whom it could break: those of its view and of a join under way."""
        return frozenset(self._protocol.current.entries) - {self.me}

    @property
    def owes(self) -> bool:
        """A keep-alive would tell others something that they wait for: that it is in the view,
        or that it has their messages; or, if it is alone, itself."""
        if self._protocol.changing:
            return False
        if len(self.view.members) == 1:
            return not self.resting
        state = self._active.state
        latest = state.dag.latest[state.rank]
        if not latest[state.rank]:
            return True
        last = enumerate(state._last_message)
        return any(number > latest[rank] for rank, number in last if rank != state.rank)

    @property
    def accepted(self) -> int:
        """How many messages were submitted here."""
        return self._sender.accepted

    @property
    def closed(self) -> bool:
        """It accepts no more messages."""
        return self._sender.closed

    @property
    def awaits(self) -> bool:
        """T_change runs."""
        return self._protocol.stage == "PROPOSED"

    @property
    def listens(self) -> bool:
        """T_view runs, and somebody has not spoken."""
        protocol = self._protocol
        if protocol.changing or protocol._speak_until == NEVER:
            return False
        return any(member != self.me for member in self._unspoken())

    def missing(self) -> list[tuple[MemberId, int]]:
        """Frames that it would ask for."""
        state = self._active.state
        missing = state.broadcast.retransmission.missing
        own = [(state.view.members[slot], number) for slot, number in missing]
        return sorted({*own, *self._resources.foreign.wants()})

    def waiting(self) -> list[tuple[MemberId, int]]:
        """Frames that are here and cannot enter yet."""
        state = self._active.state
        return [(state.sender_of(frame), frame.number) for frame in state.broadcast.waiting()]

    def count(self, member: MemberId) -> int:
        """How many frames of a member have entered here, those treated as present with them."""
        state = self._active.state
        rank = state.ranked.get(member)
        return 0 if rank is None else state.dag.have[rank]

    def held(self) -> dict[tuple[MemberId, int], list[bytes]]:
        """The frames that it could repeat. A repeat is no sign that its sender is near: nobody
        joins a stranger on it."""
        store, past = self._active.state.broadcast.store, self._resources.past_frames
        out: dict[tuple[MemberId, int], Frame] = {}
        for frames_of in (past.foreign, *past._generations):
            for member, stored in frames_of.items():
                out.update({(member, number): frame for number, frame in stored.items()})
        for slot, member in enumerate(self.view.members):
            for frames in (store.waiting[slot], store.dag.frames[slot]):
                out.update({(member, number): frame for number, frame in frames.items()})
        return {
            place: self._codec.fragments(frame, frame.wire, repeat=1)
            for place, frame in out.items()
        }

    def hello(self) -> bytes:
        """What it would say to strangers, and to members that are still in another view."""
        return self._codec.encode(self._control_plane.hello(NOW, self._active.state))

    # -------------------------------------------------------------- copies

    def frozen(self) -> bytes:
        """All of it. The one who thaws it goes on from here."""
        return pickle.dumps(self, protocol=pickle.HIGHEST_PROTOCOL)


def thawed(data: bytes) -> FrozenTimeMember:
    """A member as it was when it was frozen."""
    member: FrozenTimeMember = pickle.loads(data)  # noqa: S301 (bytes that this process made)
    return member
