"""The rows in which the durable records of a machine are stored.

Most records are one row each. What grows with the number of groups or with time is stored as
changes: the record of a set (`set_rows`) and the history of a group at an interface, each view of
which is a row of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from phalanx.mserver import set_rows
from phalanx.mserver.set_rows import SetRows
from phalanx.service.effects import (
    DurableRecord,
    HeldHistory,
    HeldMembership,
    InterfaceRecord,
    OpenCall,
    RecordRemoved,
    SetForgotten,
    SetRecord,
)
from phalanx.service.values import GroupView, ServiceGroup, Vid

INTERFACE = "interface"
HISTORY, VIEW = "history/", "view/"
SINGLE = ("member/", "open/")
"""Kinds of records that are one row each."""

Rows = dict[str, bytes | None]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DurableRecord).decode
_view = msgspec.msgpack.Decoder(GroupView).decode


class DurableRows:
    """The rows as they are in the store. ValueError if those of an earlier life are of another
    version. `records` has what they hold."""

    def __init__(self, stored: Mapping[str, bytes]) -> None:
        self._sets: dict[str, SetRows] = {}
        self._histories: dict[str, ServiceGroup] = {}
        self.records: list[DurableRecord] = []
        try:
            self._read(stored)
        except msgspec.MsgspecError as error:
            raise ValueError(f"a record is of another version: {error}") from error

    def rows(self, record: DurableRecord) -> Rows:
        """What has to be written for a record; None for rows that go."""
        match record:
            case SetRecord(state=state):
                if state.set not in self._sets:
                    self._sets[state.set] = SetRows(state.set)
                return self._sets[state.set].rows(record)
            case SetForgotten(set=name):
                known = self._sets.pop(name, None)
                return {f"{set_rows.STATE}{name}": None} | (known.forgotten() if known else {})
            case InterfaceRecord():
                return {INTERFACE: _encode(record)}
            case HeldMembership(member):
                return {f"member/{member}": _encode(record)}
            case HeldHistory(group):
                return self._history(group)
            case OpenCall(call):
                return {f"open/{call.id}": _encode(record)}
            case RecordRemoved("history", uid):
                gone = self._histories.pop(uid, None)
                views = [_view_key(uid, v.vid) for v in gone.history] if gone is not None else []
                return dict.fromkeys([f"{HISTORY}{uid}", *views])
            case RecordRemoved(kind, id_):
                return {f"{kind}/{id_}": None}

    def _history(self, group: ServiceGroup) -> Rows:
        """The group without its history, and the views that have come or gone."""
        known = self._histories.get(group.uid)
        self._histories[group.uid] = group
        before = {view.vid: view for view in known.history} if known is not None else {}
        now = {view.vid: view for view in group.history}
        out: Rows = {_view_key(group.uid, vid): None for vid in before if vid not in now}
        for vid, view in now.items():
            if vid not in before:
                out[_view_key(group.uid, vid)] = _encode(view)
        out[f"{HISTORY}{group.uid}"] = _encode(HeldHistory(replace(group, history=())))
        return out

    # ------------------------------------------------------------------ the next start

    def _read(self, stored: Mapping[str, bytes]) -> None:
        views: dict[str, list[GroupView]] = {}
        for key, body in stored.items():
            if key.startswith(VIEW):
                uid = key.removeprefix(VIEW).rpartition("/")[0]
                views.setdefault(uid, []).append(_view(body))
        for key, body in sorted(stored.items()):
            if key == INTERFACE or key.startswith(SINGLE):
                self.records.append(_decode(body))
            elif key.startswith(HISTORY):
                held = _decode(body)
                assert isinstance(held, HeldHistory)
                past = sorted(views.get(held.group.uid, []), key=lambda view: view.vid)
                whole = replace(held.group, history=tuple(past))
                self._histories[whole.uid] = whole
                self.records.append(HeldHistory(whole))
            elif key.startswith(set_rows.STATE):
                name = key.removeprefix(set_rows.STATE)
                self._sets[name], record = SetRows.restored(name, stored)
                self.records.append(record)


def _view_key(uid: str, vid: Vid) -> str:
    return f"{VIEW}{uid}/{vid.number:012d}.{vid.digest.hex()}"
