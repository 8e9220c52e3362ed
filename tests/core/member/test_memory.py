"""What a member keeps does not grow with the number of members that came and left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.config import lan
from phalanx.core.broadcast import foreign_frames
from phalanx.core.effects import LeaveRequest
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member
from phalanx.core.membership import (
    discovery,
    members_met,
    merge_history,
    reconciliation,
    statements,
)

Build = Callable[..., Any]

LIMITS = [
    (discovery, "STRANGERS_MAX"),
    (discovery, "CONTACTS_MAX"),
    (foreign_frames, "MEMBERS_MAX"),
    (members_met, "MEMBERS_MET_MAX"),
    (merge_history, "MEMBERS_MET_MAX"),
    (merge_history, "VIEWS_MAX"),
    (reconciliation, "MEMBERS_MAX"),
    (statements, "MEMBERS_KNOWN_MAX"),
]
"""What is remembered of former members is limited; the limits are lowered, so that few leaves
reach them."""


def kept(root: object) -> int:
    """The number of items in all containers that can be reached from an object."""
    seen: set[int] = set()
    todo = [root]
    count = 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, int | str | bytes | type):
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            count += len(one)
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset | deque):
            count += len(one)
            todo += one
        else:
            names = {*getattr(one, "__dict__", ()), *getattr(one, "__struct_fields__", ())}
            for kind in type(one).__mro__:
                names.update(getattr(kind, "__slots__", ()))
            todo += [getattr(one, name) for name in sorted(names) if hasattr(one, name)]
    return count


def test_members_that_leave_do_not_fill_the_memory(
    mesh: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, 8)
    monkeypatch.setattr(foreign_frames, "TABLES_MAX", 1)
    group = mesh("ab")
    group.pump(1000)
    sizes = []
    for life in range(1, 37):
        me = MemberId("c", life)
        leaver = group.add(Member(me, boot_view([me]), "g", lan(), life))
        group.pump(7000)  # longer than members that join and soon leave are put off
        assert me in group.members[0].view.members
        group.step(leaver, LeaveRequest())
        group.pump(1500)
        assert me not in group.members[0].view.members
        group.crash(leaver)
        sizes.append(kept(group.members[0]))
    assert max(sizes[24:]) <= max(sizes[12:24])
