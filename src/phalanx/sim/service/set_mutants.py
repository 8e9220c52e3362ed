"""Mutants of the log of a set: S3's printed rules, and rules of the repair switched off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from phalanx.service import effects, messages, promises, set_log
from phalanx.service.coordination import Coordination, Key
from phalanx.service.entries import SetChange
from phalanx.service.messages import Commit
from phalanx.service.promises import Promises
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_log import Effects, SetLog
from phalanx.service.values import Gid
from phalanx.sim.mutants.mutant import Patch

_commit: Callable[..., Effects] = SetLog._commit
_received: Callable[..., Effects] = SetLog._received


def discards_lower_commits(self: SetLog, now: int, sender: Gid, commit: Commit) -> Effects:
    """S3 Claims 1 to 3: who has acknowledged a change of higher priority drops the Commit."""
    acked = self._promises.acked
    if acked is not None and acked.change.id != commit.id:
        if acked.change.priority < commit.priority:
            return []
    return _commit(self, now, sender, commit)


def in_progress_first(one: Key, other: Key) -> bool:
    return False


def commits_when_elected(self: SetLog, now: int, change: SetChange) -> Effects:
    return self._coordinate(now, Coordination(change, ()))


def ignores_view_ids(self: SetLog, now: int, sender: Gid, message: Any) -> Effects:
    if isinstance(message, messages.Monitor | messages.MonitorReply) and self.is_member:
        if sender in self.isolated:
            return []
        self._monitor = self._monitor.heard(sender)
        if isinstance(message, messages.Monitor):
            return [effects.Send(sender, self._say.reply(message.token))]
        return []
    return _received(self, now, sender, message)


def keeps_answers(self: SetLog, now: int, servers: tuple[Gid, ...]) -> Effects:
    """Whoever is left out later is not named in the question that has been answered already."""
    before = self.isolated
    out = self._set_apart(servers)
    if self.isolated == before:
        return []
    out += self._abandon_union(self._work) if self._work and self._work.united else []
    return [*out, *self._try_commit(now), *self._try_elect(now), *self._start(now)]


def forgets_promises(
    self: SetLog, me: Gid, record: effects.SetRecord, times: ServiceTimes, now: int
) -> None:
    kept = replace(record.promises, apart=None)
    _begin(self, me, replace(record, promises=kept), times, now)


def takes_any(self: Promises, commit: Commit) -> bool:
    return True


def claims_stability_at_once(self: SetLog) -> Effects:
    self._monitor = self._monitor.with_applied(self._chain.view)
    return _note_stability(self)


_begin: Callable[..., None] = SetLog.__init__
_note_stability: Callable[..., Effects] = SetLog._note_stability

SET_MUTANTS: dict[str, tuple[str, tuple[Patch, ...]]] = {
    "printed-priority": (
        "M2: a Commit of lower priority than the acknowledged change is dropped (S3 Claims 1 to 3)",
        ((SetLog, "_commit", discards_lower_commits),),
    ),
    "in-progress-first": (
        "M2: an acknowledged change is never given up for one that goes first (S3 III.A.2)",
        (
            (set_log, "goes_before", in_progress_first),
            (promises, "goes_before", in_progress_first),
        ),
    ),
    "kept-answers": (
        "M2: a coordinator leaves out a member without the promise of the others to do so too",
        ((SetLog, "_isolate", keeps_answers),),
    ),
    "forgotten-promise": (
        "M2: a member that comes back reads messages of those that it has promised to leave out",
        ((SetLog, "__init__", forgets_promises),),
    ),
    "union-any-time": (
        "H3: a union is taken by members that have acknowledged another change on its base since",
        ((Promises, "take", takes_any),),
    ),
    "two-phase-election": (
        "M10: the elected coordinator commits without asking again",
        ((SetLog, "_elected", commits_when_elected),),
    ),
    "no-view-ids": (
        "M11: questions of the monitor carry no state, so nobody sees that another lags",
        ((SetLog, "_received", ignores_view_ids),),
    ),
    "stable-at-once": (
        "C4: a state counts as stable when it is applied here",
        ((SetLog, "_note_stability", claims_stability_at_once),),
    ),
}
"""For each mutant the rule that it breaks, and what stands in for it."""
