"""One process in one group: routes inputs to the modules that decide, and collects effects.

    packets ──> lansis ──> order ──> cursor ──> Deliver
                  └──────> membership protocol ──> the next view
    Submit ───> outbox ──(window, pulse)──> a frame ──> lansis, order, cursor, Transmit

It decides nothing itself but the order of things within a step: packets first, then
deliveries, then what is stable is forgotten, then frames are sealed, so that a frame
acknowledges everything that came before it. `stay` holds what lasts for one view, `presence`
what a member does to be seen and to see others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from phalanx.core.effects import (
    AwaitDelivery,
    Backlog,
    Break,
    Close,
    Datagrams,
    DeadlinePassed,
    Effect,
    Given,
    Leave,
    LinkCounted,
    Stopped,
    Submit,
    Transmit,
    ViewInstalled,
)
from phalanx.core.frames import (
    Fragment,
    Frame,
    Nack,
    Part,
    Refusal,
    Whole,
)
from phalanx.core.ids import MemberId
from phalanx.core.membership.steps import Expired, Suspected
from phalanx.core.mover import Mover
from phalanx.core.stay import Stay
from phalanx.errors import MemberClosed

NEVER = 1 << 62


class Member(Mover):
    """A member of a group. Drive it with `step`, at the latest when `deadline` says so.

    `view` is what it boots in: itself alone, or a view that all its members boot in.
    """

    # -------------------------------------------------------------- the border

    def start(self, now: int) -> list[Effect]:
        """The first step: the member is in its view."""
        self._enter(Stay(self.me, self._stay.origin, self._means, now))
        self._presence.start(now, self._stay)
        self._mute = self._presence.claim.pending
        if len(self.view.members) > 1:
            self._protocol.watch(now)
        return [ViewInstalled(self.view, None, (), "boot")]

    def step(self, now: int, given: Given) -> list[Effect]:
        """Take one input; what must be done about it, in order.

        A SubmissionError leaves the member as it was.
        """
        out: list[Effect] = []
        if self._stopped:
            if isinstance(given, Submit):
                raise MemberClosed(str(self.me))
            return out
        match given:
            case Datagrams():
                self._receive(now, given.packets, out)
            case Submit(bodies, service, to, lost):
                self._submit(bodies, service, to, lost, out)
            case DeadlinePassed():
                self._slow_due_ns = -1
                self._recover(now, out)
                self._expire(now, out)
            case Close():
                self._closed = True
            case Leave():
                self._closed = True
                self._slow_due_ns = -1
                self._leave_ns = min(self._leave_ns, now + self._config.leave_ns)
            case Break(member):
                self._give(now, Suspected((member,), "OPERATOR"), out)
            case Backlog(level):
                told, self._backlog = self._backlog > 0, level
                if (level > 0) != told and not self._mute:
                    self._send(now, self._outbox.following, [], out)
            case AwaitDelivery(number):
                self._deliveries.ask(number)
            case _:
                assert_never(given)
        if self._lansis.special or not self._lansis.steady:
            self._advance(now, out)
        self._speak(now, out)
        if self._leave_ns != NEVER:
            self._go(now, out)
        self._report(out)
        if self._presence.lost_name and not self._stopped:
            self._stopped = True
            out.append(Stopped("name-in-use"))
        elif self._presence.repeats and not self._stopped:
            self._stopped = True
            out.append(Stopped("incarnation-used"))
        return out

    def deadline(self) -> int | None:
        """When to give DeadlinePassed, unless something else is given before."""
        if self._stopped:
            return None
        due = NEVER if self._mute else self._pulse.deadline(self._is_settled)
        for recovery in (self._lansis.recovery, self._means.foreign.recovery):
            asks = recovery.deadline()
            if asks is not None and asks < due:
                due = asks
        if self._slow_due_ns < 0:
            searches = not self._protocol.leaving
            waits = (self._protocol.deadline(), self._presence.deadline(searches), self._leave_ns)
            self._slow_due_ns = min(waits)
        if self._slow_due_ns < due:
            due = self._slow_due_ns
        if self._outbox.messages and self._pace_ns < due and self._may_send():
            due = self._pace_ns
        return due

    @property
    def have(self) -> list[int]:
        """Per rank, how many frames of that member are here."""
        return self._dag.have.copy()

    @property
    def settled(self) -> bool:
        """Nothing waits to be sent, no change is under way, and all messages known here are
        delivered and stable."""
        return self._is_settled and not self._outbox.messages and self._stay.cursor.empty

    def links(self) -> list[LinkCounted]:
        """What happened on the links with the other members since the view began."""
        return self._stay.links()

    @property
    def named(self) -> bool:
        """It has claimed its name and nobody objected: it takes part."""
        presence = self._presence
        return not (presence.claim.pending or presence.lost_name or presence.repeats)

    @property
    def changing(self) -> bool:
        """A view change is under way."""
        return self._protocol.changing

    def story(self) -> list[str]:
        """A few lines about its state, for a person."""
        dag, names = self._dag, [str(m) for m in self.view.members]
        lansis, protocol = self._lansis, self._protocol
        lines = [
            f"{self.me}: {self._outbox.messages} messages wait",
            f"  view {self.view.id} of {' '.join(names)}",
            f"  {protocol.stage}, phase {protocol.phase}",
            *(f"  issued {proposal!r}" for proposal in protocol.issued),
            *(f"  collected {c.view}: {_listed(c.members)}" for c in protocol.collected.values()),
            f"  {lansis.bytes} of {self._window.limit} bytes in the window",
            f"  {self._stay.cursor.positions} positions delivered",
            f"  {lansis.duplicates} duplicates dropped",
        ]
        for name, have, heard, stable in zip(
            names, dag.have, lansis.heard, dag.stable, strict=True
        ):
            lines.append(f"  {name}: frames here {have}, known {heard}, stable {stable}")
        missing = sorted(lansis.recovery.missing)
        if missing:
            places = ", ".join(f"{lansis.roster[s]}/{number}" for s, number in missing[:8])
            lines.append(f"  missing {len(missing)}: {places}")
        waiting = lansis.waiting()
        if waiting:
            places = ", ".join(f"{lansis.roster[f.sender]}/{f.number}" for f in waiting[:8])
            lines.append(f"  waiting {len(waiting)}: {places}")
        return lines + self._presence.detector.story()

    # -------------------------------------------------------------- packets

    def _receive(self, now: int, packets: Sequence[bytes], out: list[Effect]) -> None:
        lansis, presence, foreign = self._lansis, self._presence, self._means.foreign
        heard, direct = presence.detector.heard_ns, presence.detector.direct_ns
        entered: list[Frame] = []
        for packet in self._codec.decode_all(packets):
            if type(packet) is Whole or type(packet) is Fragment:
                if packet.table != self._stay.table:
                    if packet.repeat:
                        self._repeated(packet)
                    came = (
                        foreign.whole(packet, lansis.refused)
                        if type(packet) is Whole
                        else foreign.fragment(packet, lansis.refused)  # type: ignore[arg-type]
                    )
                    if came is not None:
                        self._entered(now, entered, out)
                        entered = []
                        self._foreign(now, *came, out)
                        lansis = self._lansis  # the view may have changed
                    continue
                frame = (
                    lansis.whole(now, packet)
                    if type(packet) is Whole
                    else lansis.fragment(now, packet)  # type: ignore[arg-type]
                )
                if frame is not None:
                    heard[frame.sender] = now
                    if packet.via == packet.sender:
                        direct[frame.sender] = now
                    else:
                        presence.brought(frame.sender, packet.via)
                    entered += lansis.enter(now, frame)
                    if presence.relaying and not packet.repeat:
                        self._forward(now, frame, out)
            elif type(packet) is Nack:
                lost, answer = lansis.nack(now, packet)
                if lost:
                    self._window.lost(now, packet.asker, lost)
                if answer:
                    out.append(Transmit(answer))
            elif type(packet) is Refusal:
                lansis.refused[packet.reason] += 1
                differs = self._mismatches.heard(now, packet)
                if differs is not None:
                    out.append(differs)
            else:
                self._entered(now, entered, out)
                entered = []
                plain = self._parcels.add(packet) if type(packet) is Part else packet
                if type(plain) is Refusal:
                    lansis.refused[plain.reason] += 1
                    continue
                if plain is None:
                    continue
                answers, inputs = presence.packet(now, plain, self._stay)  # type: ignore[arg-type]
                self._transmit(answers, out)
                for given in inputs:
                    self._give(now, given, out)
                self._slow_due_ns = -1
                lansis = self._lansis  # the view may have changed
        lansis.overdue(now)
        self._window.passed(len(packets))
        self._entered(now, entered, out)

    def _entered(self, now: int, entered: list[Frame], out: list[Effect]) -> None:
        """Frames of a steady view are in."""
        if not entered:
            return
        missed = False
        for frame in entered:
            if frame.runs:
                self._pulse.received(now, frame)
            elif frame.vector[self._rank] < self._dag.have[self._rank]:
                missed = True
        self._deliver(now, entered, out)
        if missed:
            self._repeat_last(now, out)

    def _repeated(self, packet: Whole | Fragment) -> None:
        """Somebody repeats a frame of another view: others need not."""
        sender = self._means.foreign.sender(packet.table, packet.sender)
        if sender is not None:
            by_sender = packet.via == packet.sender
            rank = self._stay.ranked.get(sender)
            if isinstance(packet, Whole):
                count = -(-len(packet.payload) // packet.size) if packet.size else 1
                indices = range(count)
            else:
                count, indices = packet.count, range(packet.index, packet.index + 1)
            recovery = self._lansis.recovery
            for index in indices:
                recovery.answered((sender, packet.number), by_sender, index, count)
                if rank is not None:
                    recovery.answered((rank, packet.number), by_sender, index, count)

    def _forward(self, now: int, frame: Frame, out: list[Effect]) -> None:
        """A member asked this one to pass another's frames on (PROTOCOLS B.6 item 14)."""
        if self._presence.forwards(now, self._lansis.roster[frame.sender]):
            out.append(Transmit(self._codec.fragments(frame, self._rank, repeat=1)))

    def _recover(self, now: int, out: list[Effect]) -> None:
        lost, packets = self._lansis.due(now)
        if lost:
            self._window.lost(now, self._rank, lost)
        packets += self._means.foreign.due(now, self._stay.table)
        if packets:
            out.append(Transmit(packets))

    def _expire(self, now: int, out: list[Effect]) -> None:
        """Timers of the membership: proposals, silence, searching."""
        protocol = self._protocol
        steady = not protocol.changing
        said, judged = self._presence.expire(now, self._stay, steady, not protocol.leaving)
        self._transmit(said, out)
        self._mute = protocol.leaving or self._presence.claim.pending
        out += judged
        gone = tuple(j.target for j in judged if j.state == "FAULTY")
        if gone:
            self._give(now, Suspected(gone), out)
        if now >= protocol.deadline():
            self._give(now, Expired(self._unspoken()), out)

    def _unspoken(self) -> tuple[MemberId, ...]:
        """Members of the view that have not sent a frame in it."""
        spoke = self._lansis.spoke
        others = enumerate(self.view.members)
        return tuple(m for rank, m in others if rank != self._rank and not spoke(rank))


def _listed(members: Sequence[MemberId] | frozenset[MemberId]) -> str:
    return " ".join(map(str, sorted(members))) or "nobody"
