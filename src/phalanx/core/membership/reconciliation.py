"""What a merged view tells about its components: how far each had delivered.

Every member remembers of everybody with whom it was in a view the last message that it delivered,
0 if there was none, and says so when it proposes a join. For each component the best of what its
members said counts. A sender that two components know was with both, before they parted: what one
delivered beyond the other, it alone delivered, as far as is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.effects import MergedComponent, MessageRange
from phalanx.core.ids import MEMBERS_MAX, MemberId
from phalanx.core.membership.instructions import InstallView
from phalanx.core.wire.frames import DeliveredVector


class DeliveryProgress:
    """Per member met, the last of its messages delivered here, in whatever view."""

    __slots__ = ("_upto",)

    def __init__(self) -> None:
        self._upto: dict[MemberId, int] = {}

    def add(self, members: Sequence[MemberId], delivered: dict[MemberId, int]) -> None:
        """A view of these has ended, in which so much was delivered."""
        met = {member: self._upto.get(member, 0) for member in members}
        for sender, number in (met | delivered).items():
            self._upto.pop(sender, None)  # to the end: the latest are kept
            self._upto[sender] = number
        while len(self._upto) > MEMBERS_MAX:
            del self._upto[next(iter(self._upto))]

    def report(self, members: Sequence[MemberId], present: dict[MemberId, int]) -> DeliveredVector:
        """What to say in a proposal. `members` are those of the view, `present` is how far it has
        delivered. Zeros for members of the view are left out: they are what is assumed anyway."""
        known = sorted((self._upto | present).items())
        useful = [(m, number) for m, number in known if number or m not in members][:MEMBERS_MAX]
        return DeliveredVector(tuple(m for m, _ in useful), tuple(number for _, number in useful))


def merge_report(install: InstallView) -> tuple[MergedComponent, ...]:
    """The components of a join, as their members' closing frames described them (rule D-17)."""
    proposal = install.proposal
    if len(proposal.live) == 1:
        return ()
    components = [proposal.components[view] for view in proposal.live]
    upto: list[dict[MemberId, int]] = []
    for component in components:
        best: dict[MemberId, int] = {}
        for member in component.members:
            if proposal.entries.get(member) != component.view:
                continue
            said = install.issues[member].delivered
            for sender, number in zip(said.members, said.numbers, strict=False):
                best[sender] = max(best.get(sender, 0), number)
        upto.append(best)
    out = []
    for index, component in enumerate(components):
        alone = []
        for sender, number in sorted(upto[index].items()):
            others = [
                other[sender] for i, other in enumerate(upto) if i != index and sender in other
            ]
            if others and number > max(others):
                alone.append(MessageRange(sender, max(others) + 1, number))
        delivered = tuple(sorted(upto[index].items()))
        out.append(MergedComponent(component.view, component.members, delivered, tuple(alone)))
    return tuple(out)
