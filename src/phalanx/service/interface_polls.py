"""A home and its interfaces (rules I1, I2): polls, answers, and interfaces that choose this server.

The home polls when the speaker of its set asks, so that an answer is newer than the question. It
passes each answer on as it is.
"""

from __future__ import annotations

from phalanx.service.entries import SetHome
from phalanx.service.group_messages import (
    Advance,
    Ask,
    ChooseHome,
    HomeChosen,
    Moved,
    Path,
    Query,
    QueryReply,
    Tell,
)
from phalanx.service.values import Gid, SetState

CHOICES_MAX = 4096
CHOICES_AT_ONCE = 256
"""Homes that are entered by one change."""
CHOICE_NUMBER_MAX = 1 << 61
"""Greater numbers are not taken: each change of home adds one, and all must be readable."""
CHOICE_NS = 3_000_000_000
"""For which a choice is tried, unless the interface repeats it."""


class InterfacePolls:
    """Of one level-1 set, at one of its members."""

    def __init__(self, me: Gid) -> None:
        self._me = me
        self._path: Path = ()
        self._answers: dict[str, int] = {}
        """For each interface the question that it has answered last."""
        self._choices: dict[str, tuple[int, int, str]] = {}
        """Interfaces that want this server as their home: sequence number, until when, and the home
        that they hear."""

    def polls(self, state: SetState, ask: Ask) -> list[Query]:
        """Poll all interfaces whose home this server is."""
        self._path = ask.path
        out = []
        for interface, home in sorted(state.homes.items()):
            if home.server == self._me:
                out.append(Query(interface, home.seq, ask.path))
        for interface in [i for i in self._answers if i not in state.homes]:
            del self._answers[interface]
        return out

    def answered(self, state: SetState, reply: QueryReply) -> Tell | None:
        """What an interface has answered, for the speaker."""
        if not self._path or self._path[0].asked != reply.asked:
            return None
        self._answers[reply.served.interface] = reply.asked
        return Tell(state.set, state.lineage, reply.asked, served=(reply.served,))

    def advanced(self, state: SetState, moved: Moved) -> Advance | None:
        """An interface has taken directives since its last answer."""
        asked = self._answers.get(moved.interface)
        return None if asked is None else Advance(state.set, state.lineage, asked, "", moved)

    def is_served(self, state: SetState, interface: str) -> bool:
        """Whether this server is the home of an interface."""
        home = state.homes.get(interface)
        return home is not None and home.server == self._me

    # -------------------------------------------------------------- choices

    def chosen(self, now: int, message: ChooseHome) -> None:
        if message.seq > CHOICE_NUMBER_MAX:
            return
        if len(self._choices) < CHOICES_MAX or message.interface in self._choices:
            self._choices[message.interface] = (
                message.seq,
                now + CHOICE_NS,
                message.home,
            )

    def entries(self, now: int, state: SetState) -> list[SetHome]:
        """Choices that the set does not know yet, of interfaces whose home is in this component or
        is not heard; those that do not fit in come next."""
        out = []
        names = {server.name for server in state.view}
        for interface, (seq, until, heard) in sorted(self._choices.items()):
            known = state.homes.get(interface)
            if (known is not None and known.server == self._me and known.seq >= seq) or until < now:
                del self._choices[interface]
            elif not heard or heard in names:
                above = known.seq + 1 if known is not None else seq
                out.append(SetHome(interface, self._me, max(seq, above)))
        return out[:CHOICES_AT_ONCE]

    def first_poll(self, state: SetState, interface: str) -> list[HomeChosen | Query]:
        """For an interface whose choice is in the state: the answer and a poll at once."""
        home = state.homes.get(interface)
        if home is None or home.server != self._me or not self._path:
            return []
        chosen = HomeChosen(interface, home.seq)
        if self._path[0].lineage != state.lineage:
            return [chosen]
        return [chosen, Query(interface, home.seq, self._path)]
