"""A change of a set while it is put together: the state as it will be, and the entries that lead to
it. Many changes of groups go into one change of the set (S3 III.A.1.b)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from phalanx.service.entries import (
    ENTRIES_MAX,
    AddSeen,
    AdvanceGroup,
    Entry,
    FreeName,
    PutGroup,
    RegisterName,
)
from phalanx.service.group_advance import advance_of
from phalanx.service.set_names import name_wanted
from phalanx.service.set_state import with_entry
from phalanx.service.values import (
    GROUPS_MAX,
    MEMBERS_OF_A_GROUP_MAX,
    NO_RECORD,
    GroupRecord,
    ServiceGroup,
    SetState,
)

ROOM = 8
"""Entries that one more step may need."""
CHANGE_BYTES_MAX = 1 << 20
"""A change takes no more groups when its entries are this long. One entry may be longer: a group
with all of its history moves in one."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class StateDraft:
    """`entries` are valid for the state that the draft began with."""

    def __init__(self, state: SetState) -> None:
        self.base = state.vid
        self.state = state
        self.entries: list[Entry] = []
        self.left_out = 0
        """Entries that were not entered, because nobody could read them."""
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the rest has to wait for the next change."""
        return len(self.entries) + ROOM > ENTRIES_MAX or self._bytes >= CHANGE_BYTES_MAX

    @property
    def context(self) -> bytes:
        """Names the state on which views are decided."""
        return self.base.digest

    def record(self, uid: str) -> GroupRecord:
        return self.state.groups.get(uid, NO_RECORD)

    def put(self, uid: str, record: GroupRecord, cause: str) -> None:
        """The record of a group from now on."""
        if record.is_empty:
            record = NO_RECORD
        self._enter(shortened(uid, self.record(uid), record, cause))

    def see(self, id_: str) -> None:
        self._enter(AddSeen(id_))

    def register(self, group: ServiceGroup) -> None:
        """Enter the name of a group, if it has none here (rule N4)."""
        entry = name_wanted(self.state.names, group)
        if entry is not None:
            self._enter(entry)

    def register_as(self, name: str, uid: str) -> None:
        self._enter(RegisterName(name, uid))

    def free(self, uid: str) -> None:
        """Free all names of a group."""
        for name in sorted(n for n, u in self.state.names.items() if u == uid):
            self._enter(FreeName(name))

    def _enter(self, entry: Entry) -> None:
        """An entry that no server could read is left out: its change would take the set apart.
        Calls are refused before that (`call_problem`, `refusal`)."""
        body = _encode(entry)
        after = with_entry(self.state, entry)
        if not _is_readable(body) or not _is_within_bounds(after, entry):
            self.left_out += 1
            return
        self.state = after
        self.entries.append(entry)
        self._bytes += len(body)


def _is_readable(body: bytes) -> bool:
    try:
        _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _is_within_bounds(state: SetState, entry: Entry) -> bool:
    if not isinstance(entry, PutGroup | AdvanceGroup):
        return True
    own = state.groups.get(entry.uid, NO_RECORD).own
    members = len(own.view.members) if own is not None else 0
    return members <= MEMBERS_OF_A_GROUP_MAX and len(state.groups) <= GROUPS_MAX


def shortened(uid: str, before: GroupRecord, after: GroupRecord, cause: str) -> Entry:
    """The entry for a new record; without the history if the group only has a next view."""
    if before.own is not None and after.own is not None:
        rest_is_same = replace(before, own=None) == replace(after, own=None)
        entry = advance_of(before.own, after.own, cause) if rest_is_same else None
        if entry is not None:
            return entry
    return PutGroup(uid, after, cause)
