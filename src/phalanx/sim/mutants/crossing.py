"""Mutants of what is delivered where: tags and phases, the three printed cuts, floors, frames
that are carried on, and what is kept for those who lag behind.

The rules are PROTOCOLS B.2 item 9, B.5, B.6 items 3, 4, 8, 9 and 11, and B.7's `carried`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from phalanx.core import stay as stays
from phalanx.core.changeover import Border, Carried, in_order, settle_in
from phalanx.core.effects import Deliver, Effect, ViewInstalled
from phalanx.core.frames import Component, Frame
from phalanx.core.framing import decode_tag
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership.contexts import Reach, covers
from phalanx.core.membership.kernel import Kernel
from phalanx.core.membership.ledger import Entry
from phalanx.core.membership.views import Change, Views
from phalanx.core.mover import Mover
from phalanx.core.packing import Outbox
from phalanx.core.speaker import Speaker
from phalanx.core.stay import Stay
from phalanx.core.visitors import Domain
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ the three printed cuts

Electors = dict[MemberId, tuple[int, Reach]]
"""Per member, number and past of the frame with which it voted for the change."""


def _electors(kernel: Kernel, change: Change) -> Electors:
    ledger, context = kernel._ledger, change.view.context
    if change.cause == "join":
        return {m: join[:2] for m, join in ledger._joins.get(context, {}).items()}
    gone = frozenset(change.before.members) - frozenset(change.view.members)
    return {
        member: min((found for out, found in named.items() if out & gone), key=lambda f: f[0])
        for member, named in ledger._faults.get(context, {}).items()
        if any(out & gone for out in named)
    }


def _cut(self: Mover, change: Change, is_before: Callable[[Carried, Electors], bool]) -> None:
    """Install, but deliver by another cut: of the frames of phase 1, those before it in the view
    that ends, or nowhere if that is another component's."""
    electors, before = _electors(self._kernel, change), self._stay
    early = [item for item in self._carry.values() if is_before(item, electors)]
    for item in early:
        del self._carry[item.sender, item.number]
    cast(Any, before).early = [item for item in early if item.view == before.view.id]
    _INSTALL(self, change)


def cut_at_own_control(self: Mover, change: Change) -> None:
    """S0 Fig. 8: a member's frames before its own JOIN or FA belong to the view that ends."""

    def is_before(item: Carried, electors: Electors) -> bool:
        own = electors.get(item.sender)
        return own is not None and item.number < own[0]

    _cut(self, change, is_before)


def cut_at_any_elector(self: Mover, change: Change) -> None:
    """S0 5.3: what follows no JOIN or FA of anybody belongs to the view that ends."""

    def is_before(item: Carried, electors: Electors) -> bool:
        return not any(covers(item.reach, m, number) for m, (number, _) in electors.items())

    _cut(self, change, is_before)


def close_with_early_frames(
    self: Stay,
    carried: list[Carried],
    belongs: Callable[[Frame], bool],
    together: tuple[MemberId, ...],
    out: list[Effect],
) -> None:
    early = in_order(getattr(self, "early", []))
    frames = [settle_in(item, self.view, self.ranked) for item in early]
    for frame in frames:
        self.address(frame)
    self.deliver(0, frames, out, keep=True)
    _CLOSE(self, carried, belongs, together, out)


def all_that_is_here(self: Mover, frame: Frame, change: Change, border: Border) -> bool:
    """Everything in my DAG, whether what closed the view follows it or not."""
    view, sender = decode_tag(frame.tag), change.before.members[frame.sender]
    return view == change.before.id or not border.carries_on(view, sender, frame.number)


def carried_on_too(self: Mover, frame: Frame, change: Change, border: Border) -> bool:
    """What the next view carries is not taken out of this one."""
    sender = change.before.members[frame.sender]
    return frame.phase == 0 or covers(change.closing, sender, frame.number)


def taken_over_again(self: Mover, border: Border) -> list[Carried]:
    ending = self._stay.border
    return [i for p, i in self._carry.items() if ending.carries(i) and covers(ending.closing, *p)]


def nothing_waits(self: Stay, frame: Frame) -> bool:
    if self.transit:
        self._held.append(frame)
    return self.transit


_INSTALL = Mover.install
_CLOSE = Stay.close

# ------------------------------------------------------------------ tags and phases


def no_colour(self: Kernel, entry: Entry) -> None:
    """Phase 1 begins with one's own control frame only."""


def coloured_by_strangers(self: Kernel, entry: Entry) -> None:
    """Any frame of a change begins phase 1 while a join goes on, whosever change that is."""
    if entry.view == self.view.id or self.stage != "IDLE":
        self.phase = 1


def calm_after_a_removal(self: Views, out: frozenset[MemberId]) -> None:
    """A removal during a join ends phase 1."""
    _INSTALL_REMOVAL(self, out)
    self.phase = 1 if self.faulty != self.out else 0


def carried_only_from_the_origin(self: Border, view: ViewId, sender: MemberId, number: int) -> bool:
    where = self.origins.get(sender)
    return where is not None and view == where.view and view != self.view.id


def carried_from_below_only(self: Border, view: ViewId, sender: MemberId, number: int) -> bool:
    return covers(self.closing, sender, number) and _CARRIES_ON(self, view, sender, number)


def vote_in_phase_1(self: Mover, now: int, frame: Frame, out: list[Effect]) -> None:
    stay = self._stay
    _CONSIDER(self, now, frame, out)
    n = stay.dag.n
    if self._stay is not stay or stay.transit or frame.sender >= n:
        return
    if frame.phase == 1 and frame.tag == stay.tag and stay.dag.have[frame.sender] == frame.number:
        acks = [pair for pair in _acks(frame) if pair[0] < n]
        vote = msgspec.structs.replace(
            frame,
            ordered=False,
            ack_members=tuple(slot for slot, _ in acks),
            ack_numbers=tuple(number for _, number in acks),
        )
        deliveries: list[Deliver] = []
        stay.cursor.advance(stay.order.insert(vote), deliveries)
        out += deliveries


def acknowledge_in_phase_1(self: Domain, frame: Frame) -> None:
    """A frame of phase 1 proves stable what it follows."""
    n = self.dag.n
    if frame.phase == 0 or frame.tag != self._tag or frame.sender >= n:
        _ENTER_APART(self, frame)
        return
    acks = [pair for pair in _acks(frame) if pair[0] < n]
    frame.ack_members = tuple(slot for slot, _ in acks)
    frame.ack_numbers = tuple(number for _, number in acks)
    self.insert(frame)


def _acks(frame: Frame) -> list[tuple[int, int]]:
    return list(zip(frame.ack_members, frame.ack_numbers, strict=True))


def send_while_held(self: Speaker) -> bool:
    if self._mute:
        return False
    return self._window.is_open(self._lansis.bytes, self._lansis.own_bytes)


_CARRIES_ON = Border.carries_on
_INSTALL_REMOVAL = Views._install_removal
_CONSIDER = Mover._consider
_ENTER_APART = Domain.enter_apart

# ------------------------------------------------------------------ floors


def no_floors(self: Domain, slot: int, where: Component | None) -> bool:
    return False


def floors_for_all(self: Domain, slot: int, where: Component | None) -> bool:
    return slot != self._me


def floors_for_members(self: Domain, slot: int, where: Component | None) -> bool:
    return slot != self._me and where is not None and self.me not in where.members


def floors_for_visitors(self: Domain, slot: int, where: Component | None) -> bool:
    return slot >= self.dag.n


def floor_of_any_view(self: Domain, member: MemberId, components: tuple[Component, ...]) -> int:
    known = self.foreign_floors.get(member)
    return 0 if known is None else known[1]


def never_later(self: Domain, where: Component, known: Component | None) -> bool:
    return False


# ------------------------------------------------------------------ from one view to the next


def by_name(items: list[Carried]) -> list[Carried]:
    return sorted(items, key=lambda item: (item.sender, item.number))


def again_without_waiting(self: Domain) -> Frame | None:
    for slot, waiting in enumerate(self._waiting):
        frame = waiting.get(self.dag.have[slot] + 1) if waiting else None
        if frame is not None and frame.handled:
            return frame
    return None


def forget_the_view_before(
    self: Stay, before: Stay, keeps: frozenset[MemberId], phase: int
) -> None:
    _SUCCEED(self, before, keeps, phase)
    self.domain.archive.clear()


def forget_what_waits(self: Stay, before: Stay, keeps: frozenset[MemberId], phase: int) -> None:
    """Frames that have come and wait for others are lost with the view."""
    for waiting in before.domain._waiting:
        waiting.clear()
    _SUCCEED(self, before, keeps, phase)


def forget_in_phase_1(
    self: Stay, now: int, entered: list[Frame], out: list[Effect], keep: bool
) -> None:
    _DELIVER(self, now, entered, out, keep=False)


def together_with_all(self: Mover, change: Change) -> None:
    _together(self, change, change.view.members)


def together_with_former_members(self: Mover, change: Change) -> None:
    _together(self, change, tuple(m for m in change.view.members if m in change.before.members))


def _together(self: Mover, change: Change, members: tuple[MemberId, ...]) -> None:
    out = self._out
    begun = len(out)
    _INSTALL(self, change)
    for index in range(begun, len(out)):
        effect = out[index]
        if isinstance(effect, ViewInstalled):
            out[index] = msgspec.structs.replace(effect, transitional=members)


def not_again(self: Outbox) -> None:
    """The rest of a large message goes on in the next view."""


def not_readdressed(self: Outbox, ranks: dict[int, int]) -> None:
    """Receivers keep their ranks of the view before."""


_SUCCEED = Stay.succeed
_DELIVER = Stay.deliver

MUTANTS: dict[str, Mutant] = {
    "cut-at-own-control": Mutant(
        "deliver a member's frames up to its own JOIN or FA in the view that ends (Fig. 8)",
        ((Mover, "install", cut_at_own_control), (Stay, "close", close_with_early_frames)),
        "membership",
    ),
    "cut-at-any-elector": Mutant(
        "deliver what follows no JOIN or FA of the change in the view that ends (5.3)",
        ((Mover, "install", cut_at_any_elector), (Stay, "close", close_with_early_frames)),
        "membership",
    ),
    "no-closing-cut": Mutant(
        "deliver at the end of a view all that is here, not what closed it follows",
        ((Mover, "_is_ending", all_that_is_here),),
        "membership",
    ),
    "carried-frames-delivered-twice": Mutant(
        "deliver in a view that ends also what the next one carries on",
        ((Mover, "_is_ending", carried_on_too), (Mover, "_taken_over", taken_over_again)),
        "membership",
    ),
    "followers-of-held-frames": Mutant(
        "deliver frames that follow one which is held back until the view ends",
        ((Stay, "_must_wait", nothing_waits),),
        "membership",
    ),
    "phase-not-taken-over": Mutant(
        "begin phase 1 with one's own control frame only",
        ((Kernel, "_colour", no_colour),),
        "membership",
    ),
    "phase-of-strangers": Mutant(
        "begin phase 1 with the changes of strangers that take no part in the join",
        ((Kernel, "_colour", coloured_by_strangers),),
        "membership",
    ),
    "phase-not-kept": Mutant(
        "let a removal end phase 1 while a join goes on",
        ((Views, "_install_removal", calm_after_a_removal),),
        "membership",
    ),
    "carried-only-from-the-origin": Mutant(
        "carry on only frames that were sent in the view their sender came from",
        ((Border, "carries_on", carried_only_from_the_origin),),
        "membership",
    ),
    "carried-from-below-only": Mutant(
        "carry on only frames that what closed the view follows",
        ((Border, "carries_on", carried_from_below_only),),
        "membership",
    ),
    "votes-in-phase-1": Mutant(
        "count frames of a change as votes in the view that it ends",
        ((Mover, "_consider", vote_in_phase_1),),
        "membership",
    ),
    "stable-by-phase-1": Mutant(
        "hold messages for safe that only frames of a change acknowledge",
        ((Domain, "enter_apart", acknowledge_in_phase_1),),
        "membership",
    ),
    "sends-while-held": Mutant(
        "send during a change although the mode is hold",
        ((Speaker, "_may_send", send_while_held),),
        "membership",
    ),
    "floors-ignored": Mutant(
        "ask for what lies below the floors of other components",
        ((Domain, "_hides", no_floors),),
        "membership",
    ),
    "floors-for-all": Mutant(
        "treat everything below any floor as present",
        ((Domain, "_hides", floors_for_all),),
        "membership",
    ),
    "floors-for-members": Mutant(
        "let a floor hide frames of a member of my own view that has moved",
        ((Domain, "_hides", floors_for_members),),
        "membership",
    ),
    "floors-of-my-own-components": Mutant(
        "let a floor hide frames of a component that counts me",
        ((Domain, "_hides", floors_for_visitors),),
        "membership",
    ),
    "floor-of-any-view": Mutant(
        "tell the floor of a member of another component, whatever view it is a floor of",
        ((Domain, "floor_of", floor_of_any_view),),
        "membership",
    ),
    "floor-of-a-later-component": Mutant(
        "let the floor of a later component hide what a member said in the join under way",
        ((Domain, "_is_later", never_later),),
        "membership",
    ),
    "carried-in-any-order": Mutant(
        "deliver carried frames by name, not after what they follow",
        ((stays, "in_order", by_name),),
        "membership",
    ),
    "entered-again-without-waiting": Mutant(
        "let frames enter the next view before what they follow",
        ((Domain, "pull_again", again_without_waiting),),
        "membership",
    ),
    "old-view-forgotten": Mutant(
        "forget the frames of the view before at the install",
        ((Stay, "succeed", forget_the_view_before),),
        "membership",
    ),
    "waiting-frames-forgotten": Mutant(
        "forget frames that wait for others at the install",
        ((Stay, "succeed", forget_what_waits),),
        "membership",
    ),
    "stable-forgotten-in-phase-1": Mutant(
        "forget stable frames while a change is under way",
        ((Stay, "deliver", forget_in_phase_1),),
        "membership",
    ),
    "transitional-set-of-all": Mutant(
        "say that all members of the next view came along",
        ((Mover, "install", together_with_all),),
        "membership",
    ),
    "transitional-set-by-membership": Mutant(
        "say that all who were in both views came along",
        ((Mover, "install", together_with_former_members),),
        "membership",
    ),
    "large-message-goes-on": Mutant(
        "send the rest of a large message in the next view",
        ((Outbox, "again", not_again),),
        "membership",
    ),
    "receivers-keep-their-ranks": Mutant(
        "address what waits by the ranks of the view before",
        ((Outbox, "readdress", not_readdressed),),
        "membership",
    ),
}
