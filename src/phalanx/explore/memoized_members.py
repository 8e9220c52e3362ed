"""Memoized members: members by number, with the outcome of each input computed once.

An *actor* is a member in one state. Its step depends only on that state and on the input, so each
pair is computed once on the product's classes and then looked up in a dict. Packets are
*units*, also by number: the contents of one `Transmit`, a frame or an attempt to join.
"""

from __future__ import annotations

import msgspec

from phalanx.config import Config
from phalanx.core.effects import Datagrams, Effect, Service, Submit, SuspectMember, Transmit
from phalanx.core.ids import MEMBERS_MAX, MemberId, View, boot_view
from phalanx.core.membership.announcement import sender_of, statement_of
from phalanx.core.wire.frame_codec import decode_frame
from phalanx.core.wire.frames import FrameKind
from phalanx.core.wire.packets import CompleteFrame, Hello, JoinAttempt, Refusal
from phalanx.explore.canonical_form import digest
from phalanx.explore.fast_copy import copied
from phalanx.explore.frozen_member import NOW, TIMERS, FrozenTimeMember, Timer, thawed
from phalanx.explore.member_history import Broke, Event, events_of

Place = tuple[int, int]
"""A frame: whose, and its number."""

LIVE_MAX = 100_000
"""So many actors are kept as they are, about 20 kB each; more of them as bytes, a third of that."""
GONE = -1
"""The actor of a process that has crashed."""


class Unit(msgspec.Struct, frozen=True):
    """Packets that travel together."""

    packets: tuple[bytes, ...]
    place: Place | None
    """The frame, None for packets that are none."""
    label: str


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What can be seen of an actor without giving it anything."""

    view: View
    busy: bool
    collecting: bool
    known: tuple[int, ...]
    """With whom it could break."""
    owes: bool
    awaits: bool
    listens: bool
    missing: tuple[Place, ...]
    have: tuple[int, ...]
    """Per process, the last of its frames that is here without a gap."""
    waiting: frozenset[Place]
    last: int
    held: dict[Place, int]
    """The units that it could repeat."""
    hello: int
    resting: bool
    accepted: int
    """Own messages so far."""
    broken: bool = False


class StepOutcome(msgspec.Struct, frozen=True, gc=False):
    """What an actor becomes, what it sends, and what it or its user sees."""

    actor: int
    units: tuple[int, ...]
    events: tuple[Event, ...]


class MemoizedMembers:
    """All actors met so far, with what they do."""

    def __init__(self, members: int, config: Config, service: Service) -> None:
        self.ids = [MemberId(f"m{i}") for i in range(members)]
        self.index = {member: i for i, member in enumerate(self.ids)}
        self.units: list[Unit] = []
        self.facts: list[Facts] = []
        self._config = config
        self._submit = Submit([b"x"], service)
        self._unit_of: dict[tuple[bytes, ...], int] = {}
        self._kept: list[FrozenTimeMember | bytes] = []
        """What each actor is; as bytes when they are many."""
        self._by_digest: dict[bytes, int] = {}
        self._outcomes: dict[tuple[int, str, int], StepOutcome] = {}
        self._tables: dict[bytes, tuple[MemberId, ...]] = {}
        """Members of all views met so far, by the digest that packets name."""

    # -------------------------------------------------------------- doing

    def boot(self, me: int, component: tuple[int, ...]) -> StepOutcome:
        """A process that starts in the view of these."""
        view = boot_view([self.ids[i] for i in component])
        member = FrozenTimeMember(self.ids[me], view, self._config)
        return self._after(member, member.start(NOW))

    def do(self, actor: int, what: str, whom: int = 0) -> StepOutcome:
        """Give an actor something: `take` a unit, `break` with a process, `data`, or a timer."""
        key = (actor, what, whom)
        found = self._outcomes.get(key)
        if found is None:
            found = self._outcomes[key] = self._play(actor, what, whom)
        return found

    def _play(self, actor: int, what: str, whom: int) -> StepOutcome:
        kept = self._kept[actor]
        member = thawed(kept) if isinstance(kept, bytes) else copied(kept)
        try:
            effects = self._give(member, what, whom)
        except Exception as error:  # a bug of the core is a finding, not the end of the search
            return self._broken((actor, what, whom), error)
        return self._after(member, effects)

    def _give(self, member: FrozenTimeMember, what: str, whom: int) -> list[Effect]:
        match what:
            case "take":
                return member.step(NOW, Datagrams(self.units[whom].packets))
            case "break":
                return member.step(NOW, SuspectMember(self.ids[whom]))
            case "data":
                return member.step(NOW, self._submit)
            case "collect" | "answer" | "speak" | "ack":
                timer: Timer = TIMERS[TIMERS.index(what)]
                return member.pass_timer(timer)
        raise AssertionError(what)

    def _after(self, member: FrozenTimeMember, effects: list[Effect]) -> StepOutcome:
        self._tables[member.view.id.digest] = member.view.members
        units = tuple(
            self._unit(member, tuple(effect.packets))
            for effect in effects
            if isinstance(effect, Transmit)
        )
        return StepOutcome(self._actor(member), units, events_of(effects, self.index))

    def _broken(self, done: tuple[int, str, int], error: Exception) -> StepOutcome:
        """It raised: it does nothing from here on."""
        facts = self.facts[done[0]]
        self.facts.append(msgspec.structs.replace(facts, broken=True))
        self._kept.append(b"")
        text = f"{type(error).__name__}: {error}"
        return StepOutcome(len(self.facts) - 1, (), (Broke(text),))

    # -------------------------------------------------------------- naming

    def _actor(self, member: FrozenTimeMember) -> int:
        name = digest(member)
        number = self._by_digest.get(name)
        if number is None:
            number = self._by_digest[name] = len(self.facts)
            few = len(self._kept) < LIVE_MAX
            self._kept.append(member if few else member.frozen())
            self.facts.append(self._facts(member))
        return number

    def _facts(self, member: FrozenTimeMember) -> Facts:
        index = self.index
        held = {
            (index[who], number): self._unit(member, tuple(packets))
            for (who, number), packets in member.held().items()
        }
        return Facts(
            view=member.view,
            busy=member.busy,
            collecting=member.stage == "COLLECTING",
            known=tuple(sorted(index[m] for m in member.known)),
            owes=member.owes,
            awaits=member.awaits,
            listens=member.listens,
            missing=tuple((index[who], number) for who, number in member.missing()),
            have=tuple(member.count(who) for who in self.ids),
            waiting=frozenset((index[who], number) for who, number in member.waiting()),
            last=member.count(member.me),
            held=held,
            hello=self._unit(member, (member.hello(),)),
            resting=member.resting,
            accepted=member.accepted,
        )

    def _unit(self, member: FrozenTimeMember, packets: tuple[bytes, ...]) -> int:
        number = self._unit_of.get(packets)
        if number is None:
            number = self._unit_of[packets] = len(self.units)
            self.units.append(self._described(member, packets))
        return number

    def _described(self, member: FrozenTimeMember, packets: tuple[bytes, ...]) -> Unit:
        """What the packets hold, for a person, and which frame it is."""
        (packet,) = member._codec.decode_all(packets)
        assert not isinstance(packet, Refusal)
        if isinstance(packet, Hello | JoinAttempt):
            kind = "AJ" if isinstance(packet, JoinAttempt) else "HELLO"
            return Unit(packets, None, f"{kind} of {packet.sender.name}")
        assert isinstance(packet, CompleteFrame), f"a member says {packet} though time stands still"
        frame = decode_frame(
            packet.sender, packet.number, packet.payload, packet.size, packet.table, MEMBERS_MAX
        )
        assert not isinstance(frame, Refusal)
        about = ""
        if frame.control is None:
            sender = self._tables[packet.table][packet.sender]
        else:
            found = sender_of(frame)
            assert found is not None
            sender, said = found, statement_of(frame, found)
            if said.proposal is not None:
                names = sorted(f"{m.name}" for m, _ in said.proposal.left_out)
                about = f" of {len(said.proposal.components)}"
                about += f" without {' '.join(names)}" if names else ""
        label = f"{FrameKind(frame.kind).name} {packet.number} of {sender.name}"
        label += f", phase {frame.phase}{about}"
        return Unit(packets, (self.index[sender], packet.number), label)
