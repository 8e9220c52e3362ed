"""Names of groups in the scope of a set (rules N1, N4)."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.service.entries import RegisterName
from phalanx.service.values import ServiceGroup


def name_wanted(names: Mapping[str, str], group: ServiceGroup) -> RegisterName | None:
    """The entry that registers a group, under a name with its uid behind it if its own is taken.
    None if the group has a name already."""
    if group.uid in names.values():
        return None
    if names.get(group.name, group.uid) == group.uid:
        return RegisterName(group.name, group.uid)
    return RegisterName(f"{group.name}~{group.uid}", group.uid)


def names_united(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """The names of both components. Of two groups with one name the lower uid keeps it; a group
    with several names keeps its shortest."""
    names = dict(first)
    for name, uid in sorted(second.items()):
        other = names.get(name, uid)
        names[name] = min(uid, other)
        if other != uid:
            loser = max(uid, other)
            names[f"{name}~{loser}"] = loser
    kept: dict[str, str] = {}
    for name in sorted(names, key=lambda n: (len(n), n)):
        kept.setdefault(names[name], name)
    return {name: uid for name, uid in sorted(names.items()) if kept[uid] == name}
