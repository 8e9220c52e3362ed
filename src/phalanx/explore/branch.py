"""A walk that can be forked, and what an observer who sees all members knows of it.

The observer knows who has issued which proposal, wherever the frames are now. A proposal that all
its entries have issued is a *way*: any of them may install it, or may have. A member with two ways
before it is *torn*: the rules alone decide which one it goes. It is *parted* from a member that
both ways hold and that has gone one of them, for whichever it takes must be the same. The fewer
frames it lacks to install the other one, the nearer it is to a violation.
"""

from __future__ import annotations

from phalanx.core.ids import ViewId
from phalanx.core.membership.proposals import Proposal
from phalanx.explore.crowd import Crowd

LACKS_MAX = 8
TORN, PARTED = 1, 2


class Branch:
    """A crowd, and who has issued what in it."""

    def __init__(self, crowd: Crowd, issuers: dict[Proposal, frozenset[int]] | None = None) -> None:
        self.crowd = crowd
        self._issuers = issuers or {}

    def fork(self) -> Branch:
        """Another walk that goes on from here."""
        return Branch(self.crowd.fork(), self._issuers.copy())

    def observe(self) -> None:
        """Note what has been issued. After every step: an install makes members forget it."""
        for p in self.crowd.live():
            issued = self.crowd.members[p]._protocol.issued
            if issued and p not in self._issuers.get(issued[-1], ()):
                for proposal in issued:
                    known = self._issuers.get(proposal, frozenset())
                    self._issuers[proposal] = known | {p}

    def torn(self) -> tuple[list[int], int]:
        """The members before which two ways lie, the parted ones if there are any, and how near
        to a violation they are: 0 if there are none."""
        ways = self._ways()
        torn: list[int] = []
        parted: list[int] = []
        nearest = 0
        for q in self.crowd.live() if len(ways) > 1 else ():
            issued = self.crowd.members[q]._protocol.issued
            mine = [proposal for proposal in issued if proposal in ways]
            if len(mine) > 1:
                near = max(self._nearness(q, way, mine) for way in mine)
                nearest = max(nearest, near)
                (parted if near else torn).append(q)
        return parted or torn, nearest or (TORN if torn else 0)

    def _been(self, p: int) -> set[ViewId]:
        crowd = self.crowd
        return {view.view for view in crowd._histories.stories[crowd._history[p]].views}

    def _ways(self) -> set[Proposal]:
        index = self.crowd.index
        return {
            proposal
            for proposal, issuers in self._issuers.items()
            if all(
                index[m] in issuers or proposal.view.id in self._been(index[m])
                for m in proposal.entries
            )
        }

    def _nearness(self, q: int, way: Proposal, ways: list[Proposal]) -> int:
        """0 if nobody whom this way and another one hold has gone the other."""
        others = {other.view.id for other in ways if other != way}
        for member in way.entries:
            p = self.crowd.index[member]
            been = self._been(p) if p != q else set()
            if not been.isdisjoint(others) and way.view.id not in been:
                break
        else:
            return 0
        statements = self.crowd.members[q]._protocol._statements
        lacks = sum(statements.issue(m, view, way) is None for m, view in way.entries.items())
        return PARTED + LACKS_MAX - min(LACKS_MAX, lacks)
