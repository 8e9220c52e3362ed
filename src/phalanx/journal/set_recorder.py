"""Rows about the sets that a server is a member of, and about the groups that they hold.

It keeps the last state of each set, because a row says what has changed. Groups are compared as a
whole only where a state was taken over from elsewhere; else the entries of a change name them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.core.ids import digest_of
from phalanx.journal import service_schema as rows
from phalanx.journal.service_rows import ServiceRows, label, labels, part_text, vid_text
from phalanx.service import effects as fx
from phalanx.service.entries import AdvanceGroup, PutGroup, RemoveServer
from phalanx.service.messages import Commit
from phalanx.service.values import (
    HISTORY_VIEWS_MAX,
    GroupRecord,
    GroupView,
    ServiceGroup,
    SetState,
    Vid,
)

VIEWS_KEPT = 2 * HISTORY_VIEWS_MAX
"""Ids of views of a group that are remembered as recorded."""
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_json = msgspec.json.Encoder(order="deterministic").encode


class SetRecorder:
    """Of one server. `digests`: take a digest of every state, which reads all of it."""

    def __init__(self, out: ServiceRows, digests: bool) -> None:
        self._rows = out
        self._digests = digests
        self._states: dict[str, SetState] = {}
        self._views: dict[tuple[str, str], dict[Vid, None]] = {}
        """The views that were recorded, or were there before, of each group that a set owns."""
        self._acked: dict[str, tuple[str, str]] = {}
        """The change that is acknowledged in a set, and its base."""

    def applied(self, state: SetState, commit: Commit) -> None:
        """A set has a new last state."""
        before = self._states.get(state.set)
        known = before.view if before is not None else ()
        left = [m for m in known if m not in state.view]
        asked = [e.server for e in commit.entries if isinstance(e, RemoveServer)]
        kinds = Counter(str(type(e).__struct_config__.tag) for e in commit.entries)
        whole = before is None or before.vid not in commit.bases
        way = "CHANGE"
        if whole:
            way = "ENTRY"
        elif len(commit.bases) > 1:
            way = "UNION"
        elif state.lineage == state.vid.digest:
            way = "FORK"
        self._rows.row(
            rows.SetStateApplied,
            set=state.set,
            vid=vid_text(state.vid),
            bases=[vid_text(base) for base in commit.bases],
            change=_change_text(commit.id),
            way=way,
            lineage=state.lineage.hex(),
            members=labels(state.view),
            parent=label(state.parent),
            joined=labels(m for m in state.view if m not in known),
            left=labels(left),
            isolated=labels(m for m in left if m not in asked),
            entries=sorted(kinds),
            entry_counts=[kinds[kind] for kind in sorted(kinds)],
            digest=self._digest(state),
        )
        self._states[state.set] = state
        self._acked.pop(state.set, None)
        for entry in commit.entries:
            if isinstance(entry, PutGroup | AdvanceGroup):
                self._group_changed(state, entry.uid, entry.cause)
        if way == "ENTRY":
            self.taken_over(state)
        elif way == "UNION":
            for uid, record in sorted(state.groups.items()):
                self._own_views(state, uid, record)

    def persisted(self, record: fx.SetRecord) -> None:
        """The server has this on its disk."""
        state = record.state
        if state.set not in self._states and not record.commits:
            self.held("FOUNDED", state, False)
            self.taken_over(state)
        self.acknowledged(record)

    def forgotten(self, name: str) -> None:
        """The server is not a member of the set any more."""
        self._states.pop(name, None)
        self._acked.pop(name, None)
        for key in [key for key in self._views if key[0] == name]:
            del self._views[key]
        self._rows.row(rows.SetLeft, set=name)

    def acknowledged(self, record: fx.SetRecord) -> None:
        """The acknowledged change, if it is another one than before. The record of a new state
        stands before its `StateApplied`: what was acknowledged before is decided then."""
        name, base = record.state.set, vid_text(record.state.vid)
        before, acked = self._acked.get(name), record.promises.acked
        if acked is not None:
            change = _change_text(acked.change.id)
            if before != (change, base):
                coordinator = str(acked.coordinator)
                self._rows.row(
                    rows.ChangeAcknowledged,
                    set=name,
                    base=base,
                    change=change,
                    coordinator=coordinator,
                )
            self._acked[name] = (change, base)
        elif before is not None and before[1] == base:
            del self._acked[name]
            self._rows.row(rows.ChangeWithdrawn, set=name, base=base, change=before[0])

    def held(self, op: rows.HeldWhen, state: SetState, busy: bool) -> None:
        """A state that no commit led to, or the last one."""
        kids = [(c, str(server)) for c, parents in sorted(state.kids.items()) for server in parents]
        names = sorted(state.names.items())
        self._rows.row(
            rows.SetStateHeld,
            op=op,
            set=state.set,
            vid=vid_text(state.vid),
            lineage=state.lineage.hex(),
            members=labels(state.view),
            parent=label(state.parent),
            kids=[child for child, _ in kids],
            kid_servers=[server for _, server in kids],
            names=[name for name, _ in names],
            name_uids=[uid for _, uid in names],
            busy=int(busy),
            digest=self._digest(state),
        )
        self._states[state.set] = state

    def _digest(self, state: SetState) -> str | None:
        return digest_of(_encode(state)).hex() if self._digests else None

    # ------------------------------------------------------------------ groups

    def taken_over(self, state: SetState) -> None:
        """The views that are owned now; those before them were recorded where they were made."""
        for uid, record in sorted(state.groups.items()):
            if record.own is not None:
                past = (view.vid for view in record.own.history)
                self._views[state.set, uid] = dict.fromkeys(past)
                self._view(state, uid, record.own, record.own.view)

    def _group_changed(self, state: SetState, uid: str, cause: str) -> None:
        record = state.groups.get(uid, GroupRecord())
        own = record.own
        self._rows.row(
            rows.GroupRecordChanged,
            set=state.set,
            at_vid=vid_text(state.vid),
            uid=uid,
            cause=cause,
            name=_name_of(record),
            own=vid_text(own.view.vid) if own is not None else None,
            ended=own.ended if own is not None else None,
            below=list(record.below),
            moves=[pend.id for pend in record.pends],
            move_targets=[pend.to for pend in record.pends],
            recall=int(record.recall),
            pin=own.pin if own is not None else None,
        )
        self._own_views(state, uid, record)

    def _own_views(self, state: SetState, uid: str, record: GroupRecord) -> None:
        """The views that the set owns since this change; one change may make several."""
        if record.own is None:
            self._views.pop((state.set, uid), None)
            return
        for view in (*record.own.history, record.own.view):
            self._view(state, uid, record.own, view)

    def _view(self, state: SetState, uid: str, group: ServiceGroup, view: GroupView) -> None:
        """A row for a view that was not recorded before."""
        known = self._views.setdefault((state.set, uid), {})
        if view.vid in known:
            return
        known[view.vid] = None
        while len(known) > VIEWS_KEPT:
            del known[next(iter(known))]
        attributes = [_attributes_text(group.attributes.get(m, {})) for m in view.members]
        self._rows.row(
            rows.GroupViewInstalled,
            set=state.set,
            at_vid=vid_text(state.vid),
            uid=uid,
            vid=vid_text(view.vid),
            preds=[vid_text(vid) for vid in view.preds],
            members=list(view.members),
            parts=[part_text(view.parts.get(member)) for member in view.members],
            cause=view.cause,
            name=group.name,
            attributes=attributes if any(group.attributes.values()) else [],
        )

    def record_held(self, state: SetState, uid: str, record: GroupRecord) -> None:
        """What the last state of a set has of a group."""
        own = record.own
        self._rows.row(
            rows.GroupRecordHeld,
            set=state.set,
            at_vid=vid_text(state.vid),
            uid=uid,
            name=_name_of(record),
            scope=own.scope if own is not None else "",
            own=vid_text(own.view.vid) if own is not None else None,
            members=list(own.view.members) if own is not None else [],
            ended=own.ended if own is not None else None,
            below=list(record.below),
            moves=[pend.id for pend in record.pends],
            move_targets=[pend.to for pend in record.pends],
            pin=own.pin if own is not None else None,
        )


def _change_text(change: Any) -> str:
    return f"{change.origin}/{change.number}"


def _name_of(record: GroupRecord) -> str:
    if record.own is not None:
        return record.own.name
    return record.pends[0].group.name if record.pends else ""


def _attributes_text(attributes: Mapping[str, str]) -> str:
    return _json({key: msgspec.Raw(value.encode()) for key, value in attributes.items()}).decode()
