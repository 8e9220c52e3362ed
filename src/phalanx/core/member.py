"""One process in one group: routes inputs to the modules that decide, and collects effects.

    packets ──> domain ──> order ──> cursor ──> Deliver
                  └──────> membership kernel ──> the next view
    Submit ───> outbox ──(window, pulse)──> a frame ──> domain, order, cursor, Transmit

It decides nothing itself but the order of things within a step: packets first, then
deliveries, then what is stable is forgotten, then frames are sealed, so that a frame
acknowledges everything that came before it. `stay` holds what lasts for one view, `presence`
what a member does to be seen and to see others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import assert_never

from phalanx.config import Config
from phalanx.core.announced import component_of, table_of
from phalanx.core.changeover import Border, Carried, carried_from
from phalanx.core.codec import Codec
from phalanx.core.dice import Dice
from phalanx.core.effects import (
    Accepted,
    Action,
    Break,
    ChangeStepped,
    Close,
    Datagrams,
    DeadlinePassed,
    Effect,
    Given,
    Leave,
    NotSent,
    Ordered,
    Refused,
    Sent,
    Service,
    Stable,
    Stopped,
    Submit,
    Transmit,
    ViewInstalled,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.frames import (
    Fragment,
    Frame,
    FrameKind,
    Gone,
    Join,
    Nack,
    Plain,
    Refusal,
    Said,
    Whole,
)
from phalanx.core.ids import MemberId, View
from phalanx.core.membership.contexts import Reach, epoch
from phalanx.core.membership.kernel import Change, Entry, Kernel
from phalanx.core.merging import Progress, merged_from
from phalanx.core.packing import Outbox
from phalanx.core.presence import Presence
from phalanx.core.sealing import Content, announcement, reach_of, seal
from phalanx.core.stay import Means, Stay
from phalanx.errors import (
    MemberClosed,
    MessageTooLarge,
    NoReceiver,
    NotBytes,
    OutboxFull,
    UnknownMember,
)

_ACK = int(FrameKind.ACK)
NEVER = 1 << 62


class Member:
    """A member of a group. Drive it with `step`, at the latest when `deadline` says so.

    `view` is what it boots in: itself alone, or a view that all its members boot in.
    """

    def __init__(self, me: MemberId, view: View, group: str, config: Config, entropy: int) -> None:
        self.me = me
        self._config = config
        self._codec = Codec(config.cluster, group)
        dice = Dice(entropy)
        self._kernel = Kernel(me, view, config, self)
        self._means = Means(self._codec, config, dice, self._kernel.admissible)
        self._presence = Presence(me, config, dice, self._kernel, len(view.members) == 1)
        self._enter(Stay(me, Border(view, {}, {}), False, self._means, 0))
        self._carry: dict[tuple[MemberId, int], Carried] = {}
        """Phase-1 frames with messages, until a view delivers them."""
        self._progress = Progress()
        self._outbox = Outbox(config.frame_bytes_max)
        self._pace_ns = 0
        self._numbered = 0
        self._closed = False
        self._leave_ns = NEVER
        self._stopped = False
        self._window_told_closed = False
        self._unordered: deque[Frame] = deque()
        self._unstable: deque[Frame] = deque()
        self._ordered_upto = 0
        self._stable_upto = 0
        self._now = 0
        self._out: list[Effect] = []

    def _enter(self, stay: Stay) -> None:
        """From here on the member is in this stay. What the hot path uses is at hand."""
        self._stay = stay
        self.view = stay.view
        self._rank = stay.rank
        self._lansis = stay.domain
        self._dag = stay.dag
        self._window = stay.window
        self._pulse = stay.pulse

    # -------------------------------------------------------------- the border

    def start(self, now: int) -> list[Effect]:
        """The first step: the member is in its view."""
        self._enter(Stay(self.me, self._stay.border, False, self._means, now))
        self._kernel.now = now
        self._presence.start(now, self._stay)
        out: list[Effect] = [ViewInstalled(self.view, None, (), "boot")]
        if len(self.view.members) > 1:
            self._kernel.watch()
        return out

    def step(self, now: int, given: Given) -> list[Effect]:
        """Take one input; what must be done about it, in order.

        A SubmissionError leaves the member as it was.
        """
        out: list[Effect] = []
        if self._stopped:
            return out
        self._now = self._kernel.now = now
        self._out = out
        match given:
            case Datagrams():
                self._receive(now, given.packets, out)
            case DeadlinePassed():
                self._recover(now, out)
                self._expire(now, out)
            case Submit(bodies, service, to):
                self._submit(bodies, service, to, out)
            case Close():
                self._closed = True
            case Leave():
                self._closed = True
                self._leave_ns = min(self._leave_ns, now + self._config.leave_ns)
            case Break(member):
                self._kernel.break_with((member,))
            case _:
                assert_never(given)
        if self._lansis.special or self._kernel.changing or not self._lansis.steady:
            self._advance(now, out)
        self._speak(now, out)
        if self._leave_ns != NEVER:
            self._go(now, out)
        self._report(out)
        if self._presence.lost_name and not self._stopped:
            self._stopped = True
            out.append(Stopped("name-in-use"))
        return out

    def deadline(self) -> int | None:
        """When to give DeadlinePassed, unless something else is given before."""
        if self._stopped:
            return None
        due = NEVER if self._is_mute else self._pulse.deadline(self._is_settled)
        asks = self._lansis.recovery.deadline()
        if asks is not None and asks < due:
            due = asks
        due = min(due, self._kernel.deadline(), self._presence.deadline(), self._leave_ns)
        if self._outbox.messages and self._pace_ns < due and self._may_send():
            due = self._pace_ns
        return due

    @property
    def have(self) -> list[int]:
        """Per rank, how many frames of that member are here."""
        return self._dag.have[: self._dag.n]

    @property
    def room(self) -> int:
        """Bytes that the outbox still takes; 0 or less: Submit raises OutboxFull."""
        return self._config.outbox_bytes_max - self._outbox.bytes

    @property
    def settled(self) -> bool:
        """Nothing waits to be sent, no change is under way, and all messages known here are
        delivered and stable."""
        return self._is_settled and not self._outbox.messages and self._stay.cursor.empty

    @property
    def _is_settled(self) -> bool:
        return self._stay.settled and not self._kernel.changing

    def story(self) -> list[str]:
        """A few lines about its state, for a person."""
        dag, names = self._dag, [str(m) for m in self.view.members]
        lansis, kernel = self._lansis, self._kernel
        lines = [
            f"{self.me}: {self._outbox.messages} messages wait",
            f"  view {self.view.id} of {' '.join(names)}",
            f"  {kernel.stage}, phase {kernel.phase}, faulty {_listed(kernel.faulty)}"
            f", out {_listed(kernel.out)}, before {_listed(kernel.before)}"
            f", after {_listed(kernel.after)}",
            *(f"  component {c.view}: {_listed(c.members)}" for c in kernel.components),
            f"  {lansis.bytes} of {self._window.limit} bytes in the window",
            f"  {self._stay.cursor.positions} positions delivered",
            f"  {lansis.duplicates} duplicates dropped",
        ]
        for name, have, heard, stable in zip(
            names, dag.have, lansis.heard, dag.stable, strict=False
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
        lansis, presence = self._lansis, self._presence
        heard, direct = presence.detector.heard_ns, presence.detector.direct_ns
        entered: list[Frame] = []
        for packet in self._codec.decode_all(packets):
            if type(packet) is Whole or type(packet) is Fragment:
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
            elif type(packet) is not Gone:
                answer_to = presence.packet(now, packet, self._stay)  # type: ignore[arg-type]
                self._transmit(answer_to, out)
                lansis.steady = not self._kernel.changing
        lansis.overdue(now)
        self._window.passed(len(packets))
        if entered:
            missed = False
            for frame in entered:
                if frame.runs:
                    urgent = frame.ordered or self._config.post_confirm
                    self._pulse.received(now, len(frame.payload), urgent)
                elif frame.vector[self._rank] < self._dag.have[self._rank]:
                    missed = True
            self._deliver(now, entered, out)
            if missed:
                self._repeat_last(now, out)

    def _repeat_last(self, now: int, out: list[Effect]) -> None:
        if self._pulse.quiet_for(now):
            packets = self._lansis.last_again(now)
            if packets:
                out.append(Transmit(packets))

    def _forward(self, now: int, frame: Frame, out: list[Effect]) -> None:
        """A member asked this one to pass another's frames on (PROTOCOLS B.6 item 14)."""
        if self._presence.forwards(now, self._lansis.roster[frame.sender]):
            out.append(Transmit(self._codec.fragments(frame, self._rank, repeat=1)))

    def _transmit(self, packets: list[Plain], out: list[Effect]) -> None:
        if packets:
            out.append(Transmit([self._codec.encode(packet) for packet in packets]))

    def _recover(self, now: int, out: list[Effect]) -> None:
        lost, packets = self._lansis.due(now)
        if lost:
            self._window.lost(now, self._rank, lost)
        if packets:
            out.append(Transmit(packets))

    def _expire(self, now: int, out: list[Effect]) -> None:
        """Timers of the membership: proposals, silence, searching."""
        said, judged = self._presence.expire(now, self._stay)
        self._transmit(said, out)
        out += judged
        gone = [j.target for j in judged if j.state == "FAULTY"]
        if gone:
            self._kernel.break_with(gone)
        if now >= self._kernel.deadline():
            late = self._kernel.expire()
            if late:
                self._kernel.break_with(late)

    def _deliver(self, now: int, entered: list[Frame], out: list[Effect]) -> None:
        self._stay.deliver(now, entered, out, self._kernel.phase == 1)
        if self._stay.young and self._dag.all_spoke:
            self._stay.young = False
            self._kernel.spoken()
            if not self._kernel.changing:
                self._means.archive.clear()

    # -------------------------------------------------------------- frames of a change

    def _advance(self, now: int, out: list[Effect]) -> None:
        """Consider what waits, one frame at a time: each may change what the next one means."""
        kernel = self._kernel
        while True:
            self._lansis.steady = False
            frame = self._lansis.pull()
            if frame is None:
                break
            self._consider(now, frame, out)
        lansis = self._lansis
        lansis.special = False
        lansis.steady = not kernel.changing
        if kernel.stage == "IDLE" and len(lansis.roster) > self._dag.n:
            lansis.dismiss(now)
        if not kernel.changing and not self._stay.young and self._means.archive:
            self._means.archive.clear()
        self._presence.follow(now, self._stay)

    def _consider(self, now: int, frame: Frame, out: list[Effect]) -> None:
        stay, kernel, domain = self._stay, self._kernel, self._lansis
        sender = domain.roster[frame.sender]
        self._presence.heard(now, frame.sender)
        if frame.tag == stay.tag and frame.phase == 0 and frame.kind <= _ACK:
            stay.address(frame)
            domain.take(now, frame, counts=True)
            if frame.runs:
                self._pulse.received(now, len(frame.payload), frame.ordered)
            self._deliver(now, [frame], out)
            return
        component = component_of(frame)
        announce = frame.control
        if component is None or announce is None:
            domain.refuse(frame)
            return
        kernel.heard(sender, component.view)
        inside = frame.sender < stay.dag.n
        old = epoch(component.view) < epoch(self.view.id)
        if inside and old and frame.phase == 0:
            domain.refuse(frame)
            return
        if frame.tag != stay.tag and not (inside and old):
            members = frozenset(component.members)
            if kernel.has_moved(sender, component.view, members, announce.context):
                kernel.moved(sender, component)
                if self._lansis is domain and domain.pull() is frame:
                    domain.refuse(frame)  # it could not be followed
                return
            if self.me in members and kernel.proves(announce, members):
                return  # it waits in the new view
        process = kernel.admissible(sender, frame.kind > _ACK)
        domain.take(now, frame, counts=False)
        if frame.phase == 1 and frame.tag == stay.tag:
            stay.note_floor(frame.sender, frame.number)
        if inside and old and not stay.transit:
            stay.address(frame)
            self._deliver(now, [frame], out)
        elif frame.runs and frame.phase == 1:
            self._carry[sender, frame.number] = carried_from(frame, sender, component.view)
        self._pulse.stir()
        if frame.vector[self._rank] < self._dag.have[self._rank]:
            self._repeat_last(now, out)
        if not frame.handled:
            frame.handled = True
            reach = reach_of(announce, table_of(announce))
            entry = Entry(sender, frame.number, component.view, frame.phase, announce, reach)
            kernel.entered(entry, process)

    # -------------------------------------------------------------- what the kernel asks for

    def say(self, said: Said) -> tuple[int, Reach]:
        """Send a control frame: its number, and its past with itself."""
        frame = self._send(self._now, self._outbox.following, [], self._out, said)
        assert frame.control is not None
        return frame.number, reach_of(frame.control, table_of(frame.control))

    def attempt(self) -> None:
        self._transmit([self._presence.attempt(self._now, self._stay)], self._out)

    def unspoken(self) -> list[MemberId]:
        latest = self._dag.latest
        return [m for rank, m in enumerate(self.view.members) if not latest[rank][rank]]

    def delivered(self) -> Join:
        return Join((), self._progress.told(self._stay.cursor.delivered()))

    def stepped(self, action: Action) -> None:
        kernel = self._kernel
        context = kernel.proposal_id or kernel.context_id
        components = tuple(c.view for c in kernel.components)
        before, after = tuple(sorted(kernel.before)), tuple(sorted(kernel.after))
        if kernel.stage == "IDLE":
            after = tuple(sorted(kernel.faulty - kernel.out))
        self._out.append(ChangeStepped(context, kernel.stage, action, components, before, after))

    def install(self, change: Change) -> None:
        """The view has changed: close the one before, open the next."""
        now, out, before = self._now, self._out, self._stay
        border = Border(change.view, change.origins, change.closing)
        together = tuple(
            m for m in change.view.members if change.origins[m].view == change.before.id
        )
        carry = self._carry
        carried = {place: item for place, item in carry.items() if border.carries(item)}
        ending = [
            item
            for item in carry.values()
            if before.border.carries(item)
            and change.closing.get(item.sender, 0) >= item.number
            and not border.carries(item)
        ]
        before.close(ending if before.transit else [], together, out)
        self._progress.add(before.cursor.delivered())
        transit = change.phase == 1
        stay = Stay(self.me, border, transit, self._means, now)
        self._close_receipts(out)
        self._enter(stay)
        stay.succeed(before, change.keeps, change.phase)
        former = {before.ranked[m]: rank for m, rank in stay.ranked.items() if m in before.ranked}
        self._outbox.again()
        self._outbox.readdress(former)
        joined = tuple(m for m in change.view.members if m not in before.ranked)
        left = tuple(m for m in change.before.members if m not in stay.ranked)
        merged = merged_from(change)
        out.append(
            ViewInstalled(
                change.view, change.before.id, together, change.cause, joined, left, merged
            )
        )
        self._carry = carried if transit else {}
        if not transit:
            below = [i for i in carried.values() if change.closing.get(i.sender, 0) >= i.number]
            stay.begin(below, out)
        # What had entered enters here at once: the next own frame is numbered after the last.
        while (frame := stay.domain.pull_again()) is not None:
            self._consider(now, frame, out)
        assert all(f.sender != stay.rank for f in stay.domain.waiting()), "own frames wait"
        self._presence.moved(now, stay, bool(joined), bool(left))

    def _close_receipts(self, out: list[Effect]) -> None:
        """All that was sent in phase 0 of the view is delivered at all who move along."""
        last = 0
        for waiting in (self._unordered, self._unstable):
            while waiting and waiting[0].phase == 0:
                last = max(last, waiting.popleft().last)
        if last > self._ordered_upto:
            self._ordered_upto = last
            out.append(Ordered(last))
        if last > self._stable_upto:
            self._stable_upto = last
            out.append(Stable(last, self.view.id))

    # -------------------------------------------------------------- submissions

    def _submit(
        self,
        bodies: Sequence[bytes],
        service: Service,
        to: tuple[MemberId, ...] | None,
        out: list[Effect],
    ) -> None:
        if self._closed:
            raise MemberClosed(str(self.me))
        if not bodies:
            return
        kinds = set(map(type, bodies)) - {bytes}
        if kinds:
            raise NotBytes(min(kind.__name__ for kind in kinds))
        lengths = list(map(len, bodies))
        longest = max(lengths)
        if longest > self._config.message_bytes_max:
            raise MessageTooLarge(longest, self._config.message_bytes_max)
        ranks = self._ranks(to)
        if self.room <= 0:
            raise OutboxFull(self._outbox.bytes, self._config.outbox_bytes_max)
        self._outbox.put(bodies, lengths, service, ranks)
        first = self._numbered + 1
        self._numbered += len(bodies)
        receivers = self._members(ranks)
        out.append(Accepted(first, self._numbered, service, receivers, sum(lengths)))

    def _ranks(self, to: tuple[MemberId, ...] | None) -> tuple[int, ...] | None:
        if to is None:
            return None
        if not to:
            raise NoReceiver
        ranks = []
        for member in to:
            rank = self._stay.ranked.get(member)
            if rank is None:
                raise UnknownMember(str(member), tuple(map(str, self.view.members)))
            ranks.append(rank)
        return tuple(sorted(set(ranks)))

    # -------------------------------------------------------------- frames out

    @property
    def _is_mute(self) -> bool:
        """It may send no frames: its name is not yet its own, or it has said goodbye."""
        return self._kernel.leaving or self._presence.claim.pending

    def _may_send(self) -> bool:
        """Messages may leave: the window is open, and no change holds them back."""
        if self._is_mute:
            return False
        if self._kernel.phase and (self._config.mode == "hold" or self._outbox.is_large):
            return False
        return self._window.is_open(self._lansis.bytes, self._lansis.own_bytes)

    def _speak(self, now: int, out: list[Effect]) -> None:
        """Seal what may leave: messages if the window lets them, else acks that are owed."""
        if self._is_mute:
            return
        outbox = self._outbox
        due = self._pulse.due(now, self._is_settled)
        while outbox.messages and self._may_send():
            if now < self._pace_ns and not outbox.fills_a_frame and not due:
                break
            due = False  # what is owed goes with the messages
            first = outbox.following
            self._send(now, first, outbox.take(), out)
            self._pace_ns = now + self._window.delay(self._lansis.bytes)
        if due:
            self._send(now, outbox.following, [], out)

    def _send(
        self, now: int, first: int, content: Content, out: list[Effect], said: Said | None = None
    ) -> Frame:
        """Seal a frame, tell of it, and let it enter here as everywhere."""
        stay, kernel = self._stay, self._kernel
        phase = 1 if said is not None else kernel.phase
        announced = None
        if phase:
            stay.note_floor(self._rank, self._dag.have[self._rank] + 1)
        if phase or stay.young:
            components = kernel.announced() if phase else (kernel.component,)
            announced = announcement(stay, components, phase, said)
        for run, _ in content:
            if run.completes:
                last = run.first + run.count - 1
                to = self._members(run.to)
                number = self._dag.have[self._rank] + 1
                out.append(Sent(run.first, last, number, run.service, to, self.view.id, phase))
                if to == ():
                    out.append(NotSent(run.first, last))
        acks = self._acknowledgements()
        frame = seal(stay, self._config, phase, first, content, acks, announced)
        packets = self._codec.fragments(frame, frame.wire, repeat=0)
        self._window.passed(len(packets))
        out.append(Transmit(packets))
        if frame.runs:
            self._unordered.append(frame)
            self._unstable.append(frame)
        self._pulse.spoke(now, bool(frame.runs) or said is not None)
        if phase:
            frame.handled = True
            self._lansis.enter_apart(frame)
            if frame.runs:
                self._carry[self.me, frame.number] = carried_from(frame, self.me, self.view.id)
        else:
            self._lansis.insert(frame)
            self._deliver(now, [frame], out)
        return frame

    def _acknowledgements(self) -> tuple[list[int], list[int]]:
        """What entered since the last own frame: each ACK is sent once (S4 3.3)."""
        return self._dag.changed_since(self._rank)

    def _members(self, to: tuple[int, ...] | None) -> tuple[MemberId, ...] | None:
        return None if to is None else tuple(self.view.members[rank] for rank in to)

    # -------------------------------------------------------------- leaving

    def _go(self, now: int, out: list[Effect]) -> None:
        """Leave once everything accepted has been sent, or it takes too long."""
        kernel = self._kernel
        late = now >= self._leave_ns
        if not kernel.leaving and (late or not self._outbox.messages):
            if not self._presence.claim.pending:
                kernel.leave()
            self._leave_ns = now + self._config.leave_ns
            late = self._presence.claim.pending
        if kernel.has_left or late:
            self._stopped = True
            out.append(Stopped("left"))

    # -------------------------------------------------------------- what to tell

    def _report(self, out: list[Effect]) -> None:
        """Receipts, the window's state and what was refused."""
        ordered, stable = self._ordered_upto, self._stable_upto
        while self._unordered and not (self._unordered[0].ordered and self._unordered[0].batch < 0):
            if self._unordered[0].phase and self._carry:
                break
            ordered = self._unordered.popleft().last
        if ordered > self._ordered_upto:
            self._ordered_upto = ordered
            out.append(Ordered(ordered))
        limit = self._dag.stable[self._rank]
        while self._unstable and self._unstable[0].number <= limit:
            stable = self._unstable.popleft().last
        if stable > self._stable_upto:
            self._stable_upto = stable
            out.append(Stable(stable, self.view.id))
        if self._lansis.refused:
            out += [Refused(reason, count) for reason, count in self._lansis.refused.items()]
            self._lansis.refused.clear()
        waiting = self._outbox.bytes
        if waiting >= self._config.outbox_bytes_max and not self._window_told_closed:
            self._window_told_closed = True
            out.append(WindowClosed(self._lansis.bytes, self._in_flight()))
        elif self._window_told_closed and 2 * waiting <= self._config.outbox_bytes_max:
            self._window_told_closed = False
            out.append(WindowOpened(self._lansis.bytes, self._in_flight()))

    def _in_flight(self) -> int:
        return sum(len(frames) for frames in self._dag.frames)


def _listed(members: Sequence[MemberId] | frozenset[MemberId]) -> str:
    return " ".join(map(str, sorted(members))) or "nobody"
