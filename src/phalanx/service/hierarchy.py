"""Parents: who links a set to the one above, and which entries a server proposes for that.

Pure functions of states. Each answers for one server and one set: what this server should propose
now, or None. A server that is asked again proposes the same again, until the state shows it.
"""

from __future__ import annotations

from phalanx.service.entries import AddKid, Entry, RemoveKid, RemoveServer, SetParent
from phalanx.service.set_tree import SetTree
from phalanx.service.values import Gid, SetState

States = dict[str, SetState]
"""The last states of the sets that one server is a member of."""


def speaker(topology: SetTree, state: SetState) -> Gid | None:
    """Who speaks for a component: its parent, which knows both sets; at the top the most senior."""
    if topology.above(state.set) is not None:
        return state.parent
    return state.view[0] if state.view else None


def parent_wanted(topology: SetTree, me: Gid, state: SetState) -> Entry | None:
    """A set without a parent takes the configured one if it is in view, else the most senior
    member as acting parent, one that is configured for the set if there is any (rule H1). The most
    senior proposes it."""
    if topology.above(state.set) is None or state.parent is not None or state.view[0] != me:
        return None
    configured = topology.sets[state.set].parent
    known = [m for m in state.view if m.name == configured]
    return SetParent((*known, *_of_the_set(topology, state), state.view[0])[0])


def stranger_gives_way(topology: SetTree, me: Gid, state: SetState) -> Entry | None:
    """A parent that is in the set only as acting parent of a child set gives its task to a member
    that is configured for the set: it could not leave otherwise."""
    if topology.above(state.set) is None or state.parent != me:
        return None
    own = _of_the_set(topology, state)
    return SetParent(own[0]) if own and me not in own else None


def _of_the_set(topology: SetTree, state: SetState) -> list[Gid]:
    return [m for m in state.view if m.name in topology.sets[state.set].members]


def parent_returns(topology: SetTree, me: Gid, states: States, name: str) -> Entry | None:
    """The configured parent takes over from an acting one, when both are in one component of the
    set above (rule H2)."""
    state = states[name]
    above = topology.above(name)
    if above is None or topology.sets[name].parent != me.name:
        return None
    if state.parent in (None, me) or above not in states:
        return None
    return SetParent(me) if state.parent in states[above].view else None


def kid_wanted(topology: SetTree, me: Gid, states: States, name: str) -> Entry | None:
    """The parent of a set enters itself in the set above (rule H1)."""
    above = topology.above(name)
    if above is None or states[name].parent != me or above not in states:
        return None
    return None if me in states[above].kids.get(name, ()) else AddKid(name, me)


def kid_unwanted(topology: SetTree, me: Gid, states: States, above: str) -> Entry | None:
    """A parent entry goes when the child has another parent that is entered too, or that is not in
    this component at all (rule H2)."""
    state = states[above]
    for child, parents in sorted(state.kids.items()):
        if me not in parents:
            continue
        if child not in states:
            return RemoveKid(child, me)
        parent = states[child].parent
        if parent not in (None, me) and (parent in parents or parent not in state.view):
            return RemoveKid(child, me)
    return None


def not_needed(topology: SetTree, me: Gid, states: States, above: str) -> Entry | None:
    """An acting parent without children leaves the upper set (rule H2)."""
    state = states[above]
    if me.name in topology.sets[above].members or len(state.view) < 2 or state.parent == me:
        return None
    if any(me in parents for parents in state.kids.values()):
        return None
    below = topology.children(above)
    if any(child in states and states[child].parent == me for child in below):
        return None
    return RemoveServer(me)
