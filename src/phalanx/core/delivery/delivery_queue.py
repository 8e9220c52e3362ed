"""When a message may go up: one cursor per view (rules D-1 to D-8).

Frames leave in an order that respects what they follow; inside a frame, its runs leave in
order. A causal run leaves when all that its frame follows has left; an agreed run when the
order has put its frame in front; a safe run when its frame is also stable. So a causal
message behind an undelivered agreed or safe one waits for it. Basic runs bypass the cursor
and leave when their frame enters. A run that is not addressed to this member counts for
positions and is not shown.

Frames without runs for the cursor (ack-only, basic, earlier parts of a large message) do not
stand in the way: vectors are transitive, so whatever stood before them shows in the frames
after them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from phalanx.core.broadcast.dag import Dag
from phalanx.core.broadcast.outbox import MessageReassembler
from phalanx.core.effects import Deliver, Region, Service
from phalanx.core.ids import MemberId, View
from phalanx.core.wire.frame_codec import decode_tag, encode_tag
from phalanx.core.wire.frames import Frame, MessageRun

NONE = 1 << 62


class DeliveryQueue:
    __slots__ = (
        "_assemblies",
        "_causal",
        "_closing",
        "_dag",
        "_front",
        "_large",
        "_last",
        "_me",
        "_order",
        "_passed",
        "_pending",
        "_post_confirm",
        "_position",
        "_receivers",
        "_region",
        "_tag",
        "_view",
    )

    def __init__(self, me: int, view: View, dag: Dag, post_confirm: bool) -> None:
        n = dag.n
        self._me = me
        self._view = view
        self._dag = dag
        self._post_confirm = post_confirm and n > 1
        self._pending: list[deque[Frame]] = [deque() for _ in range(n)]
        self._front = [NONE] * n
        """Per sender, the number of its first frame that has not left."""
        self._order: deque[Frame] = deque()
        self._closing = False
        self._region = Region.REGULAR
        self._tag = encode_tag(view.id)
        self._causal = 0
        """Pending frames whose next run is causal."""
        self._position = 0
        self._last = [0] * n
        """Per sender, the highest number of a message that has left here."""
        self._passed = [0] * n
        """Per sender, the highest number of a message for others that has been passed over."""
        self._assemblies = [MessageReassembler() for _ in range(n)]
        self._large: dict[tuple[int, int], bytes] = {}
        """Whole large messages that have not left, by sender and message number."""
        self._receivers: dict[tuple[int, ...], tuple[MemberId, ...]] = {}

    @property
    def empty(self) -> bool:
        return not any(self._pending)

    @property
    def waits(self) -> bool:
        """A frame that has its place in the order cannot leave: a safe message is not stable."""
        return bool(self._order)

    @property
    def positions(self) -> int:
        """How many agreed and safe messages have left in this view (rule O-13)."""
        return self._position

    def delivered(self) -> dict[MemberId, int]:
        """Per sender of which something has left here, the highest number of a message."""
        return {
            m: self._last[rank] for rank, m in enumerate(self._view.members) if self._last[rank]
        }

    def reached(self, held: Sequence[Frame]) -> tuple[dict[MemberId, int], dict[MemberId, int]]:
        """Per sender, the highest number of a message that has left here or will, if all leaves
        that is here and in these frames; and the same whomever the messages are for."""
        last, known = self._last.copy(), list(map(max, self._last, self._passed))
        for frames in (*self._pending, held):
            for frame in frames:
                sender = frame.sender
                for run in frame.runs:
                    if run.parts == 1 or run.completes:
                        number = run.first + run.count - 1
                        known[sender] = max(known[sender], number)
                        if self._addressed(run):
                            last[sender] = max(last[sender], number)
        members = self._view.members
        return dict(zip(members, last, strict=True)), dict(zip(members, known, strict=True))

    def insert(self, frame: Frame, out: list[Deliver]) -> None:
        """A frame entered the DAG. Its basic messages leave now (rule D-2)."""
        waits = False
        for run in frame.runs:
            if run.parts > 1:
                self._gather(frame, run)
                if not run.completes:
                    continue
            if run.service is Service.BASIC:
                self._emit(frame, run, None, out)
            else:
                waits = True
        if not waits:
            return
        self._skip(frame)
        sender = frame.sender
        if not self._pending[sender]:
            self._front[sender] = frame.number
        self._pending[sender].append(frame)
        if frame.runs[frame.queue].service is Service.CAUSAL:
            self._causal += 1

    def advance(self, ordered: list[Frame], out: list[Deliver]) -> None:
        """Let everything leave that may, after `ordered` got their places or more is stable
        (rule D-1)."""
        order = self._order
        order.extend(ordered)
        progress = True
        while progress:
            progress = False
            while order and self._may_leave(order[0]) and self._ordered_leaves(order[0], out):
                order.popleft()
                progress = self._causal > 0
            if self._causal:
                for pending in self._pending:
                    while pending and self._causal_leaves(pending[0], out):
                        progress = True

    def close(self, ordered: list[Frame], out: list[Deliver]) -> tuple[int, int] | None:
        """The view has ended and everything in it leaves. Returns how many of `out` and which
        agreed positions come before the transitional marker, which stands at the first safe
        message that is not stable; None if all such messages are (rule D-10)."""
        self._order.extend(ordered)
        self.advance([], out)
        self._closing = True  # nothing waits for a first foreign ack any more
        self.advance([], out)
        marker = None
        if self._order:
            marker = (len(out), self._position)
            self._region = Region.TRANSITIONAL
            self.advance([], out)
        if not self.empty:
            self._unknot(out)
        assert self.empty, "a view ended with messages undelivered"
        return marker

    def _unknot(self, out: list[Deliver]) -> None:
        """Frames wait for each other: their vectors are not transitive, so a peer's are made up.
        The rest leaves in the order there is (rule F-17)."""
        for pending in self._pending:
            for frame in pending:
                frame.vector = [0] * self._dag.n
        self.advance([], out)

    def _may_leave(self, frame: Frame) -> bool:
        """All that the frame follows has left. With no causal frame about, the order has
        seen to it."""
        return not self._causal or self._unblocked(frame)

    def _unblocked(self, frame: Frame) -> bool:
        vector, sender = frame.vector, frame.sender
        if self._front[sender] != frame.number:
            return False
        for member, front in enumerate(self._front):
            if front <= vector[member] and member != sender:
                return False
        return True

    def _ordered_leaves(self, frame: Frame, out: list[Deliver]) -> bool:
        """The frame in front: its runs leave up to the first that has to wait
        (rules D-4 and D-5)."""
        runs = frame.runs
        while frame.queue < len(runs):
            run = runs[frame.queue]
            if run.service is Service.CAUSAL:
                if not self._confirmed(frame):
                    return False
                self._causal -= 1
                self._emit(frame, run, None, out)
            else:
                if run.service is Service.SAFE and not self._is_safe(frame):
                    return False
                self._emit(frame, run, self._position, out)
                self._position += run.count
            self._step(frame)
        return True

    def _causal_leaves(self, frame: Frame, out: list[Deliver]) -> bool:
        """A frame at the head of its sender's queue: its leading causal runs leave (rule D-3)."""
        if frame.runs[frame.queue].service is not Service.CAUSAL:
            return False
        if not self._unblocked(frame) or not self._confirmed(frame):
            return False
        while frame.queue < len(frame.runs):
            run = frame.runs[frame.queue]
            if run.service is not Service.CAUSAL:
                return False
            self._causal -= 1
            self._emit(frame, run, None, out)
            self._step(frame)
        return True

    def _step(self, frame: Frame) -> None:
        """Past the run under the cursor; past the frame if that was its last."""
        frame.queue += 1
        if frame.queue < len(frame.runs):
            self._skip(frame)
        if frame.queue < len(frame.runs):
            if frame.runs[frame.queue].service is Service.CAUSAL:
                self._causal += 1
            return
        pending = self._pending[frame.sender]
        assert pending[0] is frame, "a frame left before its sender's earlier one"
        pending.popleft()
        self._front[frame.sender] = pending[0].number if pending else NONE

    def _skip(self, frame: Frame) -> None:
        """Past runs that do not wait for the cursor."""
        runs = frame.runs
        while frame.queue < len(runs):
            run = runs[frame.queue]
            if run.service is not Service.BASIC and (run.parts == 1 or run.completes):
                return
            frame.queue += 1

    def _is_safe(self, frame: Frame) -> bool:
        return self._region is Region.TRANSITIONAL or self._is_stable(frame)

    def _is_stable(self, frame: Frame) -> bool:
        return self._dag.stable[frame.sender] >= frame.number

    def _confirmed(self, frame: Frame) -> bool:
        """With post_confirm, one's own message waits for a first foreign ack
        (rule D-6; S4 footnote 2)."""
        me = self._me
        if not self._post_confirm or frame.sender != me or self._closing:
            return True
        return any(
            vector[me] >= frame.number for q, vector in enumerate(self._dag.latest) if q != me
        )

    # -------------------------------------------------------------- showing

    def _addressed(self, run: MessageRun) -> bool:
        """Whether a run is for this member (rule D-7)."""
        return run.to is None or self._me in run.to

    def _gather(self, frame: Frame, run: MessageRun) -> None:
        if self._addressed(run):
            whole = self._assemblies[frame.sender].add(run, frame.payload)
            if whole is not None:
                self._large[frame.sender, run.first] = whole

    def _emit(self, frame: Frame, run: MessageRun, pos: int | None, out: list[Deliver]) -> None:
        to: tuple[int, ...] | None = run.to
        last = run.first + run.count - 1
        if to is not None and not self._addressed(run):
            self._passed[frame.sender] = max(self._passed[frame.sender], last)
            return
        payload, offset, lengths = frame.payload, run.offset, run.lengths
        if last > self._last[frame.sender]:  # basic messages leave before earlier others
            self._last[frame.sender] = last
        if run.parts > 1:
            whole = self._large.pop((frame.sender, run.first), None)
            if whole is None:
                return  # the parts of a peer's nonsense do not make a message
            payload, offset, lengths = whole, 0, (len(whole),)
        out.append(
            Deliver(
                self._view.members[frame.sender],
                run.first,
                last,
                run.service,
                to if to is None else run.names or self._names(to),
                self._view.id,
                self._view.id if frame.tag == self._tag else decode_tag(frame.tag),
                frame.phase,
                self._region,
                pos,
                frame.batch if pos is not None else None,
                frame.number,
                payload,
                offset,
                lengths,
            )
        )

    def _names(self, to: tuple[int, ...]) -> tuple[MemberId, ...]:
        names = self._receivers.get(to)
        if names is None:
            if len(self._receivers) >= 1024:
                self._receivers.clear()
            names = self._receivers[to] = tuple(self._view.members[i] for i in to)
        return names
