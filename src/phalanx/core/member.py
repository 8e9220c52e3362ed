"""One process in one group: routes inputs to the modules that decide, and collects effects.

    packets ──> lansis ──> order ──> cursor ──> Deliver
    Submit ───> outbox ──(window, pulse)──> a frame ──> lansis, order, cursor, Transmit

It decides nothing itself but the order of things within a step: packets first, then
deliveries, then what is stable is forgotten, then frames are sealed, so that a frame
acknowledges everything that came before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import gt
from typing import assert_never

from phalanx.config import Config
from phalanx.core.codec import FRAGMENT_HEADER_BYTES, Codec
from phalanx.core.delivery.agreed import AllAck, Order, ToTo
from phalanx.core.delivery.cursor import Cursor
from phalanx.core.dice import Dice
from phalanx.core.effects import (
    Accepted,
    Close,
    Datagrams,
    DeadlinePassed,
    Deliver,
    Effect,
    Given,
    Ordered,
    Refused,
    Sent,
    Service,
    Stable,
    Submit,
    Transmit,
    ViewInstalled,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.frames import Announce, Fragment, Frame, FrameKind, Nack, Refusal, Run, Whole
from phalanx.core.framing import encode_frame, encode_tag
from phalanx.core.ids import MemberId, View, table_digest
from phalanx.core.lansis import Lansis
from phalanx.core.packing import Outbox
from phalanx.core.pulse import Pulse
from phalanx.core.window import Window
from phalanx.errors import (
    MemberClosed,
    MessageTooLarge,
    NoReceiver,
    NotBytes,
    OutboxFull,
    UnknownMember,
)


class Member:
    """A member of a fixed view. Drive it with `step`, at the latest when `deadline` says so."""

    def __init__(self, me: MemberId, view: View, group: str, config: Config, entropy: int) -> None:
        n = len(view.members)
        self.me = me
        self.view = view
        self._rank = view.rank(me)
        self._ranked = {member: rank for rank, member in enumerate(view.members)}
        self._config = config
        self._codec = Codec(config.cluster, group)
        self._table = table_digest(view.members)
        self._tag = encode_tag(view.id)
        self._phase = 0
        dice = Dice(entropy)
        self._lansis = Lansis(self._rank, n, self._table, self._tag, self._codec, config, dice)
        self._dag = self._lansis.dag
        self._order: Order = (
            ToTo(self._dag, config.early) if config.order == "toto" else AllAck(self._dag)
        )
        self._cursor = Cursor(self._rank, view, self._dag, config.post_confirm)
        self._window = Window(config, n)
        self._outbox = Outbox(config.frame_bytes_max)
        self._pulse = Pulse(config, n, 0)
        self._pace_ns = 0
        self._numbered = 0
        self._closed = False
        self._window_told_closed = False
        self._last_message = [0] * n
        """Per sender, its last frame here that holds messages."""
        self._unordered: deque[Frame] = deque()
        self._unstable: deque[Frame] = deque()
        self._ordered_upto = 0
        self._stable_upto = 0
        self._settled = True

    # -------------------------------------------------------------- the border

    def start(self, now: int) -> list[Effect]:
        """The first step: the member is in its view."""
        self._pulse = Pulse(self._config, len(self.view.members), now)
        return [ViewInstalled(self.view, None, (), "boot")]

    def step(self, now: int, given: Given) -> list[Effect]:
        """Take one input; what must be done about it, in order.

        A SubmissionError leaves the member as it was.
        """
        out: list[Effect] = []
        match given:
            case Datagrams():
                self._receive(now, given.packets, out)
            case DeadlinePassed():
                self._recover(now, out)
            case Submit(bodies, service, to):
                self._submit(bodies, service, to, out)
            case Close():
                self._closed = True
            case _:
                assert_never(given)
        self._speak(now, out)
        self._report(out)
        return out

    def deadline(self) -> int | None:
        """When to give DeadlinePassed, unless something else is given before."""
        due = self._pulse.deadline(self._settled)
        asks = self._lansis.recovery.deadline()
        if asks is not None and asks < due:
            due = asks
        if self._outbox.messages and self._pace_ns < due and self._window_is_open():
            due = self._pace_ns
        return due

    @property
    def have(self) -> list[int]:
        """Per rank, how many frames of that member are here."""
        return self._dag.have

    @property
    def room(self) -> int:
        """Bytes that the outbox still takes; 0 or less: Submit raises OutboxFull."""
        return self._config.outbox_bytes_max - self._outbox.bytes

    @property
    def settled(self) -> bool:
        """Nothing waits to be sent, and all messages known here are delivered and stable."""
        return self._settled and not self._outbox.messages and self._cursor.empty

    def story(self) -> list[str]:
        """A few lines about its state, for a person."""
        dag, names = self._dag, [str(m) for m in self.view.members]
        lansis = self._lansis
        lines = [
            f"{self.me}: {self._outbox.messages} messages wait",
            f"  {lansis.bytes} of {self._window.limit} bytes in the window",
            f"  {self._cursor.positions} positions delivered",
            f"  {lansis.duplicates} duplicates dropped",
        ]
        for name, have, heard, stable in zip(
            names, dag.have, lansis.heard, dag.stable, strict=True
        ):
            lines.append(f"  {name}: frames here {have}, known {heard}, stable {stable}")
        missing = sorted(lansis.recovery.missing)
        if missing:
            places = ", ".join(f"{names[s]}/{number}" for s, number in missing[:8])
            lines.append(f"  missing {len(missing)}: {places}")
        return lines

    # -------------------------------------------------------------- packets

    def _receive(self, now: int, packets: Sequence[bytes], out: list[Effect]) -> None:
        lansis = self._lansis
        entered: list[Frame] = []
        for packet in self._codec.decode_all(packets):
            if type(packet) is Whole:
                frame = lansis.whole(now, packet)
                if frame is not None:
                    entered += lansis.enter(now, frame)
            elif type(packet) is Fragment:
                frame = lansis.fragment(now, packet)
                if frame is not None:
                    entered += lansis.enter(now, frame)
            elif type(packet) is Nack:
                lost, answer = lansis.nack(now, packet)
                if lost:
                    self._window.lost(now, packet.asker, lost)
                if answer:
                    out.append(Transmit(answer))
            elif type(packet) is Refusal:
                lansis.refused[packet.reason] += 1
            # Hello, Claim, Probe and their like mean nothing on a fixed view.
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
            if missed and self._pulse.quiet_for(now):
                packets = lansis.last_again(now)
                if packets:
                    out.append(Transmit(packets))

    def _recover(self, now: int, out: list[Effect]) -> None:
        lost, packets = self._lansis.due(now)
        if lost:
            self._window.lost(now, self._rank, lost)
        if packets:
            out.append(Transmit(packets))

    def _deliver(self, now: int, entered: list[Frame], out: list[Effect]) -> None:
        """Frames have entered the DAG: what may go up goes up, what is stable is forgotten."""
        order, cursor = self._order, self._cursor
        deliveries: list[Deliver] = []
        ordered: list[Frame] = []
        for frame in entered:
            ordered += order.insert(frame)
            if frame.runs:
                self._last_message[frame.sender] = frame.number
                cursor.insert(frame, deliveries)
        cursor.advance(ordered, deliveries)
        out += deliveries
        if self._dag.moved:
            self._lansis.drop_stable()
            self._window.progressed(now)
        self._settled = not any(map(gt, self._last_message, self._dag.stable))

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
            if member not in self._ranked:
                raise UnknownMember(str(member), tuple(map(str, self.view.members)))
            ranks.append(self._ranked[member])
        return tuple(sorted(set(ranks)))

    # -------------------------------------------------------------- frames out

    def _window_is_open(self) -> bool:
        return self._window.is_open(self._lansis.bytes, self._lansis.own_bytes)

    def _speak(self, now: int, out: list[Effect]) -> None:
        """Seal what may leave: messages if the window lets them, else acks that are owed."""
        outbox = self._outbox
        due = self._pulse.due(now, self._settled)
        while outbox.messages and self._window_is_open():
            if now < self._pace_ns and not outbox.fills_a_frame and not due:
                break
            due = False  # what is owed goes with the messages
            first = outbox.following
            self._seal(now, FrameKind.DATA, first, outbox.take(), out)
            self._pace_ns = now + self._window.delay(self._lansis.bytes)
        if due:
            self._seal(now, FrameKind.ACK, outbox.following, [], out)

    def _seal(
        self,
        now: int,
        kind: FrameKind,
        first: int,
        content: list[tuple[Run, Sequence[bytes]]],
        out: list[Effect],
    ) -> None:
        rank = self._rank
        number = self._dag.have[rank] + 1
        members, numbers = self._acknowledgements()
        control = self._announcement() if number == 1 else None
        payload = encode_frame(
            kind, self._phase, self._tag, members, numbers, first, content, control
        )
        size = self._config.datagram_bytes_max - FRAGMENT_HEADER_BYTES
        runs = [run for run, _ in content]
        frame = Frame(
            rank,
            number,
            kind,
            self._phase,
            self._table,
            self._tag,
            tuple(members),
            tuple(numbers),
            first,
            runs,
            control,
            payload,
            size if len(payload) > size else 0,
            any(run.service >= Service.AGREED and run.completes for run in runs),
        )
        for run in runs:
            if run.completes:
                last = run.first + run.count - 1
                to = self._members(run.to)
                out.append(
                    Sent(run.first, last, number, run.service, to, self.view.id, self._phase)
                )
        packets = self._codec.fragments(frame, rank, repeat=0)
        self._window.passed(len(packets))
        out.append(Transmit(packets))
        self._lansis.insert(frame)
        self._pulse.spoke(now, bool(runs))
        if runs:
            self._unordered.append(frame)
            self._unstable.append(frame)
        self._deliver(now, [frame], out)

    def _acknowledgements(self) -> tuple[list[int], list[int]]:
        """What entered since the last own frame: each ACK is sent once (S4 3.3)."""
        return self._dag.changed_since(self._rank)

    def _announcement(self) -> Announce:
        """The first frame of a view carries its table and the whole vector (B.6 item 2)."""
        return Announce(self.view.members, self.view.context, tuple(self._dag.have))

    def _members(self, to: tuple[int, ...] | None) -> tuple[MemberId, ...] | None:
        return None if to is None else tuple(self.view.members[rank] for rank in to)

    # -------------------------------------------------------------- what to tell

    def _report(self, out: list[Effect]) -> None:
        """Receipts, the window's state and what was refused."""
        ordered, stable = self._ordered_upto, self._stable_upto
        while self._unordered and not (self._unordered[0].ordered and self._unordered[0].batch < 0):
            ordered = self._unordered.popleft().last
        if ordered > self._ordered_upto:
            self._ordered_upto = ordered
            out.append(Ordered(ordered))
        limit = self._dag.stable[self._rank]
        while self._unstable and self._unstable[0].number <= limit:
            stable = self._unstable.popleft().last
        if stable > self._stable_upto:
            self._stable_upto = stable
            out.append(Stable(stable))
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
        return sum(self._dag.have) - sum(self._dag.stable)
