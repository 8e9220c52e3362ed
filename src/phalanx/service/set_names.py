"""Names of groups in the scope of a set (rules N1, N4)."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.core.ids import digest_of
from phalanx.service.entries import RegisterName
from phalanx.service.values import TEXT_LENGTH_MAX, ServiceGroup


def name_wanted(names: Mapping[str, str], group: ServiceGroup) -> RegisterName | None:
    """The entry that registers a group, under a name with its uid behind it if its own is taken.
    None if the group has a name already."""
    if group.uid in names.values():
        return None
    if names.get(group.name, group.uid) == group.uid:
        return RegisterName(group.name, group.uid)
    return RegisterName(second_name(group.name, group.uid), group.uid)


def second_name(name: str, uid: str) -> str:
    """The name of a group whose own is taken: with its uid, or a digest of both if that is too
    long for a name."""
    whole = f"{name}~{uid}"
    if len(whole) <= TEXT_LENGTH_MAX:
        return whole
    return f"{name[: TEXT_LENGTH_MAX // 2]}~{digest_of(name.encode(), uid.encode()).hex()}"


def names_united(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """The names of both components. Of two groups with one name the lower uid keeps it; a group
    with several names keeps its shortest."""
    names = dict(first)
    for name, uid in sorted(second.items()):
        other = names.get(name, uid)
        names[name] = min(uid, other)
        if other != uid:
            loser = max(uid, other)
            names[second_name(name, loser)] = loser
    kept: dict[str, str] = {}
    for name in sorted(names, key=lambda n: (len(n), n)):
        kept.setdefault(names[name], name)
    return {name: uid for name, uid in sorted(names.items()) if kept[uid] == name}
