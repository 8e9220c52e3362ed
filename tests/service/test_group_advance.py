"""A next view of a group as the difference to the current one."""

from __future__ import annotations

import random

import msgspec
from msgspec.structs import replace

from phalanx.core.ids import MemberId
from phalanx.service.entries import AdvanceGroup, Entry, PutGroup
from phalanx.service.group_advance import advance_of, advanced
from phalanx.service.group_views import created, next_view, with_view
from phalanx.service.set_state import founded, with_entry
from phalanx.service.state_draft import CHANGE_BYTES_MAX, StateDraft, shortened
from phalanx.service.values import GroupRecord, PartitionRules, ServiceGroup

ENTRY = msgspec.msgpack.Decoder(Entry)


def size_of(entry: object) -> int:
    return len(msgspec.msgpack.encode(entry))


def grown(count: int, attribute: str = "") -> ServiceGroup:
    group = created("u", "name", "scope", b"context")
    members = tuple(f"i{n}/1" for n in range(count))
    group = next_view(group, members, "join", b"context")
    return replace(group, attributes={member: {"k": attribute} for member in members})


def test_a_join_and_a_leave_are_the_same_for_all_members_that_apply_them() -> None:
    rng = random.Random(1)
    group, number = created("u", "name", "scope", b"context"), 0
    for _ in range(300):
        members = [m for m in group.view.members if rng.randrange(5)]
        for _ in range(rng.randrange(4)):
            number += 1
            members.append(f"i{rng.randrange(9)}/{number}")
        after = next_view(group, members, rng.choice(("join", "leave", "unserved")), b"c")
        changed = {m: {"k": str(number)} for m in members if rng.randrange(3) == 0}
        kept = {m: a for m, a in group.attributes.items() if m in members}
        after = replace(after, attributes=kept | changed, epoch=after.epoch + rng.randrange(2))
        if rng.randrange(4) == 0:
            after = replace(after, rules=PartitionRules(survive=f"size > {number % 7}"))
        entry = advance_of(group, after, "rule")
        assert entry is not None
        assert ENTRY.decode(msgspec.msgpack.encode(entry)) == entry
        assert advanced(group, entry) == after
        group = after


def test_a_view_that_no_difference_expresses_is_entered_whole() -> None:
    group = grown(3)
    swapped = next_view(group, group.view.members[::-1], "order", b"c")
    assert advance_of(group, swapped, "rule") is None
    parts = dict.fromkeys(group.view.members, None)
    elsewhere = with_view(group, group.view.members, parts, (group.view.vid,), "x", b"c")
    assert advance_of(group, elsewhere, "rule") is None
    assert isinstance(shortened("u", GroupRecord(group), GroupRecord(swapped), "rule"), PutGroup)


def test_a_join_costs_as_much_in_a_large_group_with_attributes_as_in_a_small_one() -> None:
    sizes = []
    for count in (3, 1_000):
        group = grown(count, "v" * 4_000)
        after = next_view(group, (*group.view.members, "new/1"), "join", b"c")
        entry = shortened("u", GroupRecord(group), GroupRecord(after), "join")
        assert isinstance(entry, AdvanceGroup)
        sizes.append(size_of(entry))
    assert sizes[0] == sizes[1] < 300


def test_a_change_is_full_when_its_entries_are_long() -> None:
    draft = StateDraft(founded("s", [MemberId("m")], None))
    for n in range(1_000):
        if draft.is_full:
            break
        draft.put(f"u{n}", GroupRecord(replace(grown(10, "v" * 4_000), uid=f"u{n}")), "create")
    assert CHANGE_BYTES_MAX <= sum(map(size_of, draft.entries)) < CHANGE_BYTES_MAX + 50_000


def test_an_entry_for_a_group_that_is_not_owned_changes_nothing() -> None:
    group = grown(2)
    entry = advance_of(group, next_view(group, ("i0/1",), "leave", b"c"), "leave")
    assert entry is not None
    state = founded("s", [MemberId("m")], None)
    assert with_entry(state, entry) is state
