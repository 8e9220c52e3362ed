"""The normal form: members that it takes for the same behave the same, and no entry is dead."""

from __future__ import annotations

import pytest

from phalanx.config import lan
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.membership.statements import Statement
from phalanx.explore import state_space as world
from phalanx.explore.canonical_form import LEFT_OUT
from phalanx.explore.fast_copy import copied
from phalanx.explore.frozen_member import NOW, FrozenTimeMember
from phalanx.explore.memoized_members import MemoizedMembers, StepOutcome
from phalanx.explore.search import Search, SearchLimits
from phalanx.explore.state_space import Options

STATES_MAX = 4_000


class Doubting(MemoizedMembers):
    """Remembers members that were taken for one that was known."""

    taken: list[tuple[int, FrozenTimeMember]]

    def _actor(self, member: FrozenTimeMember) -> int:
        known = len(self._kept)
        actor = super()._actor(member)
        if actor < known:
            vars(self).setdefault("taken", []).append((actor, copied(member)))
        return actor


@pytest.mark.parametrize(
    "options",
    [
        Options(members=2, attempts=2, suspicions=1),
        Options(members=2, start=((0, 1),), attempts=1, suspicions=1, data=1, mode="flow"),
        Options(members=2, start=((0, 1),), suspicions=1, losses=1, data=1),
        Options(members=3, start=((0, 1, 2),), suspicions=2, timeouts=1, data=1, mode="flow"),
        Options(members=3, attempts=2, losses=1),
    ],
)
def test_members_of_one_normal_form_behave_alike(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "MemoizedMembers", Doubting)
    search = Search(options)
    search.run(SearchLimits(states=STATES_MAX))
    actors = search.world.actors
    assert isinstance(actors, Doubting)
    known: dict[int, list[tuple[str, int, StepOutcome]]] = {}
    for (number, what, whom), outcome in actors._outcomes.items():
        known.setdefault(number, []).append((what, whom, outcome))
    compared = 0
    for actor, member in list(actors.taken):
        for what, whom, outcome in known.get(actor, ()):
            again = copied(member)
            assert actors._after(again, actors._give(again, what, whom)) == outcome
            compared += 1
    assert compared > 100


def test_every_field_that_is_left_out_exists() -> None:
    """Else it was renamed, and the form grew by what it is called now."""
    me = MemberId("ada")
    member = FrozenTimeMember(me, boot_view([me]), lan())
    member.start(NOW)
    state = member._active.state
    protocol = member._protocol
    things: list[object] = [member, protocol, protocol._statements, member._resources.foreign]
    things += [member._sender, member._active, member._view_change]
    things += [state, state.broadcast, state.broadcast.store, state.queue, state.order]
    things.append(Statement(me, 0, protocol.base))
    for thing in things:
        fields = {name for base in type(thing).__mro__ for name in getattr(base, "__slots__", ())}
        fields |= vars(thing).keys() if hasattr(thing, "__dict__") else set()
        for base in type(thing).__mro__:
            if base is not object:
                assert LEFT_OUT.get(base, frozenset()) <= fields, base
