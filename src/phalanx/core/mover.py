"""What a member does while its membership changes: frames of a change, and the next view.

Frames are considered one at a time, because each may change what the next one means. The
membership protocol (`membership.kernel`) asks for what it needs through `membership.views.Owner`.
"""

from __future__ import annotations

from phalanx.core.announced import component_of, table_of
from phalanx.core.changeover import Border, Carried, carried_from
from phalanx.core.effects import (
    Action,
    ChangeStepped,
    Effect,
    Stopped,
    ViewInstalled,
)
from phalanx.core.frames import (
    Component,
    Frame,
    FrameKind,
    Join,
    Said,
)
from phalanx.core.framing import decode_tag
from phalanx.core.ids import MemberId
from phalanx.core.membership.contexts import Reach, covers, epoch
from phalanx.core.membership.ledger import Entry
from phalanx.core.membership.views import Change, Owner
from phalanx.core.merging import merged_from
from phalanx.core.sealing import reach_of
from phalanx.core.speaker import Speaker
from phalanx.core.stay import Stay

_ACK, _JOIN = int(FrameKind.ACK), int(FrameKind.JOIN)
NEVER = 1 << 62


class Mover(Speaker):
    """The part of a member that goes from view to view."""

    def _owner(self) -> Owner:
        return self

    # -------------------------------------------------------------- frames of a change

    def _advance(self, now: int, out: list[Effect]) -> None:
        """Consider what waits, one frame at a time: each may change what the next one means."""
        kernel = self._kernel
        self._slow_due_ns = -1
        while True:
            self._lansis.steady = False
            self._read_floors()
            frame = self._lansis.pull()
            if frame is None:
                break
            self._consider(now, frame, out)
        lansis = self._lansis
        lansis.ask(now)
        lansis.special = False
        lansis.steady = not kernel.changing
        if kernel.stage == "IDLE" and len(lansis.roster) > self._dag.n:
            lansis.dismiss(now)
        if not kernel.changing and not self._stay.young and self._means.archive:
            self._means.archive.clear()
        self._presence.follow(now, self._stay)

    def _read_floors(self) -> None:
        """Look at what has come before its past is here: whoever has moved is followed or given
        up, and the floors of the others tell what of that past is wanted."""
        domain, kernel = self._lansis, self._kernel
        for frame in domain.unread():
            sender = domain.roster[frame.sender]
            component = component_of(frame)
            if component is None or not kernel.admissible(sender, frame.kind == _JOIN):
                continue
            kernel.heard(sender, component.view)
            if self._has_moved(frame, sender, component):
                kernel.moved(sender, component)
                if self._lansis is not domain:
                    return
                if self._has_moved(frame, sender, component):
                    continue
            domain.take_floors(frame, kernel.components)

    def _has_moved(self, frame: Frame, sender: MemberId, component: Component) -> bool:
        """Whether a frame shows that its sender is in a view that is not mine to reach."""
        inside = frame.sender < self._stay.dag.n
        if frame.tag == self._stay.tag or (inside and epoch(component.view) < epoch(self.view.id)):
            return False
        members = frozenset(component.members)
        return self._kernel.has_moved(sender, component.view, members, component.context)

    def _consider(self, now: int, frame: Frame, out: list[Effect]) -> None:
        stay, kernel, domain = self._stay, self._kernel, self._lansis
        sender = domain.roster[frame.sender]
        self._presence.heard(now, frame.sender)
        if frame.tag == stay.tag and frame.phase == 0 and frame.kind <= _ACK:
            stay.address(frame)
            if self._may_be_cut(sender):
                domain.set_aside(now, frame)
                stay.hold(frame, aside=True)
                return
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
        if kernel.is_absurd(announce.said):
            domain.refuse(frame, "impossible")
            return
        kernel.heard(sender, component.view)
        inside = frame.sender < stay.dag.n
        old = epoch(component.view) < epoch(self.view.id)
        if inside and old and frame.phase == 0:
            domain.refuse(frame)
            return
        process = kernel.admissible(sender, frame.kind == _JOIN)
        if process and frame.tag != stay.tag and not (inside and old):
            if self._has_moved(frame, sender, component):
                kernel.moved(sender, component)
                if self._lansis is domain and domain.pull() is frame:
                    domain.refuse(frame)  # it could not be followed
                return
            members = frozenset(component.members)
            if self.me in members and kernel.proves(announce, members):
                return  # it waits in the new view
        domain.take(now, frame, counts=False)
        if frame.phase == 1 and frame.tag == stay.tag:
            stay.note_floor(frame.sender, frame.number)
        if inside and old:
            stay.address(frame)
            if kernel.phase == 0:
                self._deliver(now, [frame], out)
            else:
                stay.hold(frame)
        if frame.runs and frame.phase == 1 and not (inside and old and kernel.phase == 0):
            self._carry[sender, frame.number] = carried_from(frame, sender, component.view)
        self._pulse.stir()
        if frame.vector[self._rank] < self._dag.have[self._rank]:
            self._repeat_last(now, out)
        if not frame.handled:
            frame.handled = True
            reach = reach_of(announce, table_of(announce))
            entry = Entry(sender, frame.number, component.view, frame.phase, announce, reach)
            kernel.entered(entry, process)

    def _may_be_cut(self, sender: MemberId) -> bool:
        """Whether a frame of the view may lie beyond what closes it: that of a barred member, which
        enters only because somebody follows it, who may be in the next view already."""
        return self._kernel.barred(sender)

    # -------------------------------------------------------------- what the kernel asks for

    def say(self, said: Said) -> tuple[int, Reach]:
        """Send a control frame: its number, and its past with itself."""
        frame = self._send(self._now, self._outbox.following, [], self._out, said)
        assert frame.control is not None
        return frame.number, reach_of(frame.control, table_of(frame.control))

    def attempt(self) -> None:
        self._transmit([self._presence.attempt(self._now, self._stay)], self._out)

    def unspoken(self) -> list[MemberId]:
        spoke = self._lansis.spoke
        return [m for rank, m in enumerate(self.view.members) if not spoke(rank)]

    def delivered(self) -> Join:
        stay = self._stay
        return Join((), self._progress.told(stay.view.members, stay.cursor.delivered()))

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
        # Who came from my component came the way that I did: through a view that removals left
        # of it while the join went on, if there was one.
        mine = change.origins[self.me]
        together = tuple(m for m in change.view.members if change.origins[m] == mine)
        carry = self._carry
        carried = {place: item for place, item in carry.items() if border.carries(item)}
        before.close(
            self._taken_over(border),
            lambda frame: self._is_ending(frame, change, border),
            together,
            out,
        )
        out += before.links()
        self._progress.add(before.view.members, before.cursor.delivered())
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
        while (frame := stay.domain.force_own()) is not None:
            self._consider(now, frame, out)
        self._presence.moved(now, stay, bool(joined), bool(left))

    def _taken_over(self, border: Border) -> list[Carried]:
        """What the view that ends, in transit, took over from below its beginning, and what the
        next view does not carry on."""
        ending = self._stay.border
        return [
            item
            for place, item in self._carry.items()
            if ending.carries(item) and covers(ending.closing, *place) and not border.carries(item)
        ]

    def _is_ending(self, frame: Frame, change: Change, border: Border) -> bool:
        """Whether a frame that was held back is the ending view's, not the next one's."""
        view, sender = decode_tag(frame.tag), change.before.members[frame.sender]
        if not covers(change.closing, sender, frame.number):
            return False
        return view == change.before.id or not border.carries_on(view, sender, frame.number)

    # -------------------------------------------------------------- leaving

    def _go(self, now: int, out: list[Effect]) -> None:
        """Leave once everything accepted has been sent, or it takes too long."""
        kernel = self._kernel
        self._slow_due_ns = -1
        late = now >= self._leave_ns
        if not kernel.leaving and (late or not self._outbox.messages):
            if not self._presence.claim.pending:
                kernel.leave()
                self._mute = True
            self._leave_ns = now + self._config.leave_ns
            late = self._presence.claim.pending
        if kernel.has_left or late:
            self._stopped = True
            out.append(Stopped("left"))
