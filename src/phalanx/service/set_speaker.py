"""What one server does for the groups of one set while it speaks for a component of it: the parent,
or at the top the most senior member.

It asks the set whom it serves, every poll or when the speaker above asks; decides about groups
(`group_duties`, `group_moves`, `group_claims`); answers calls (`call_desk`); sends directives
(`directive_sender`).
"""

from __future__ import annotations

from phalanx.service.call_desk import CallDesk
from phalanx.service.data_fan_out import DataFanOut
from phalanx.service.directive_sender import DirectiveSender
from phalanx.service.grace_timers import GraceTimers
from phalanx.service.group_claims import GroupClaims
from phalanx.service.group_messages import Ask, Path, PathStep, Tell
from phalanx.service.group_views import follows, is_excluded
from phalanx.service.look_scope import Scope
from phalanx.service.served_table import ServedTable
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_facts import SetFacts
from phalanx.service.set_tree import SetTree
from phalanx.service.values import (
    NO_RECORD,
    Gid,
    HandOver,
    SetState,
    interface_of,
)

QUESTIONS_KEPT = 16


class SetSpeaker:
    """See the module. One for each set that this server speaks for; begun anew when it does not
    any more."""

    def __init__(self, me: Gid, name: str, topology: SetTree, times: ServiceTimes) -> None:
        self.me = me
        self.name = name
        self.topology = topology
        self._times = times
        self.table = ServedTable(times)
        self.grace = GraceTimers(times.grace_ns)
        self.desk = CallDesk()
        self.sender = DirectiveSender()
        self.claims = GroupClaims()
        self.data = DataFanOut(times.send_wait_ns)
        self.carried: dict[tuple[str, Gid], tuple[HandOver, ...]] = {}
        """For each child set and its parent the groups that are on their way up."""
        self.ask_at = 0
        self._above: Ask | None = None
        self._above_at = 0
        self._questions: dict[int, int] = {}
        """For each question of ours the question above that it passed on."""

    # -------------------------------------------------------------- facts

    def path_above(self, now: int, above: SetState | None) -> Path:
        """The way from the set above to the top, as its speaker has just named it."""
        if self._above is None or above is None:
            return ()
        if now - self._above_at > 2 * self._times.poll_ns:
            return ()
        path = self._above.path
        if path[0].lineage != above.lineage or self.me not in above.kids.get(self.name, ()):
            return ()
        return path

    def facts(
        self, now: int, state: SetState, stable: SetState | None, above: SetState | None
    ) -> SetFacts:
        """What this speaker sees now."""
        for (child, parent), pends in sorted(self.carried.items()):
            for pend in pends:
                if pend.id in state.seen:
                    self.table.release(child, parent, pend.group.uid)
        path = self.path_above(now, above)
        contested = self._above.contested if self._above is not None and path else ()
        return SetFacts(
            now,
            self.me,
            self.topology,
            self._times,
            state,
            stable,
            above,
            self.table,
            self.grace,
            (self.name, *(step.set for step in path)),
            frozenset(contested),
            self.desk.leases,
        )

    # -------------------------------------------------------------- questions

    def heard_above(self, now: int, ask: Ask) -> None:
        """The speaker above has asked."""
        self._above = ask
        self._above_at = now

    def question(self, now: int, state: SetState, above: SetState | None) -> Ask:
        """The next question to all of the view."""
        if state.lineage != self.table.lineage:
            self.carried = {}
        asked = self.table.begin(now, state.lineage)
        self.ask_at = now + self._times.poll_ns
        path = self.path_above(now, above)
        if path:
            self._questions[asked] = path[0].asked
            for old in sorted(self._questions)[:-QUESTIONS_KEPT]:
                del self._questions[old]
            self.ask_at = now + 2 * self._times.poll_ns  # the next one comes from above
        step = PathStep(self.name, state.lineage, self.me, asked)
        return Ask(
            self.name,
            (step, *path),
            self._contested(state, above, bool(path)),
            self._orphans(now, state, bool(path)),
            self._strays(now, state, bool(path)),
        )

    def step(self, state: SetState) -> PathStep:
        """This component on the way of the interfaces below it, as last named to them."""
        return PathStep(self.name, state.lineage, self.me, self.table.asked)

    def answer_above(
        self, now: int, above: SetState | None, tell: Tell | None
    ) -> tuple[int, str, bytes] | None:
        """For which question of the set above an answer is good: its number, set and lineage."""
        number = tell.asked if tell is not None else None
        asked = self.asked_above(now, above, number)
        return None if asked is None or above is None else (asked, above.set, above.lineage)

    def asked_above(self, now: int, above: SetState | None, asked: int | None) -> int | None:
        """The question above that a question of ours has passed on; without one the last."""
        path = self.path_above(now, above)
        if not path:
            return None
        return path[0].asked if asked is None else self._questions.get(asked)

    def heard(self, sender: Gid, tell: Tell) -> Scope:
        """An answer. Returns the groups that it changes something for."""
        changed = self.table.take(sender, tell)
        if tell.child and tell.held is not None and tell.lineage == self.table.lineage:
            if self.carried.get((tell.child, sender), ()) != tell.carried:
                changed = None
            self.carried[(tell.child, sender)] = tell.carried
        return changed

    # -------------------------------------------------------------- what sets below cannot see

    def _contested(self, state: SetState, above: SetState | None, linked: bool) -> tuple[str, ...]:
        """Groups below that this set or one above owns or carries as well (rule G7). A group whose
        scope was another one in a part of the network has no pointer here: then what sets below
        report to have of it counts."""
        higher = frozenset(self._above.contested if self._above is not None and linked else ())
        out = self._held_twice(state, higher)
        for uid, record in sorted(state.groups.items()):
            if not record.below or uid in out:
                continue
            theirs = above.groups.get(uid, NO_RECORD) if above is not None else NO_RECORD
            taken = record.own or record.pends or theirs.own or theirs.pends
            if taken or uid in higher or len(record.below) > 1:
                out.add(uid)
        return tuple(sorted(out))

    def _held_twice(self, state: SetState, higher: frozenset[str]) -> set[str]:
        """Groups that a child set has as well as another one, this set or a set above."""
        seen: set[str] = {uid for uid, record in state.groups.items() if record.own is not None}
        out: set[str] = set()
        for child in self.topology.children(self.name):
            held = self.table.held_below(state, child)
            out |= held & (seen | higher)
            seen |= held
        return out

    def _believed(self, now: int, state: SetState) -> dict[str, list[str]]:
        """For each group the members of which interfaces served here have a view."""
        out: dict[str, list[str]] = {}
        for entry in self.table.interfaces(now, state):
            for member, uid in sorted(entry.served.groups.items()):
                if entry.served.positions.get(member) is not None:
                    out.setdefault(uid, []).append(member)
        return out

    def _orphans(self, now: int, state: SetState, linked: bool) -> tuple[str, ...]:
        """Groups that nobody from here to the top has a record of."""
        mine = [u for u in sorted(self._believed(now, state)) if u not in state.groups]
        if self.topology.above(self.name) is None:
            return tuple(mine)
        if not linked or self._above is None:
            return ()
        higher = frozenset(self._above.orphans)
        return tuple(uid for uid in mine if uid in higher)

    def _strays(self, now: int, state: SetState, linked: bool) -> tuple[tuple[str, str], ...]:
        """Members whose last view is not in the history of their group's owner, here or above."""
        out: dict[tuple[str, str], None] = {}
        for uid, member in self._above.strays if self._above is not None and linked else ():
            record = state.groups.get(uid, NO_RECORD)
            if record.own is None and not record.pends:
                out[(uid, member)] = None
        for uid, members in sorted(self._believed(now, state).items()):
            own = state.groups.get(uid, NO_RECORD).own
            if own is None or own.ended is not None:
                continue
            for member in members:
                entry = self.table.entry(now, state, interface_of(member))
                if entry is None or uid in self.table.held_by(entry):
                    continue
                last = entry.served.positions.get(member)
                if last is None or member in own.view.members or follows(own, last):
                    continue
                if last != own.view.vid and not is_excluded(own, member, last):
                    out[(uid, member)] = None
        return tuple(out)

    def lost_members(
        self, now: int, state: SetState, above: SetState | None
    ) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
        """For claims: groups without record on the whole way, and members without owner."""
        linked = bool(self.path_above(now, above))
        strays: dict[str, set[str]] = {}
        for uid, member in self._strays(now, state, linked):
            strays.setdefault(uid, set()).add(member)
        orphans = frozenset(self._orphans(now, state, linked))
        return orphans, {uid: frozenset(members) for uid, members in strays.items()}

    # -------------------------------------------------------------- ways down

    def next_hop(self, now: int, state: SetState, interface: str) -> tuple[Gid, str] | None:
        """Through whom messages for an interface go, and in which set: its home, or the parent of
        the child set."""
        entry = self.table.entry(now, state, interface)
        if entry is None:
            return None
        return (entry.teller, entry.child or self.name)

    def expire(self, now: int) -> None:
        self.desk.expire(now)
        self.grace.expire(now)
        self.sender.expire(now, 4 * self._times.grace_ns)
