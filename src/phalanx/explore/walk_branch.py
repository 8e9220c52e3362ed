"""A walk that can be forked, and how near it is to a violation of agreement.

An observer of all members knows who has issued which proposal, wherever the frames are now. A
proposal is *closable* if all its entries have issued it: any of them may install it. A member is
*undecided* if two of its own proposals are closable; then only the rules decide which of them it
installs. It is *at risk* if a member of both has already installed one of them: it must install the
same. The fewer closing frames it lacks for the other one, the nearer a violation is.

Before that, a view is *open* if some of its members remove others from it while a join of it is
under way, or an attempt to join is in flight between them.
"""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.core.ids import ViewId
from phalanx.core.membership.proposals import Proposal
from phalanx.explore.live_group import LiveGroup

LACKS_MAX = 8
RECENT = 3
"""Of the attempts to join so many are looked for among the packets in flight."""
OPEN, UNDECIDED, AT_RISK = 1, 2, 3


class Branch:
    """A live group, and the members that have issued each proposal."""

    def __init__(
        self, group: LiveGroup, issuers: dict[Proposal, frozenset[int]] | None = None
    ) -> None:
        self.group = group
        self._issuers = issuers or {}

    def fork(self) -> Branch:
        """A copy of the walk that continues from here."""
        return Branch(self.group.fork(), self._issuers.copy())

    def branches(self, count: int) -> Iterator[Branch]:
        """So many walks that continue from here: copies, and this one as the last. The caller must
        be done with each before it takes the next."""
        shared = self.group.shared
        for _ in range(count - 1):
            yield self.fork()
        self.group.shared = shared
        yield self

    def observe(self) -> None:
        """Note what has been issued. After every step: an install makes members forget it."""
        for p in self.group.live():
            issued = self.group.members[p]._protocol.issued
            if issued and p not in self._issuers.get(issued[-1], ()):
                for proposal in issued:
                    known = self._issuers.get(proposal, frozenset())
                    self._issuers[proposal] = known | {p}

    def undecided(self) -> tuple[list[int], int]:
        """The members at risk, or else the undecided ones, and how near a violation is: 0 if there
        are none and no view is open."""
        closable = self._closable()
        undecided: list[int] = []
        at_risk: list[int] = []
        nearest = 0
        for q in self.group.live() if len(closable) > 1 else ():
            issued = self.group.members[q]._protocol.issued
            mine = [proposal for proposal in issued if proposal in closable]
            if len(mine) > 1:
                near = max(self._nearness(q, proposal, mine) for proposal in mine)
                nearest = max(nearest, near)
                (at_risk if near else undecided).append(q)
        if not nearest:
            nearest = UNDECIDED if undecided else OPEN if self._is_open() else 0
        return at_risk or undecided, nearest

    def _is_open(self) -> bool:
        """Whether members of a view are removed from it while it takes part in a join."""
        group = self.group
        members = [group.members[p] for p in group.live()]
        removing = {member.view.id for member in members if member.removes}
        if not removing:
            return False
        if any(member.joins and member.view.id in removing for member in members):
            return True
        return any(
            group.members[q].view.id in removing and self._is_in_flight(q, number)
            for q, number in group.attempts[-RECENT:]
        )

    def _is_in_flight(self, q: int, number: int) -> bool:
        packets, inbox = self.group.sent[q][number], self.group.inbox
        return any(coming is packets for p in self.group.live() for coming in inbox[p][q])

    def _been(self, p: int) -> set[ViewId]:
        group = self.group
        return {view.view for view in group._histories.stories[group._history[p]].views}

    def _closable(self) -> set[Proposal]:
        index = self.group.index
        return {
            proposal
            for proposal, issuers in self._issuers.items()
            if all(
                index[m] in issuers or proposal.view.id in self._been(index[m])
                for m in proposal.entries
            )
        }

    def _nearness(self, q: int, proposal: Proposal, closable: list[Proposal]) -> int:
        """How near q is to installing this one although a member of it has installed another; 0 if
        none has."""
        others = {other.view.id for other in closable if other != proposal}
        for member in proposal.entries:
            p = self.group.index[member]
            been = self._been(p) if p != q else set()
            if not been.isdisjoint(others) and proposal.view.id not in been:
                break
        else:
            return 0
        statements = self.group.members[q]._protocol._statements
        lacks = sum(
            statements.issue(*entry, proposal) is None for entry in proposal.entries.items()
        )
        return AT_RISK + LACKS_MAX - min(LACKS_MAX, lacks)
