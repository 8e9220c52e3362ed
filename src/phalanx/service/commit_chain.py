"""The chain of states of one set as one member holds it: the last state and the latest commits.

Members compare where they are by state ids. Since every decision needs an answer of every member
at the same base, a member that is not left out lags by at most one commit; a few are kept all the
same, so that a server that was left out learns which commit did it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from phalanx.service.entries import RemoveServer
from phalanx.service.messages import Commit
from phalanx.service.set_state import applied, vid_after
from phalanx.service.values import Gid, SetState, Vid

COMMITS_KEPT = 16
MISSING_BYTES_MAX = 1 << 20
"""Of the commits in one message to a member that lags, after the first of them; it asks again."""

_encode = msgspec.msgpack.Encoder().encode

Relation = Literal["same", "behind", "ahead", "diverged"]
Place = Literal["last", "next", "earlier", "later", "rival", "unknown"]


class CommitChain(msgspec.Struct, frozen=True):
    """The last state, the last state known to be stable, and the latest commits."""

    state: SetState
    stable: SetState | None = None
    commits: tuple[Commit, ...] = ()

    @property
    def vid(self) -> Vid:
        return self.state.vid

    @property
    def view(self) -> tuple[Gid, ...]:
        return self.state.view

    @property
    def is_stable(self) -> bool:
        return self.stable is not None and self.stable.vid == self.state.vid

    def relation(self, base: Vid) -> Relation:
        """Where another member is that names this base. `diverged`: it has gone another way, or is
        so old that it was left out long ago."""
        if base == self.state.vid:
            return "same"
        if self.missing_from(base):
            return "behind"
        return "ahead" if base.number > self.state.vid.number else "diverged"

    def missing_from(self, base: Vid) -> tuple[Commit, ...]:
        """The commits that lead from this base to here; none if it is not on the chain."""
        for index, commit in enumerate(self.commits):
            if base in commit.bases:
                return self.commits[index:]
        return ()

    def next_for(self, base: Vid) -> tuple[Commit, ...]:
        """The first of those commits, as many as one message takes."""
        out, size = list[Commit](), 0
        for commit in self.missing_from(base):
            size += len(_encode(commit))
            if out and size > MISSING_BYTES_MAX:
                break
            out.append(commit)
        return tuple(out)

    def place(self, commit: Commit) -> Place:
        """Where a commit belongs. `rival`: another one was applied on its base."""
        if commit.vid == self.vid:
            return "last"
        if self.vid in commit.bases:
            return "next"
        if any(done.vid == commit.vid for done in self.commits):
            return "earlier"
        if any(self.relation(base) == "ahead" for base in commit.bases):
            return "later"
        return "rival" if self.missing_from(commit.bases[0]) else "unknown"

    def followed_by(self, commit: Commit) -> CommitChain | None:
        """The chain with this commit, or None if its id is not that of what it carries."""
        named = vid_after(commit.bases, commit.id, commit.entries, commit.members)
        if named != commit.vid:
            return None
        if len(commit.bases) > 1:  # a union: neither side holds what the other brings
            if commit.state is None or commit.state.vid != commit.vid:
                return None
            state = commit.state
        else:
            state = applied(
                self.state,
                commit.entries,
                commit.members,
                commit.vid,
                bool(left_out(self.view, commit)),
            )
        kept = commit if len(commit.bases) > 1 else replace(commit, state=None)
        return replace(self, state=state, commits=(*self.commits, kept)[-COMMITS_KEPT:])


def left_out(view: Sequence[Gid], commit: Commit) -> tuple[Gid, ...]:
    """Members of the view that a commit leaves out although they did not ask to leave."""
    gone = {entry.server for entry in commit.entries if isinstance(entry, RemoveServer)}
    return tuple(m for m in view if m not in commit.members and m not in gone)
