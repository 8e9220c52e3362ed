"""Rows of the record of one set: a base, and the commits since.

    set/NAME            the record as it was, without its groups
    group/NAME/UID      each group as it was then
    commit/NAME/NUMBER  each commit since, in order
    head/NAME           what no commit says: the stable state, the acknowledged change

A change of the set adds one commit and replaces the head, whatever the set holds besides. When the
commits take more room than the last base did, a new base replaces them; of the groups it writes
those that have changed. The next start applies the commits to the base and comes to the record
that was written last (`tests/mserver/test_set_rows.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from phalanx.service.commit_chain import CommitChain
from phalanx.service.effects import SetRecord
from phalanx.service.messages import Commit
from phalanx.service.promises import Promises
from phalanx.service.values import GroupRecord, Vid

LOG_BYTES_MIN = 4 << 20
"""Commits are kept until they take this much room at least."""
COMMITS_KEPT_MAX = 16_384
"""Commits are kept until there are so many, which bounds the time of a start."""
STATE, GROUP, COMMIT, HEAD = "set/", "group/", "commit/", "head/"
KINDS = (STATE, GROUP, COMMIT, HEAD)

Rows = dict[str, bytes | None]


class SetHead(msgspec.Struct, frozen=True, array_like=True):
    """The fields of a `SetRecord` that commits do not lead to; the stable state by its id."""

    stable: Vid | None
    promises: Promises = Promises()


_encode = msgspec.msgpack.Encoder().encode
_record = msgspec.msgpack.Decoder(SetRecord).decode
_group = msgspec.msgpack.Decoder(GroupRecord).decode
_commit = msgspec.msgpack.Decoder(Commit).decode
_head = msgspec.msgpack.Decoder(SetHead).decode


class SetRows:
    """The rows of one set, as they are in the store."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._at: Vid | None = None
        """The state that the rows lead to."""
        self._numbers: list[int] = []
        """Of the commits in the store."""
        self._log_bytes = 0
        self._base_bytes = 0
        self._groups: dict[str, GroupRecord] = {}
        """The groups of the base."""

    def rows(self, record: SetRecord) -> Rows:
        """What has to be written so that a start finds this record."""
        new = self._commits_since(record)
        if new is None:
            return self._base(record)
        out: Rows = {}
        for commit in new:
            number = 1 + (self._numbers[-1] if self._numbers else 0)
            body = _encode(commit)
            out[f"{COMMIT}{self._name}/{number:012d}"] = body
            self._numbers.append(number)
            self._log_bytes += len(body)
        self._at = record.state.vid
        long = self._log_bytes > max(LOG_BYTES_MIN, self._base_bytes)
        long = long or len(self._numbers) > COMMITS_KEPT_MAX
        if long and record.stable is not None and record.stable.vid == record.state.vid:
            return self._base(record)
        stable = record.stable.vid if record.stable is not None else None
        out[f"{HEAD}{self._name}"] = _encode(SetHead(stable, record.promises))
        return out

    def forgotten(self) -> Rows:
        """The server is not a member of the set any more: all rows go."""
        groups = [f"{GROUP}{self._name}/{uid}" for uid in self._groups]
        keys = [*groups, *self._commit_keys(), f"{HEAD}{self._name}", f"{STATE}{self._name}"]
        return dict.fromkeys(keys)

    def _commit_keys(self) -> list[str]:
        return [f"{COMMIT}{self._name}/{number:012d}" for number in self._numbers]

    def _commits_since(self, record: SetRecord) -> list[Commit] | None:
        """The commits from the rows to the record; None if they do not say all."""
        new: list[Commit] = []
        at = record.state.vid
        for commit in reversed(record.commits):
            if at == self._at:
                break
            if commit.vid != at or len(commit.bases) != 1:
                return None
            new.append(commit)
            at = commit.bases[0]
        return new[::-1] if at == self._at else None

    def _base(self, record: SetRecord) -> Rows:
        """A new base in place of all rows."""
        out: Rows = dict.fromkeys(self._commit_keys())
        state, stable = record.state, record.stable
        is_stable = stable is not None and stable.vid == state.vid
        bare = replace(state, groups={})
        row = replace(record, state=bare, stable=None if is_stable else stable)
        out[f"{STATE}{self._name}"] = _encode(row)
        stable_vid = stable.vid if stable is not None else None
        out[f"{HEAD}{self._name}"] = _encode(SetHead(stable_vid, record.promises))
        for uid in self._groups.keys() - state.groups.keys():
            out[f"{GROUP}{self._name}/{uid}"] = None
        for uid, group in state.groups.items():
            if self._groups.get(uid) is not group:
                out[f"{GROUP}{self._name}/{uid}"] = _encode(group)
        self._at, self._numbers, self._log_bytes = state.vid, [], 0
        self._groups = state.groups
        self._base_bytes = sum(len(body) for body in out.values() if body is not None)
        return out

    # ------------------------------------------------------------------ the next start

    @classmethod
    def restored(cls, name: str, stored: Mapping[str, bytes]) -> tuple[SetRows, SetRecord]:
        """The record that the rows lead to. ValueError if they lead to none."""
        self = cls(name)
        record = _record(stored[f"{STATE}{name}"])
        prefix = f"{GROUP}{name}/"
        groups = {
            key.removeprefix(prefix): _group(body)
            for key, body in stored.items()
            if key.startswith(prefix)
        }
        if groups:
            record = replace(record, state=replace(record.state, groups=groups))
        self._groups = groups
        head = _head(stored[f"{HEAD}{name}"]) if f"{HEAD}{name}" in stored else None
        self._base_bytes = sum(
            len(body) for key, body in stored.items() if key.startswith((f"{STATE}{name}", prefix))
        )
        chain = CommitChain(record.state, record.stable, record.commits)
        chain = _with_stable(chain, head)
        for key in sorted(key for key in stored if key.startswith(f"{COMMIT}{name}/")):
            commit = _commit(stored[key])
            after = chain.followed_by(commit) if chain.vid in commit.bases else None
            if after is None:
                raise ValueError(f"{key} does not follow the rows before it")
            chain = _with_stable(after, head)
            self._numbers.append(int(key.rpartition("/")[2]))
            self._log_bytes += len(stored[key])
        self._at = chain.vid
        promises = record.promises if head is None else head.promises
        stable = chain.stable
        if head is not None and head.stable != (stable.vid if stable is not None else None):
            raise ValueError(f"{HEAD}{name} names a state that the rows do not lead to")
        return self, SetRecord(chain.state, stable, chain.commits, promises)


def _with_stable(chain: CommitChain, head: SetHead | None) -> CommitChain:
    if head is not None and chain.vid == head.stable:
        return replace(chain, stable=chain.state)
    return chain
