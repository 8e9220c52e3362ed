"""Delivery reports: when every member is known to have delivered an own message.

A message that is stable is at every member, but a member delivers an agreed or safe message only
when it knows enough about this message and all that come before it in the order. Once the place of
a message is known here, all of those are here too: they lie under the *cut*, the frames that are
here. A member has delivered them when it has, from each member, a frame that follows the whole cut:
then all of the cut is stable to its knowledge and all votes on its order are in. So the message is
known to be delivered everywhere when the last frame of every member follows, from every member, a
frame that follows the cut. Nothing is sent for this; in an idle group it takes two keep-alives.

When a view ends, the members that move on together deliver the same messages before they install
the next view, and are known to have done so when they speak in it. Of the others nothing is known.

Only messages that the application asks about are reported (`AwaitDelivery`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from operator import lt

from phalanx.core.broadcast.dag import Dag
from phalanx.core.effects import AllDelivered, Effect
from phalanx.core.ids import MemberId, ViewId

ENDED_MAX = 256
"""So many views that have ended are remembered, with the members that moved on from them."""


class EndedView:
    """Own messages up to a number belong to this view or to earlier ones."""

    __slots__ = ("members", "spoke", "upto", "view")

    def __init__(self, view: ViewId, upto: int, members: tuple[MemberId, ...]) -> None:
        self.view = view
        self.upto = upto
        self.members = members
        """Those that moved on together, as far as it is known that they did."""
        self.spoke = False
        """All of them have spoken since."""


class DeliveryReports:
    __slots__ = ("_after", "_asked", "_cut", "_ended", "_forgotten", "_upto")

    def __init__(self) -> None:
        self._asked: list[int] = []
        """Messages that are asked about, in order."""
        self._ended: deque[EndedView] = deque()
        self._forgotten = 0
        """Messages up to this one belong to views that are no longer remembered."""
        self._upto = 0
        """The message that is watched; 0 if none is."""
        self._cut: list[int] = []
        self._after: list[int] = []
        """Per member, a frame of it that follows the cut; 0 if there is none yet."""

    def ask(self, number: int) -> None:
        """Report when this message is delivered everywhere."""
        at = bisect_left(self._asked, number)
        if self._asked[at : at + 1] != [number]:
            self._asked.insert(at, number)

    def close(self, view: ViewId, upto: int, together: tuple[MemberId, ...]) -> None:
        """A view has ended, and these members move on together. Own messages up to `upto` belong to
        it or to earlier ones."""
        self._upto = 0
        moved = set(together)
        for ended in self._ended:
            if not ended.spoke:
                ended.members = tuple(member for member in ended.members if member in moved)
        if upto > self._last_ended:
            self._ended.append(EndedView(view, upto, together))
        while len(self._ended) > ENDED_MAX:
            self._forgotten = self._ended.popleft().upto

    @property
    def _last_ended(self) -> int:
        return self._ended[-1].upto if self._ended else self._forgotten

    def all_spoke(self) -> None:
        """Every member of the view has spoken in it."""
        for ended in reversed(self._ended):
            if ended.spoke:
                break
            ended.spoke = True

    def advance(self, view: ViewId, dag: Dag, settled_upto: int, out: list[Effect]) -> None:
        """Report what is known by now, after each step. Own messages up to `settled_upto` are
        ordered and stable."""
        if not self._asked:
            return
        self._report_ended(view, out)
        if not self._asked or self._asked[0] <= self._last_ended:
            return
        if not self._upto:
            if self._asked[0] > settled_upto:
                return
            self._upto, self._cut, self._after = settled_upto, dag.have.copy(), [0] * dag.n
        if self._is_delivered(dag):
            out.append(AllDelivered(self._upto, view))
            del self._asked[: bisect_right(self._asked, self._upto)]
            self._upto = 0

    def _report_ended(self, view: ViewId, out: list[Effect]) -> None:
        asked = self._asked
        if asked[0] <= self._forgotten:
            del asked[: bisect_right(asked, self._forgotten)]
            out.append(AllDelivered(self._forgotten, view, ()))
        for ended in self._ended:
            if not asked or not ended.spoke:
                return
            if asked[0] <= ended.upto:
                del asked[: bisect_right(asked, ended.upto)]
                out.append(AllDelivered(ended.upto, ended.view, ended.members))

    def _is_delivered(self, dag: Dag) -> bool:
        """Whether every member has delivered what is watched (rule D-15)."""
        if dag.n == 1:
            return True
        after, cut = self._after, self._cut
        for rank, vector in enumerate(dag.latest):
            if not after[rank]:
                if any(map(lt, vector, cut)):
                    return False
                after[rank] = vector[rank]
        return not any(any(map(lt, vector, after)) for vector in dag.latest)
