"""What a merged view reports about its components: how far each had delivered (rule D-17).

Of each sender that it was in a view with, a member remembers three numbers, and sends them when it
proposes a join:

    first   the first of its messages since they met last
    last    the last one delivered, with those that will be before the proposed view is installed
    known   the last one delivered, or that is here in this view, for whom it may be, or that a
            merge has reported

A component *alone* delivered a message if one of its members did since it met the sender, and the
message is above all that another component knows. So an application learns what another part did
on its own, not what a sender had sent before this part met it, nor what an earlier merge reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from phalanx.core.effects import MergedComponent, MessageRange
from phalanx.core.ids import MEMBERS_MAX, MemberId
from phalanx.core.membership.instructions import InstallView
from phalanx.core.wire.frames import DeliveredVector

Numbers = Mapping[MemberId, int]
"""Per sender, the number of a message."""


class Reached(msgspec.Struct, frozen=True, gc=False):
    """How far a member has come with the messages of a sender. See the module."""

    first: int = 1
    last: int = 0
    known: int = 0


NOTHING = Reached()


class DeliveryProgress:
    """Per member met, how far its messages were delivered here, in whatever view."""

    __slots__ = ("_reached",)

    def __init__(self) -> None:
        self._reached: dict[MemberId, Reached] = {}

    def close(self, members: Sequence[MemberId], delivered: Numbers) -> None:
        """A view of these members has ended, in which so much was delivered."""
        for member in members:
            before = self._reached.pop(member, NOTHING)  # to the end: the latest are kept
            number = delivered.get(member, 0)
            self._reached[member] = _raised(before, number, number)
        self._forget_others(members)

    def merged(self, install: InstallView) -> None:
        """A view is installed. If it merges several, this member meets those that come from other
        components, and is told how far all components are."""
        if len(install.proposal.live) == 1:
            return
        told: dict[MemberId, int] = {}
        for said in _statements(install):
            for sender, reached in said.items():
                told[sender] = max(told.get(sender, 0), *(r.last for r in reached))
        together = frozenset(install.together)
        for member in install.view.members:
            if member not in together:
                last = self._reached.get(member, NOTHING).last
                number = told.get(member, 0)
                self._reached[member] = Reached(number + 1, last, max(last, number))
        for member, number in told.items():
            if member in self._reached:
                self._reached[member] = _raised(self._reached[member], 0, number)
        self._forget_others(install.view.members)

    def report(
        self, members: Sequence[MemberId], delivered: Numbers, known: Numbers
    ) -> DeliveredVector:
        """What to say in a proposal. `members` are those of the view, the rest is how far it has
        come. Members of the view of which there is nothing to say are left out: they are known."""
        reached = self._reached.copy()
        for member in delivered.keys() | known.keys():
            before = reached.get(member, NOTHING)
            reached[member] = _raised(before, delivered.get(member, 0), known.get(member, 0))
        view = frozenset(members)
        useful = [(m, reached[m]) for m in members if m in reached and reached[m].known]
        others = sorted((m, r) for m, r in reached.items() if m not in view)
        useful = sorted(useful + others[: MEMBERS_MAX - len(useful)])
        firsts, beyond = [r.first for _, r in useful], [r.known - r.last for _, r in useful]
        return DeliveredVector(
            tuple(member for member, _ in useful),
            tuple(r.last for _, r in useful),
            tuple(firsts) if any(first != 1 for first in firsts) else (),
            tuple(beyond) if any(beyond) else (),
        )

    def _forget_others(self, members: Sequence[MemberId]) -> None:
        """Make room: of members that are not in the view the latest are kept."""
        excess = len(self._reached) - MEMBERS_MAX
        if excess > 0:
            view = frozenset(members)
            for member in [m for m in self._reached if m not in view][:excess]:
                del self._reached[member]


def _raised(before: Reached, last: int, known: int) -> Reached:
    last = max(before.last, last)
    return Reached(before.first, last, max(before.known, known, last))


Statements = dict[MemberId, list[Reached]]
"""Per sender, what members said of it."""


def _statements(install: InstallView) -> list[Statements]:
    """Per live component, what those of its members said that come to the view. The members of a
    component are known to it, whether anybody mentions them or not."""
    proposal, found = install.proposal, []
    for view in proposal.live:
        component = proposal.components[view]
        said: Statements = {member: [NOTHING] for member in component.members}
        for member in component.members:
            if proposal.entries.get(member) == view:
                for sender, reached in _decoded(install.issues[member].delivered):
                    said.setdefault(sender, []).append(reached)
        found.append(said)
    return found


def _decoded(said: DeliveredVector) -> Iterator[tuple[MemberId, Reached]]:
    """A checked vector, sender by sender."""
    firsts = said.firsts or (1,) * len(said.members)
    beyond = said.beyond or (0,) * len(said.members)
    for member, first, last, more in zip(said.members, firsts, said.numbers, beyond, strict=True):
        yield member, Reached(first, last, last + more)


def _known(said: Statements) -> dict[MemberId, int]:
    return {sender: max(r.known for r in reached) for sender, reached in said.items()}


def merge_report(install: InstallView) -> tuple[MergedComponent, ...]:
    """The components of a join, as their members' closing frames described them (rule D-17)."""
    proposal = install.proposal
    if len(proposal.live) == 1:
        return ()
    every = _statements(install)
    known = list(map(_known, every))
    out = []
    for index, (view, said) in enumerate(zip(proposal.live, every, strict=True)):
        others = known[:index] + known[index + 1 :]
        delivered, alone = [], []
        members = proposal.components[view].members
        for sender, reached in sorted(said.items()):
            last = max(r.last for r in reached)
            if last or sender not in members:
                delivered.append((sender, last))
            floors = [numbers[sender] for numbers in others if sender in numbers]
            if floors:
                spans = _beyond(max(floors), reached)
                alone += [MessageRange(sender, first, last) for first, last in spans]
        out.append(MergedComponent(view, members, tuple(delivered), tuple(alone)))
    return tuple(out)


def _beyond(floor: int, reached: list[Reached]) -> list[tuple[int, int]]:
    """The ranges above this number that one of these has delivered since it met the sender."""
    spans: list[tuple[int, int]] = []
    for first, last in sorted((max(r.first, floor + 1), r.last) for r in reached):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = spans[-1][0], max(spans[-1][1], last)
        elif first <= last:
            spans.append((first, last))
    return spans
