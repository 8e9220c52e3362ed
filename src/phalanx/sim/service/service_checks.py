"""Checks of the logs of all sets, over the whole of a run (listed in docs/service/rules.md).

- agreement: servers with one state id hold one state.
- order: no server applies two commits on one base, or a state whose number is not higher.
- member: a server applies only commits that it is a member of.
- GP: if two servers apply different commits on one base, not both of these hold both servers.
- C4: when a server takes a state for stable, every member of its view has applied it.
"""

from __future__ import annotations

import msgspec

from phalanx.service.effects import StateApplied, StateStable
from phalanx.service.messages import Commit
from phalanx.service.values import Gid, SetState, Vid

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
Place = tuple[str, Vid]


class LogChecks:
    """Sees every state that is applied; `violations` are (property, text)."""

    def __init__(self) -> None:
        self.violations: list[tuple[str, str]] = []
        self.commits = 0
        self._states: dict[Place, bytes] = {}
        self._applied: dict[tuple[str, Gid], set[Vid]] = {}
        self._highest: dict[tuple[str, Gid], Vid] = {}
        self._successors: dict[Place, dict[Gid, Commit]] = {}

    def begun(self, gid: Gid, state: SetState) -> None:
        """A server holds this state without a commit: installation, founding, restart."""
        self._applied.setdefault((state.set, gid), set()).add(state.vid)
        self._highest[(state.set, gid)] = state.vid
        self._same(gid, state)

    def left(self, gid: Gid, name: str) -> None:
        """A server has left a set. If it enters again, it may be another component."""
        self._highest.pop((name, gid), None)

    def applied(self, gid: Gid, effect: StateApplied) -> None:
        state, commit = effect.state, effect.commit
        self.commits += 1
        self._same(gid, state)
        if gid not in commit.members and gid in state.view:
            self._bad("member", f"{gid} applies {commit.vid} of {state.set} without being in it")
        before = self._highest.get((state.set, gid))
        if before is not None and state.vid.number <= before.number:
            self._bad("order", f"{gid} goes from {before} to {state.vid} in {state.set}")
        self._highest[(state.set, gid)] = state.vid
        self._applied.setdefault((state.set, gid), set()).add(state.vid)
        for base in commit.bases:
            known = self._successors.setdefault((state.set, base), {})
            if gid in known and known[gid].vid != commit.vid:
                self._bad("order", f"{gid} applies two commits on {base} of {state.set}")
            for other, theirs in known.items():
                if theirs.vid != commit.vid and _mutual(gid, commit, other, theirs):
                    text = f"{gid} and {other} go different ways from {base} of {state.set}"
                    self._bad("GP", text)
            known[gid] = commit

    def stable(self, gid: Gid, effect: StateStable) -> None:
        state = effect.state
        for member in state.view:
            if state.vid not in self._applied.get((state.set, member), ()):
                self._bad("C4", f"{gid} takes {state.vid} of {state.set} for stable, {member} not")

    def _same(self, gid: Gid, state: SetState) -> None:
        content = _encode(state)
        if self._states.setdefault((state.set, state.vid), content) != content:
            self._bad("agreement", f"{gid} holds another state {state.vid} of {state.set}")

    def _bad(self, name: str, text: str) -> None:
        self.violations.append((name, text))


def _mutual(one: Gid, first: Commit, other: Gid, second: Commit) -> bool:
    """Each of the two servers is in the view that the other has taken."""
    return other in first.members and one in second.members
