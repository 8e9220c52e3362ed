"""Being seen and seeing others: names, HELLO, probes, suspicion, relays.

Nothing here is agreed; it only tells the membership protocol whom to join and with whom to
break. All packets are unnumbered and may be lost.
"""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.deadline import NEVER
from phalanx.core.effects import Evidence, PeerSuspicion
from phalanx.core.failure_detector import FailureDetector, PeerVerdict, Probing
from phalanx.core.ids import MemberId, ViewId, boot_view
from phalanx.core.member.view_state import ViewState
from phalanx.core.membership import proposals
from phalanx.core.membership.discovery import Discovery
from phalanx.core.membership.instructions import Attempted, Heard, Input, Met, Suspected
from phalanx.core.membership.members_met import MembersMet
from phalanx.core.membership.name_claim import NameClaim
from phalanx.core.membership.proposals import component_of, epoch
from phalanx.core.membership.statements import Statement
from phalanx.core.prng import Prng
from phalanx.core.wire.frames import Component
from phalanx.core.wire.packets import (
    Alive,
    ControlPacket,
    Hello,
    IncarnationReused,
    JoinAttempt,
    NameClaimed,
    NameHeld,
    Probe,
    Relay,
)

RELAYS_MAX = 64
NAMESAKES_MAX = 64


class ControlPlane:
    def __init__(self, me: MemberId, config: Config, prng: Prng, alone: bool) -> None:
        self.me = me
        self._config = config
        self.detector = FailureDetector(config, prng)
        self.search = Discovery(me, config, prng)
        self.claim = NameClaim(me, config, prng, needed=alone)
        self._joined = not alone
        """A group has accepted this member: it was in a view with others."""
        self.lost_name = False
        self.repeats = False
        """Another process had this member's incarnation before."""
        self._met = MembersMet(me)
        self._relayed: dict[MemberId, int] = {}
        """For whom to forward, until when."""
        self._asked: dict[MemberId, int] = {}
        """Of whom we hear only through others: who should relay."""
        self._ask_ns = 0
        self._namesake_ns: dict[MemberId, int] = {}
        """Since when another process with the name of a member is known."""
        self._outdated: ViewId | None = None
        """A view of this member that gives way to another that has all its names."""
        self._acked: dict[int, tuple[int, int]] = {}
        """Per slot, how many of our frames it had acknowledged when that was looked at, and how
        many of its frames were here."""

    def start(self, now: int, view_state: ViewState) -> None:
        self._met.add(view_state.view.members)
        self.detector.reset(now, view_state.view.members, view_state.rank)
        self.search.start(now)
        self.claim.start(now)

    def any_faulty(self, members: tuple[MemberId, ...], view_state: ViewState) -> bool:
        """Whether any of these members of the view was held for failed; those that leave are
        not."""
        return any(self.detector.state(view_state.ranked[m]) == "FAULTY" for m in members)

    def moved(self, now: int, view_state: ViewState, joined: bool, lost: bool) -> None:
        """A view was installed: with members of other components (`joined`), or without some that
        were held for failed (`lost`)."""
        self._met.add(view_state.view.members)
        if len(view_state.view.members) > 1:
            self._joined = True
            self.claim.accepted()
        self.detector.reset(now, view_state.view.members, view_state.rank)
        self.search.settled_with(view_state.view.members)
        self.search.installed(now, joined, lost)
        self._acked.clear()
        self._asked = {
            member: self.detector.relay_of(slot)
            for slot, member in enumerate(view_state.view.members)
            if self.detector.state(slot) == "SEMI" and self.detector.relay_of(slot) >= 0
        }

    # -------------------------------------------------------------- packets

    def packet(
        self, now: int, packet: ControlPacket, view_state: ViewState
    ) -> tuple[list[ControlPacket], list[Input]]:
        """An unnumbered packet that is no request for frames: what to answer at once, and what the
        membership protocol must know."""
        match packet:
            case Hello():
                return self._hello(now, packet, view_state)
            case JoinAttempt():
                return self._attempt(now, packet, view_state)
            case NameHeld() if len(view_state.view.members) > 1:
                return [], self._dissolved(now, packet, view_state)
            case _:
                return self._answers(now, packet, view_state), []

    def _answers(
        self, now: int, packet: ControlPacket, view_state: ViewState
    ) -> list[ControlPacket]:
        match packet:
            case NameClaimed():
                held = self.claim.answer(packet) or self._vouched(now, packet, view_state)
                if held is None and packet.member in self._met:
                    return [IncarnationReused(packet.member, packet.nonce)]
                return [] if held is None else [held]
            case IncarnationReused():
                return self._reused(now, packet, view_state)
            case NameHeld():
                return self._held(now, packet)
            case Probe():
                return self._probe(packet, view_state.view.id)
            case Alive():
                return self._alive(now, packet, view_state)
            case Relay():
                if packet.relay == self.me and packet.target in view_state.ranked:
                    if len(self._relayed) < RELAYS_MAX or packet.target in self._relayed:
                        self._relayed[packet.target] = now + self._config.fail_ns
        return []

    def _held(self, now: int, held: NameHeld) -> list[ControlPacket]:
        """Another process has the name of this member, which is alone (rule L-17)."""
        if self.claim.loses(now, held):
            if self._joined and not self._config.authentic:
                self.claim.contest(now, held.member)
            else:
                self.lost_name = True
        doubt = self.claim.doubts(now, held)
        return [] if doubt is None else [doubt]

    def _reused(
        self, now: int, reused: IncarnationReused, view_state: ViewState
    ) -> list[ControlPacket]:
        """Somebody met a process with this member's id. It was not this one if this one is alone
        in its first view and has proposed no other (`members_met`; rule L-20)."""
        if (
            len(view_state.view.members) > 1
            or epoch(view_state.view.id) != (0, 0)
            or view_state.issued
        ):
            return []
        self.repeats = self.repeats or self.claim.repeats(now, reused)
        doubt = self.claim.doubts_incarnation(now, reused)
        return [] if doubt is None else [doubt]

    def _probe(self, probe: Probe, view: ViewId) -> list[ControlPacket]:
        if probe.sender == self.me:
            return []
        if probe.target == self.me:
            return [Alive(self.me, probe.sender, probe.nonce, view, probe.helper)]
        if probe.helper == self.me and probe.via is None:
            return [Probe(probe.sender, probe.target, probe.nonce, self.me, self.me)]
        return []

    def _alive(self, now: int, alive: Alive, view_state: ViewState) -> list[ControlPacket]:
        if alive.sender == self.me:
            return []
        if alive.asker == self.me:
            slots = view_state.ranked
            slot = slots.get(alive.sender, NEVER)
            helper = -1 if alive.via is None else slots.get(alive.via, NEVER)
            if alive.view == view_state.view.id and max(slot, helper) < len(self.detector.heard_ns):
                self.detector.alive(now, slot, alive.nonce, helper)
        elif alive.helper == self.me and alive.via is None:
            return [Alive(alive.sender, alive.asker, alive.nonce, alive.view, self.me, self.me)]
        return []

    def _hello(
        self, now: int, hello: Hello, view_state: ViewState
    ) -> tuple[list[ControlPacket], list[Input]]:
        sender = hello.sender
        if sender.name == self.me.name:
            held = self.claim.met(sender, len(view_state.view.members) == 1)
            return ([] if held is None else [held]), []
        ours, inputs = sender in view_state.ranked, list[Input]()
        answers: list[ControlPacket] = (
            [IncarnationReused(sender, 0)] if self._starts_again(hello, view_state) else []
        )
        if hello.view != view_state.view.id:  # it is a stranger, lags, or has moved
            said = Statement(sender, hello.number, Component(hello.view, ()))
            inputs.append(Heard(said, False))
            if ours:
                return answers, inputs
        elif ours:
            self._sign(now, sender, view_state)
        if not ours and self.me in hello.heard:
            self.search.made_contact(now, hello.view)
        if self.search.heard(now, hello, hello.view, ours) and self.claim.is_ours:
            inputs.append(Met(sender, hello.view))
        return answers, inputs

    def _starts_again(self, hello: Hello, view_state: ViewState) -> bool:
        """Whether a member that was met speaks from its first view: it is another process with its
        id, or an old packet, which tells nothing."""
        if hello.sender not in self._met or epoch(hello.view) != (0, 0):
            return False
        return hello.view != view_state.view.id and hello.view == boot_view([hello.sender]).id

    def _attempt(
        self, now: int, attempt: JoinAttempt, view_state: ViewState
    ) -> tuple[list[ControlPacket], list[Input]]:
        sender, component = attempt.sender, attempt.component
        if sender == self.me or not self.claim.is_ours:
            return [], []
        if sender not in component.members or not proposals.is_view(component):
            view_state.broadcast.refused["impossible"] += 1
            return [], []
        rival = next((m for m in component.members if m.name == self.me.name), self.me)
        if rival != self.me:
            return self._meet_rival(now, rival, component, view_state), []
        held = self._namesakes(now, component, view_state)
        if held:
            return held, []
        ours = sender in view_state.ranked
        said = Statement(sender, attempt.number, component)
        if ours:
            if component.view != view_state.view.id:
                return [], [Heard(said, False)]
            self._sign(now, sender, view_state)
            return [], [Attempted(sender, component)]
        hears_us = any(member in view_state.ranked for member in attempt.heard)
        joins = self.search.heard(now, attempt, component.view, False)
        if joins or (hears_us and self.search.is_patient(now)):
            self.search.made_contact(now, component.view)
            return [], [Heard(said, True), Attempted(sender, component)]
        return [], [Heard(said, False)]

    def _meet_rival(
        self, now: int, rival: MemberId, component: Component, view_state: ViewState
    ) -> list[ControlPacket]:
        """A component with another process of this member's name wants to join. Of two groups, the
        others merge (rule N.3 leaves the earlier incarnation out). If nobody can do so and this
        view has to end, it does so once the other process has answered a claim (rule L-19)."""
        alone = len(view_state.view.members) == 1
        if len(component.members) == 1:
            held = self.claim.met(rival, alone)
            return [] if held is None else [held]
        ends = self.me < rival and gives_way(view_state.view.members, component.members)
        if not alone and not ends:
            return []
        doubt = self.claim.doubts(now, NameHeld(rival, 0))
        if doubt is None:
            return []
        self._outdated = view_state.view.id
        return [doubt]

    def _dissolved(self, now: int, held: NameHeld, view_state: ViewState) -> list[Input]:
        """A claim made in a view with others was answered. No packet stops a member that a group
        has accepted; but this view gives way to one that has all its names, and each member with
        a later namesake there goes on alone (rule L-19)."""
        if self._outdated != view_state.view.id or not self.claim.loses(now, held):
            return []
        if held.member < self.me:
            return []
        others = tuple(member for member in view_state.view.members if member != self.me)
        return [Suspected(others, "REPLACED")]

    def _namesakes(
        self, now: int, component: Component, view_state: ViewState
    ) -> list[ControlPacket]:
        """The component is one process, alone, whose name a member of this view holds: tell it, for
        the two may not hear each other. A process that crashed and came back is its own namesake
        for a while."""
        if len(component.members) > 1:
            return []
        (member,) = component.members
        holder = next((m for m in view_state.view.members if m.name == member.name), member)
        if holder == member:
            return []
        self._note_namesake(now, member)
        return [NameHeld(holder, 0)] if self._stays(holder, member, view_state) else []

    def _note_namesake(self, now: int, member: MemberId) -> None:
        if len(self._namesake_ns) >= NAMESAKES_MAX:
            self._namesake_ns.clear()
        self._namesake_ns.setdefault(member, now)

    def _stays(self, holder: MemberId, other: MemberId, view_state: ViewState) -> bool:
        """Whether a member of the view keeps its name against another process, which is alone: it
        was heard directly a full time-out after that one was known. Before that it may have
        crashed, and others may still be repeating its frames (rule L-18)."""
        since = self._namesake_ns.get(other, NEVER)
        direct = self.detector.direct_ns[view_state.ranked[holder]]
        return holder == self.me or direct >= since + self._config.fail_ns

    def _vouched(self, now: int, claim: NameClaimed, view_state: ViewState) -> NameHeld | None:
        """A namesake of a member asks whether that one lives: it does."""
        for holder in view_state.view.members:
            if holder.name == claim.member.name and holder not in (claim.member, self.me):
                self._note_namesake(now, claim.member)
                if self._stays(holder, claim.member, view_state):
                    return NameHeld(holder, claim.nonce)
        return None

    def heard(self, now: int, slot: int) -> None:
        """A frame of this slot came, by some way (rule L-1)."""
        if slot < len(self.detector.heard_ns):
            self.detector.heard_ns[slot] = now

    def brought(self, slot: int, via: int) -> None:
        """Another member brought a frame of this slot."""
        if via < len(self.detector.relay):
            self.detector.relay[slot] = via

    def _sign(self, now: int, member: MemberId, view_state: ViewState) -> None:
        """A packet of a member, from this view: a direct sign of life (rule L-1)."""
        slot = view_state.ranked[member]
        self.detector.heard_ns[slot] = self.detector.direct_ns[slot] = now

    def forwards(self, now: int, member: MemberId) -> bool:
        """Whether this member's frames are to be forwarded at once (rule L-9)."""
        until = self._relayed.get(member)
        if until is None:
            return False
        if now > until:
            del self._relayed[member]
            return False
        return True

    @property
    def relaying(self) -> bool:
        return bool(self._relayed)

    # -------------------------------------------------------------- time

    def deadline(self, searches: bool) -> int:
        due = min(self.detector.deadline(), self.claim.deadline())
        if self.claim.is_ours and searches:
            due = min(due, self.search.deadline())
        return due

    def expire(
        self, now: int, view_state: ViewState, steady: bool, searches: bool
    ) -> tuple[list[ControlPacket], list[PeerSuspicion]]:
        """What to say by now, and what the detector thinks by now. `steady` unless the view is
        changing, `searches` unless the member is leaving."""
        said: list[ControlPacket] = []
        judged: list[PeerSuspicion] = []
        if now >= self.claim.deadline():
            claim = self.claim.expire(now)
            if claim is not None:
                said.append(claim)
        if self.claim.is_ours and self.search.due(now) and searches:
            self.search.spoke(now)
            said.append(self.hello(now, view_state))
        if now >= self.detector.deadline():
            self._mark(now, view_state, steady and not view_state.awaiting_first_frames)
            roster = view_state.view.members
            for step in self.detector.check(now):
                if isinstance(step, Probing):
                    helper = roster[step.helper] if 0 <= step.helper < len(roster) else None
                    said.append(Probe(self.me, roster[step.slot], step.nonce, helper))
                else:
                    judged.append(self._judged(step, roster))
            said += self._ask_relays(now, view_state)
        return said, judged

    def hello(self, now: int, view_state: ViewState) -> Hello:
        number = view_state.dag.have[view_state.rank]
        return Hello(self.me, number, view_state.view.id, self.search.lately(now))

    def attempt(self, now: int, view_state: ViewState) -> JoinAttempt:
        number, origin = view_state.dag.have[view_state.rank], view_state.origin
        component = component_of(view_state.view, origin.roles)
        return JoinAttempt(self.me, number, component, self.search.lately(now))

    def judge(
        self, member: MemberId, evidence: Evidence, view_state: ViewState
    ) -> PeerSuspicion | None:
        """The membership protocol leaves a member of the view out, on other evidence than the
        detector's; None if the detector has given it up already (rule L-10)."""
        slot = view_state.ranked[member]
        before = self.detector.state(slot)
        if before == "FAULTY":
            return None
        self._asked.pop(member, None)
        self.detector.ignore(slot)
        return PeerSuspicion(member, "FAULTY", before, evidence)

    def _judged(self, step: PeerVerdict, roster: tuple[MemberId, ...]) -> PeerSuspicion:
        target = roster[step.slot]
        relay = roster[step.relay] if 0 <= step.relay < len(roster) else None
        if step.state == "SEMI" and relay is not None:
            self._asked[target] = step.relay
        else:
            self._asked.pop(target, None)
        if step.state == "FAULTY":
            self.detector.ignore(step.slot)
        return PeerSuspicion(target, step.state, step.previous, step.evidence, relay)

    def _ask_relays(self, now: int, view_state: ViewState) -> list[ControlPacket]:
        if not self._asked or now < self._ask_ns:
            return []
        self._ask_ns = now + self._config.fail_ns // 4
        members = view_state.view.members
        return [
            Relay(self.me, target, members[slot])
            for target, slot in self._asked.items()
            if slot < len(members)
        ]

    def _mark(self, now: int, view_state: ViewState, steady: bool) -> None:
        """Tell the detector who lacks frames of ours and has acknowledged nothing since."""
        sent, behind = (
            view_state.dag.have[view_state.rank],
            {slot for slot, _ in view_state.broadcast.retransmission.missing},
        )
        for slot in range(view_state.dag.n):
            if slot != view_state.rank:
                acked, have = (
                    view_state.dag.latest[slot][view_state.rank],
                    view_state.dag.have[slot],
                )
                before, had = self._acked.get(slot, (-1, 0))
                catches_up = slot in behind and self._catches_up(had, have)
                lag = steady and acked < sent and acked == before and not catches_up
                self._acked[slot] = (acked, have)
                self.detector.expect(now, slot, lag)

    def _catches_up(self, had: int, have: int) -> bool:
        """What a member acknowledges stands in its frames: in those that are missing here it may
        have done so, and they come. Who acknowledges nothing cannot send for ever: its window
        fills up, and then nothing of it is missing."""
        return have > had


def gives_way(members: tuple[MemberId, ...], others: tuple[MemberId, ...]) -> bool:
    """Whether a view of these members ends for a view of the others (rule L-19): every member has a
    namesake there, so none of them can join, and either all the namesakes are later or both views
    have the same names, so none of the others can join either, and the first namesake is later."""
    namesakes = {other.name: other for other in others}
    pairs = [(member, namesakes.get(member.name, member)) for member in members]
    if any(member == namesake for member, namesake in pairs):
        return False
    if all(member < namesake for member, namesake in pairs):
        return True
    return len(members) == len(others) and min(members) < min(others)
