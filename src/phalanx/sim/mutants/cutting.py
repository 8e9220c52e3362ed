"""Mutants of where a view ends and the next begins: the three printed cuts, tags and phases, frames
that are carried on, votes and stability.

The rules are PROTOCOLS B.2 item 9, B.5, B.6 item 4, and B.7's `carried`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from phalanx.core.changeover import Border, Carried, in_order, settle_in
from phalanx.core.effects import Deliver, Effect
from phalanx.core.frames import Frame
from phalanx.core.framing import decode_tag
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership.contexts import Reach, covers
from phalanx.core.membership.kernel import Kernel
from phalanx.core.membership.ledger import Entry
from phalanx.core.membership.views import Change
from phalanx.core.mover import Mover
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


def read_from_the_start(self: Stay, carried: list[Carried], out: list[Effect]) -> None:
    """What was delivered already is delivered again, whole."""
    for item in carried:
        item.frame.cursor = 0
    _BEGIN(self, carried, out)


def nothing_waits(self: Stay, frame: Frame) -> bool:
    if self.transit:
        self._held.append(frame)
    return self.transit


_INSTALL = Mover.install
_BEGIN = Stay.begin
_CLOSE = Stay.close

# ------------------------------------------------------------------ tags and phases


def no_colour(self: Kernel, entry: Entry) -> None:
    """Phase 1 begins with one's own control frame only."""


def coloured_by_strangers(self: Kernel, entry: Entry) -> None:
    """Any frame of a change begins phase 1 while a join goes on, whosever change that is."""
    if entry.view == self.view.id or self.stage != "IDLE":
        self.phase = 1


def carried_only_from_the_origin(self: Border, view: ViewId, sender: MemberId, number: int) -> bool:
    where = self.origins.get(sender)
    return where is not None and view == where.view and view != self.view.id


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


_CONSIDER = Mover._consider
_ENTER_APART = Domain.enter_apart


def delivered_at_once(self: Mover, sender: MemberId) -> bool:
    return False


MUTANTS: dict[str, Mutant] = {
    "cut-at-own-control": Mutant(
        "deliver a member's frames up to its own JOIN or FA in the view that ends (Fig. 8)",
        ((Mover, "install", cut_at_own_control), (Stay, "close", close_with_early_frames)),
        "walk",
    ),
    "cut-at-any-elector": Mutant(
        "deliver what follows no JOIN or FA of the change in the view that ends (5.3)",
        ((Mover, "install", cut_at_any_elector), (Stay, "close", close_with_early_frames)),
        "walk",
    ),
    "no-closing-cut": Mutant(
        "deliver at the end of a view all that is here, not what closed it follows",
        ((Mover, "_is_ending", all_that_is_here),),
        "walk",
    ),
    "carried-frames-delivered-twice": Mutant(
        "deliver in a view that ends also what the next one carries on",
        (
            (Mover, "_is_ending", carried_on_too),
            (Mover, "_taken_over", taken_over_again),
            (Stay, "begin", read_from_the_start),
        ),
        "walk",
    ),
    "followers-of-held-frames": Mutant(
        "deliver frames that follow one which is held back until the view ends",
        ((Stay, "_must_wait", nothing_waits),),
        "walk",
    ),
    "phase-not-taken-over": Mutant(
        "begin phase 1 with one's own control frame only",
        ((Kernel, "_colour", no_colour),),
        "walk",
    ),
    "phase-of-strangers": Mutant(
        "begin phase 1 with the changes of strangers that take no part in the join",
        ((Kernel, "_colour", coloured_by_strangers),),
        "walk",
    ),
    "carried-only-from-the-origin": Mutant(
        "carry on only frames that were sent in the view their sender came from",
        ((Border, "carries_on", carried_only_from_the_origin),),
        "walk",
    ),
    "votes-in-phase-1": Mutant(
        "count frames of a change as votes in the view that it ends",
        ((Mover, "_consider", vote_in_phase_1),),
        "walk",
    ),
    "stable-by-phase-1": Mutant(
        "hold messages for safe that only frames of a change acknowledge",
        ((Domain, "enter_apart", acknowledge_in_phase_1),),
        "walk",
    ),
    "sends-while-held": Mutant(
        "send during a change although the mode is hold",
        ((Speaker, "_may_send", send_while_held),),
        "walk",
    ),
    "barred-delivered-at-once": Mutant(
        "deliver a barred member's frame when it enters, before it is known what closes the view",
        ((Mover, "_may_be_cut", delivered_at_once),),
        "walk",
    ),
}
