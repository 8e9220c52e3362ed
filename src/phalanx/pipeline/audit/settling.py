"""How changes of membership end: precision, termination, bounded views. Asked of runs that have
settled, of members that live to the end. Components are told by the last topology rows; of the
names in them those count that a living member has. Where more processes say that they reach the
same names than there are names, they are apart and bear the same ones: then names do not tell who
reaches whom."""

from __future__ import annotations

from phalanx.pipeline.audit.chronicle import Chronicle, Fate, Install, Member
from phalanx.pipeline.audit.saying import Says

VIEWS_FREE, VIEWS_PER_MEMBER = 4, 2
"""So many views may follow the last disturbance, and so many more for each member that lives."""


def settling(run: Chronicle, says: Says) -> None:
    if not run.settled:
        return
    for member in run.living:
        if member.reach is not None and member.reach.component is not None:
            _precision(run, member, member.reach, member.reach.component, says)
            _bounded_views(run, member, says)
        _termination(member, says)
    if run.changes_max is not None:
        for member in run.known:
            _no_needless_views(member, run.changes_max, says)


def _precision(run: Chronicle, member: Member, told: Fate, reach: list[str], says: Says) -> None:
    name = "membership-precision"
    due = [m for m in run.living if m.node in reach and _reach(m) in (reach, None)]
    if len(due) > len(reach):
        return
    says.asked(name)
    shown = [(member, told.lseq), *[(member, row.lseq) for row in member.installs[-1:]]]
    namesake = next((m for m in due if m is not member and m.node == member.node), None)
    if namesake is not None:
        says.found(f"{name}/namesake", who=member, other=namesake, rows=shown[:1])
    if len({m.node for m in due}) < len(due):
        return  # who is meant by others cannot be known
    v = member.end
    here = run.views[v].inside if v is not None else frozenset()
    if here != {m.label for m in due}:
        note = f"{', '.join(sorted(here)) or 'nobody'}, "
        note += f"but could reach {', '.join(m.label for m in due)}"
        says.found(f"{name}/others", who=member, v=v, note=note, rows=shown)
        return
    for other in due:
        if other.k > member.k and other.end != v:
            says.found(f"{name}/apart", who=member, other=other, v=v, w=other.end, rows=shown)


def _reach(member: Member) -> list[str] | None:
    return None if member.reach is None else member.reach.component


def _bounded_views(run: Chronicle, member: Member, says: Says) -> None:
    says.asked("bounded-views")
    since = max(run.undisturbed_ns, run.changed_ns)
    bound = VIEWS_FREE + VIEWS_PER_MEMBER * len(run.living)
    late = [row for row in member.installs if row.sim_ns is not None and row.sim_ns > since]
    if len(late) > bound:
        note = f"{len(late)} views after the last disturbance, at {since}, over {bound}"
        _too_many("late", member, late[bound], note, says)


def _no_needless_views(member: Member, changes_max: int, says: Says) -> None:
    says.asked("bounded-views")
    count = len(member.installs)
    if count > changes_max + 1:
        note = f"{count} views, although nothing gave cause for more than {changes_max + 1}"
        _too_many("needless", member, member.installs[changes_max + 1], note, says)


def _too_many(way: str, member: Member, row: Install, note: str, says: Says) -> None:
    shown = [(member, row.lseq)]
    says.found(f"bounded-views/{way}", who=member, v=row.v, note=note, rows=shown)


def _termination(member: Member, says: Says) -> None:
    """A change begins with a step, and ends with FORGET or with an install, unless a join goes on
    through it: then the step before the install closed the view outside of IDLE."""
    name = "protocol-termination"
    begun: Fate | None = None
    through = False
    events: list[Fate | Install] = [*member.steps, *member.installs]
    for row in sorted(events, key=lambda row: row.lseq):
        if isinstance(row, Install):
            begun, through = (begun if through else None), False
        elif row.op == "FORGET":
            begun = None
        elif row.op == "CLOSED":
            through = row.stage != "IDLE"
        else:
            says.asked(name)
            begun = row
    if begun is not None:
        note = f"{begun.op} in {begun.context}"
        says.found(f"{name}/", who=member, note=note, rows=[(member, begun.lseq)])
