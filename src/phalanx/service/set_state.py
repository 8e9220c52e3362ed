"""The state of a set after a commit: a pure function of the state, the entries and the view.

Every member applies the same commits to the same states, so nothing here may depend on who
computes it or when.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

import msgspec
from msgspec.structs import replace

from phalanx.core.ids import digest_of
from phalanx.service.entries import (
    AddKid,
    AddSeen,
    AddServer,
    AdvanceGroup,
    ChangeId,
    Entry,
    FreeName,
    PutGroup,
    RegisterName,
    RemoveKid,
    RemoveServer,
    SetHome,
    SetParent,
)
from phalanx.service.group_advance import advanced
from phalanx.service.values import NO_RECORD, Gid, HomeOf, SetState, Vid

ANCESTORS_MAX = 256
"""Earlier lineages that are remembered."""
SEEN_MAX = 4096
"""Hand-overs that are remembered."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def vid_after(
    bases: Sequence[Vid], change: ChangeId, entries: Sequence[Entry], members: Sequence[Gid]
) -> Vid:
    """The id of the state that a commit leads to: 1 + the highest number of its bases, and the
    digest of all that it is made of."""
    number = 1 + max(base.number for base in bases)
    return Vid(number, digest_of(_encode(tuple(bases)), _encode((change, entries, members))))


def founded(
    name: str, members: Iterable[Gid], parent: Gid | None, number: int = 1, salt: bytes = b""
) -> SetState:
    """The first state of a component that follows nothing: at installation, or when a server finds
    nobody of a set (rule H1). `salt` tells foundings by the same server apart."""
    view = tuple(members)
    digest = digest_of(b"founded", name.encode(), _encode(view), salt)
    return SetState(set=name, view=view, vid=Vid(number, digest), lineage=digest, parent=parent)


def view_after(view: Sequence[Gid], entries: Iterable[Entry]) -> tuple[Gid, ...]:
    """The members in rank order after these entries; who joins has the lowest rank."""
    members = list(view)
    for entry in entries:
        match entry:
            case AddServer(server) if server not in members:
                members.append(server)
            case RemoveServer(server) if server in members:
                members.remove(server)
            case _:
                pass
    return tuple(members)


def applied(
    state: SetState, entries: Sequence[Entry], members: Sequence[Gid], vid: Vid, forks: bool
) -> SetState:
    """The next state. `forks`: members were left out because they did not answer, which begins a
    new lineage."""
    for entry in entries:
        state = with_entry(state, entry)
    state = replace(state, view=tuple(members), vid=vid)
    if forks:
        state = replace(
            state, lineage=vid.digest, ancestors=with_ancestors(state.ancestors, state.lineage)
        )
    return pruned(state)


def with_ancestors(known: Sequence[bytes], *more: bytes) -> tuple[bytes, ...]:
    """The lineages, each once, the latest ANCESTORS_MAX of them."""
    out = dict.fromkeys(known)
    out.update(dict.fromkeys(more))
    return tuple(out)[-ANCESTORS_MAX:]


def pruned(state: SetState) -> SetState:
    """The state without the tasks of servers that are not in its view."""
    view = state.view
    kids = {
        child: rest
        for child, parents in state.kids.items()
        if (rest := tuple(server for server in parents if server in view))
    }
    parent = state.parent if state.parent in view else None
    if kids == state.kids and parent == state.parent:
        return state
    return replace(state, kids=kids, parent=parent)


def with_entry(state: SetState, entry: Entry) -> SetState:
    """The state after one entry; its id stays."""
    match entry:
        case AddServer() | RemoveServer():
            return state  # the commit names the members that come out
        case SetParent(server):
            return replace(state, parent=server)
        case AddKid(child, server):
            parents = state.kids.get(child, ())
            if server in parents:
                return state
            return replace(state, kids={**state.kids, child: (*parents, server)})
        case RemoveKid(child, server):
            rest = tuple(p for p in state.kids.get(child, ()) if p != server)
            others = {c: p for c, p in state.kids.items() if c != child}
            return replace(state, kids={**others, child: rest} if rest else others)
        case SetHome(interface, server, seq):
            known = state.homes.get(interface)
            if known is not None and known.seq >= seq:
                return state
            return replace(state, homes={**state.homes, interface: HomeOf(server, seq)})
        case PutGroup(uid, record):
            if record == NO_RECORD:
                rest_of = {u: r for u, r in state.groups.items() if u != uid}
                return replace(state, groups=rest_of)
            return replace(state, groups={**state.groups, uid: record})
        case AdvanceGroup(uid):
            known_record = state.groups.get(uid)
            if known_record is None or known_record.own is None:
                return state
            next_record = replace(known_record, own=advanced(known_record.own, entry))
            return replace(state, groups={**state.groups, uid: next_record})
        case AddSeen(id_):
            if id_ in state.seen:
                return state
            return replace(state, seen=(*state.seen, id_)[-SEEN_MAX:])
        case RegisterName(name, uid):
            return replace(state, names={**state.names, name: uid})
        case FreeName(name):
            return replace(state, names={n: u for n, u in state.names.items() if n != name})
        case _:
            assert_never(entry)
