"""Properties of the service at rest: judged on the last rows of a run that has settled.

one-owner        A group has one owner, and that set spans all its members.
one-name         The name of a live group is registered in its scope, once.
view-precision   Every member of the view of a live group has it, and every member that believes in
                 a view is in the one that a set owns.
joinable-groups  Joins that were called at rest have succeeded, and splits by creators of groups.
subgroup-inclusion  Every live member of a subgroup has its member in the parent group.
service-rest     Each set has one state, of all configured servers that have not left for good, with
                 the configured parents or those that act for one that has left; no change,
                 hand-over, pin, call or search for a home is left.

What is at rest is what hosts held that were up at the end. Hosts without a journal are not judged:
evidence that is missing is accounted for elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from phalanx.journal import service_schema as rows
from phalanx.journal.schema import Event
from phalanx.verify.service.service_trace import (
    ProcessLife,
    ServiceFindings,
    ServiceTrace,
    number_of,
)


@dataclass(slots=True)
class RestState:
    """The last rows of all hosts that were up."""

    sets: dict[str, list[rows.SetStateHeld]] = field(default_factory=dict)
    """For each set the last states of its servers."""
    asking: list[rows.SetEntryAsked] = field(default_factory=list)
    records: list[rows.GroupRecordHeld] = field(default_factory=list)
    """What the last state of each set holds of groups."""
    memberships: dict[str, rows.MembershipHeld] = field(default_factory=dict)
    homes: list[rows.HomeTaken] = field(default_factory=list)
    hosts_up: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    """Servers that have left all their sets, and ended."""
    configured: dict[str, rows.SetConfigured] = field(default_factory=dict)

    def owners(self) -> dict[str, list[rows.GroupRecordHeld]]:
        found: defaultdict[str, list[rows.GroupRecordHeld]] = defaultdict(list)
        for record in self.records:
            if record.own is not None:
                found[record.uid].append(record)
        return dict(sorted(found.items()))

    def path(self, interface: str) -> list[str]:
        """The sets from an interface to the top."""
        at = next(
            (s.set for s in self.configured.values() if s.level == 1 and interface in s.interfaces),
            None,
        )
        out: list[str] = []
        while at is not None and at not in out:
            out.append(at)
            at = self.configured[at].above if at in self.configured else None
        return out

    def parent_of(self, name: str) -> str | None:
        """The parent that a set should have: the configured one, or one that acts for it."""
        parent, last = self.configured[name].parent, self.last(name)
        if parent in self.gone and last is not None and last.parent is not None:
            return last.parent.rpartition(".")[0]
        return parent

    def last(self, name: str) -> rows.SetStateHeld | None:
        """The latest state of a set."""
        return max(self.sets.get(name, ()), key=_newness, default=None)


def check_rest(trace: ServiceTrace, undisturbed_ns: int, out: ServiceFindings) -> None:
    """Of a run that has settled, undisturbed since `undisturbed_ns` of the simulator's clock."""
    state = _rest_state(trace)
    for owners in state.owners().values():
        _one_owner(state, owners, out)
        for record in owners:
            if record.ended is None:
                _one_name(state, record, out)
                _members_hold(state, record, out)
    _holders_are_members(state, out)
    _subgroups(state, out)
    _joins(trace, state, undisturbed_ns, out)
    _sets(state, out)
    _leftovers(trace, state, out)


def _rest_state(trace: ServiceTrace) -> RestState:
    state = RestState(configured=trace.configured())
    state.hosts = {life.host for life in trace.lives}
    held: list[rows.GroupRecordHeld] = []
    for life in trace.last_lives():
        if not life.up:
            if _has_left(life):
                state.gone.add(life.host)
            continue
        state.hosts_up.add(life.host)
        for row in life.rows:
            if isinstance(row, rows.SetStateHeld) and row.op == "LAST":
                state.sets.setdefault(row.set, []).append(row)
            elif isinstance(row, rows.SetEntryAsked):
                state.asking.append(row)
            elif isinstance(row, rows.GroupRecordHeld):
                held.append(row)
            elif isinstance(row, rows.MembershipHeld) and row.op == "LAST":
                state.memberships[row.group_member] = row
            elif isinstance(row, rows.HomeTaken) and row.op == "LAST":
                state.homes.append(row)
    for name in sorted(state.sets):
        last = state.last(name)
        assert last is not None
        mine = (last.member, last.incarnation)
        state.records += [r for r in held if r.set == name and (r.member, r.incarnation) == mine]
    return state


def _has_left(life: ProcessLife) -> bool:
    """The last row about each set says that the server left it."""
    left: dict[str, bool] = {}
    for row in life.rows:
        if isinstance(row, rows.SetStateHeld | rows.SetStateApplied | rows.SetLeft):
            left[row.set] = isinstance(row, rows.SetLeft)
    return bool(left) and all(left.values())


def _newness(row: rows.SetStateHeld) -> tuple[int, str, str]:
    return number_of(row.vid), row.vid, row.member


def _one_owner(state: RestState, owners: list[rows.GroupRecordHeld], out: ServiceFindings) -> None:
    out.evaluated("one-owner")
    uid = owners[0].uid
    if len(owners) > 1:
        text = f"owners of {uid}: {', '.join(record.set for record in owners)}"
        out.violated("one-owner", text, owners)
    for record in owners:
        if record.ended is None:
            for member in record.members:
                path = state.path(_interface_of(member))
                if path and record.set not in path:
                    text = f"{member} of {uid} is outside of {record.set}, which owns it"
                    out.violated("one-owner", text, [record])


def _one_name(state: RestState, record: rows.GroupRecordHeld, out: ServiceFindings) -> None:
    scope = state.last(record.scope)
    if scope is None:
        return
    out.evaluated("one-name")
    names = [n for n, uid in zip(scope.names, scope.name_uids, strict=True) if uid == record.uid]
    if len(names) != 1:
        text = f"{record.uid} has the names {names} in {record.scope}"
        out.violated("one-name", text, [record, scope])


def _members_hold(state: RestState, record: rows.GroupRecordHeld, out: ServiceFindings) -> None:
    for member in record.members:
        if _interface_of(member) not in state.hosts:
            continue
        out.evaluated("view-precision")
        held = state.memberships.get(member)
        if held is None or held.over or held.vid != record.own:
            has = "nothing" if held is None else held.vid
            over = " (over)" if held is not None and held.over else ""
            text = f"{member} is in {record.own} of {record.uid} at {record.set}, has {has}{over}"
            out.violated("view-precision", text, [record] if held is None else [record, held])


def _holders_are_members(state: RestState, out: ServiceFindings) -> None:
    owners = state.owners()
    for member, held in sorted(state.memberships.items()):
        if held.over or held.vid is None:
            continue
        out.evaluated("view-precision")
        live = [record for record in owners.get(held.uid, []) if record.ended is None]
        if not any(member in record.members for record in live):
            text = f"{member} believes in {held.vid} of {held.uid}, and no owner does"
            out.violated("view-precision", text, [held])


def _subgroups(state: RestState, out: ServiceFindings) -> None:
    for member, held in sorted(state.memberships.items()):
        if held.over or held.vid is None or not held.parent_member:
            continue
        out.evaluated("subgroup-inclusion")
        parent = state.memberships.get(held.parent_member)
        if parent is None or parent.over:
            text = f"{member} of {held.uid} has lost {held.parent_member} in the parent group"
            found = [held] if parent is None else [held, parent]
            out.violated("subgroup-inclusion", text, found)


def _joins(
    trace: ServiceTrace, state: RestState, undisturbed_ns: int, out: ServiceFindings
) -> None:
    made: dict[str, rows.CallMade] = {}
    for life in trace.lives:
        for row in life.rows:
            if isinstance(row, rows.CallMade):
                if row.kind in ("join", "split") and (row.sim_ns or 0) >= undisturbed_ns:
                    made.setdefault(row.call, row)
            elif isinstance(row, rows.CallFinished) and row.call in made:
                call = made[row.call]
                if not _is_registered(state, call):
                    continue
                out.evaluated("joinable-groups")
                if row.error:
                    text = f"{call.kind} of {call.name} at {call.member}: {row.error}"
                    out.violated("joinable-groups", text, [call, row])


def _is_registered(state: RestState, call: rows.CallMade) -> bool:
    states = (state.last(name) for name in state.path(call.member))
    known = (found for found in states if found is not None)
    return any(call.name in (*found.names, *found.name_uids) for found in known)


def _sets(state: RestState, out: ServiceFindings) -> None:
    for asked in state.asking:
        out.violated("service-rest", f"{asked.member} waits to enter {asked.set}", [asked])
    for name, plan in sorted(state.configured.items()):
        held = state.sets.get(name, [])
        if not held:
            continue
        out.evaluated("service-rest")
        for row in held:
            if row.busy:
                out.violated("service-rest", f"{row.member} is busy in {name}", [row])
        first = held[0]
        apart = [row for row in held if row.vid != first.vid]
        if apart:
            text = f"{name} has {len({row.vid for row in held})} states"
            out.violated("service-rest", text, [first, apart[0]])
        for row in held:
            _as_configured(state, row, plan, out)
            _children(state, row, out)


def _as_configured(
    state: RestState, row: rows.SetStateHeld, plan: rows.SetConfigured, out: ServiceFindings
) -> None:
    there = sorted(server.rpartition(".")[0] for server in row.members)
    children = [c for c, other in state.configured.items() if other.above == row.set]
    wanted = set(plan.servers) - state.gone
    wanted.update(parent for parent in map(state.parent_of, children) if parent is not None)
    if there != sorted(wanted):
        text = f"{row.set} has {', '.join(there)}, and not {', '.join(sorted(wanted))}"
        out.violated("service-rest", text, [row])
    parent = row.parent.rpartition(".")[0] if row.parent is not None else None
    if parent != state.parent_of(row.set):
        out.violated("service-rest", f"the parent of {row.set} is {row.parent}", [row])


def _children(state: RestState, row: rows.SetStateHeld, out: ServiceFindings) -> None:
    for child, plan in sorted(state.configured.items()):
        if plan.above != row.set:
            continue
        kids = zip(row.kids, row.kid_servers, strict=True)
        parents = [server.rpartition(".")[0] for kid, server in kids if kid == child]
        if parents != [state.parent_of(child)]:
            text = f"the parents of {child} in {row.set} are {', '.join(parents) or 'nobody'}"
            out.violated("service-rest", text, [row])


def _leftovers(trace: ServiceTrace, state: RestState, out: ServiceFindings) -> None:
    for record in state.records:
        out.evaluated("service-rest")
        if record.moves:
            text = f"{record.uid} is on its way from {record.set} to {record.move_targets[0]}"
            out.violated("service-rest", text, [record])
        if record.pin is not None and record.ended is None:
            text = f"{record.uid} is pinned in {record.set} by {record.pin}"
            out.violated("service-rest", text, [record])
    for home in state.homes:
        out.evaluated("service-rest")
        if not home.path:
            out.violated("service-rest", f"{home.member} has no home", [home])
    open_: dict[str, Event] = {}
    for life in trace.lives:
        for row in life.rows:
            if isinstance(row, rows.CallMade):
                open_[row.call] = row
            elif isinstance(row, rows.CallFinished):
                open_.pop(row.call, None)
    for call, row in sorted(open_.items()):
        if row.member in state.hosts_up:
            out.violated("service-rest", f"call {call} at {row.member} has no answer", [row])


def _interface_of(member: str) -> str:
    return member.rpartition("/")[0]
