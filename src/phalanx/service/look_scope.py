"""Which sets a server has to look at again, and which of their groups.

Most of what happens concerns few groups: a commit those of its entries, an answer those whose
members have moved on. A look at a set is limited to them, so that it costs the same whatever else
the set holds. Whoever does not know what is concerned asks for all groups; so does every question
to the interfaces, since silence and the passing of time are seen by nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from phalanx.service.entries import AdvanceGroup, Entry, PutGroup, RegisterName

Scope = frozenset[str] | None
"""Uids of groups; None for all groups."""

NOTHING: Scope = frozenset()


class LookScopes:
    """For each set to be looked at the groups that are concerned."""

    def __init__(self) -> None:
        self._scopes: dict[str, set[str] | None] = {}

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._scopes)

    def add(self, name: str) -> None:
        """All groups of a set."""
        self._scopes[name] = None

    def update(self, names: Iterable[str]) -> None:
        for name in names:
            self.add(name)

    def touch(self, names: Iterable[str], scope: Scope) -> None:
        """These groups of some sets. A set is looked at even if there are none."""
        for name in names:
            if scope is None:
                self._scopes[name] = None
            elif (known := self._scopes.setdefault(name, set())) is not None:
                known.update(scope)

    def take(self, name: str) -> Scope:
        """What is to be looked at in a set; it is looked at now."""
        scope = self._scopes.pop(name, set())
        return None if scope is None else frozenset(scope)


def touched_by(entries: Sequence[Entry]) -> Scope:
    """The groups that these entries are about."""
    uids: set[str] = set()
    for entry in entries:
        match entry:
            case PutGroup(uid) | AdvanceGroup(uid) | RegisterName(_, uid):
                uids.add(uid)
            case _:
                return None
    return frozenset(uids)


def both(one: Scope, other: Scope) -> Scope:
    return None if one is None or other is None else one | other


def in_scope(scope: Scope, *groups: Mapping[str, object]) -> list[str]:
    """The uids among these groups that are in scope, in their order."""
    if scope is None:
        return sorted({uid for each in groups for uid in each})
    return sorted(uid for uid in scope if any(uid in each for each in groups))
