"""Kernels for the views of members of groups. `verify.service.member_view_checks` states the
properties.

What happens to members is one list of steps, sorted by process, member, life and row: what a member
had when its process began, views that it got, and its end. Each step is compared with the one
before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from phalanx.pipeline.audit.service.service_columns import (
    Bools,
    LifeFacts,
    Longs,
    ServiceFrame,
    ServiceResults,
    ServiceViolation,
    codes,
    frame,
    numbers,
)
from phalanx.pipeline.audit.verdicts import VerdictRow
from phalanx.pipeline.group_tables import GroupTables

RESTORED, DELIVERED, ENDED = 0, 1, 2


class MemberSteps:
    """The steps of all members, in order, as columns."""

    def __init__(self, tables: GroupTables, lives: Sequence[LifeFacts]) -> None:
        held = frame(tables, "membership_held", lives)
        held = held.where(np.array([op == "RESTORED" for op in held.texts("op")], dtype=bool))
        delivered = frame(tables, "group_view_delivered", lives)
        ended = frame(tables, "membership_ended", lives)
        self.frames = (held, delivered, ended)
        self.lives = lives
        row_d, member_d = delivered.each("to")
        row_e, member_e = ended.each("to")
        index = (np.arange(len(held)), row_d, row_e)
        frame_of = np.repeat([RESTORED, DELIVERED, ENDED], [len(each) for each in index])
        row = np.concatenate(index).astype(np.int64)
        members = [*held.texts("group_member"), *member_d, *member_e]
        vids = [
            *held.texts("vid"),
            *(delivered.texts("vid")[i] for i in row_d.tolist()),
            *([""] * len(row_e)),
        ]
        parts = [*([""] * len(held)), *delivered.each("to_parts")[1], *([""] * len(row_e))]
        previous = delivered.texts("previous")
        named = [*([""] * len(held)), *(previous[i] for i in row_d.tolist()), *([""] * len(row_e))]
        over = [*(bool(x) for x in held.longs("over")), *([False] * len(row_d))]
        over += [True] * len(row_e)
        life = np.concatenate([f.life[i] for f, i in zip(self.frames, index, strict=True)])
        lseq = np.concatenate([f.lseq[i] for f, i in zip(self.frames, index, strict=True)])
        processes = [lives[i].process for i in life.tolist()]
        chain = codes(processes, members)
        order = np.lexsort((np.arange(len(row)), lseq, life, chain))
        at = order.tolist()
        self.kind, self.row = frame_of[order], row[order]
        self.life, self.chain = life[order], chain[order]
        self.members = [members[i] for i in at]
        self.vids = _carried([vids[i] for i in at], self.kind, self.chain)
        self.parts, self.named = [parts[i] for i in at], [named[i] for i in at]
        self.over = np.array([over[i] for i in at], dtype=bool)

    def __len__(self) -> int:
        return len(self.members)

    def place(self, i: int) -> VerdictRow:
        return self.frames[int(self.kind[i])].place(int(self.row[i]))

    @property
    def begins(self) -> Bools:
        """Whether a step is the first of its member."""
        found: Bools = np.r_[True, self.chain[1:] != self.chain[:-1]][: len(self)]
        return found


def _carried(vids: list[str], kind: Longs, chain: Longs) -> list[str]:
    """The end of a membership leaves the last view as it is."""
    out = list(vids)
    for i in np.flatnonzero(kind == ENDED).tolist():
        out[i] = out[i - 1] if i and chain[i] == chain[i - 1] else ""
    return out


def check_views(tables: GroupTables, lives: Sequence[LifeFacts], out: ServiceResults) -> None:
    steps = MemberSteps(tables, lives)
    view_chain(steps, out)
    view_numbers(steps, out)
    delivered = frame(tables, "group_view_delivered", lives)
    agreement(delivered, out)
    origin(delivered, frame(tables, "group_view_installed", lives), _all_here(tables, lives), out)
    single_service(frame(tables, "group_served", lives), out)


def view_chain(steps: MemberSteps, out: ServiceResults) -> None:
    delivered = int((steps.kind == DELIVERED).sum())
    out.add("view-chain", delivered, _broken_chains(steps))


def _broken_chains(steps: MemberSteps) -> Iterator[ServiceViolation]:
    lives = steps.lives
    begins = steps.begins.tolist()
    number = numbers(steps.vids)
    for i in range(len(steps)):
        before = None if begins[i] else i - 1
        last = steps.vids[before] if before is not None else ""
        over = before is not None and bool(steps.over[before])
        life, who = lives[int(steps.life[i])], steps.members[i]
        problem = ""
        if steps.kind[i] == DELIVERED:
            if over:
                problem = f"{who} gets {steps.vids[i]} after its end"
            elif steps.parts[i] != steps.named[i] or (last != steps.parts[i] and not life.torn):
                problem = (
                    f"{who} has {last or 'no view'} and gets {steps.vids[i]}, which comes from "
                    f"{steps.parts[i]}"
                )
        elif steps.kind[i] == ENDED and over:
            problem = f"{who} is told of its end again"
        elif steps.kind[i] == RESTORED and before is not None:
            low = number[i] < number[before] or (over and not steps.over[i])
            other = _sure_until(lives, life) and steps.vids[i] != last
            if low or other:
                problem = f"{who} has {steps.vids[i] or 'nothing'} after a restart, and had {last}"
        if problem:
            shown = [steps.place(i)] if before is None else [steps.place(before), steps.place(i)]
            yield ServiceViolation("view-chain", problem, tuple(shown))
        following = i + 1 if i + 1 < len(steps) and not begins[i + 1] else None
        if _is_forgotten(steps, i, following):
            text = f"{who} is forgotten after a restart: it had {steps.vids[i]}"
            yield ServiceViolation("view-chain", text, (steps.place(i),))


def _lives_after(lives: Sequence[LifeFacts], life: LifeFacts) -> list[LifeFacts]:
    return [each for each in lives[life.order + 1 :] if each.process == life.process]


def _sure_until(lives: Sequence[LifeFacts], life: LifeFacts) -> bool:
    """No row of the lives before can be missing."""
    before = [each for each in lives[: life.order] if each.process == life.process]
    return all(each.complete and not each.torn for each in before)


def _is_forgotten(steps: MemberSteps, i: int, following: int | None) -> bool:
    """A live member that its process does not have in its next life."""
    if not steps.vids[i] or steps.over[i]:
        return False
    after = _lives_after(steps.lives, steps.lives[int(steps.life[i])])
    if not after or after[0].torn:
        return False
    if following is None:
        return True
    same = steps.life[following] == steps.life[i]
    held = steps.life[following] == after[0].order and steps.kind[following] == RESTORED
    return not (same or held)


def view_numbers(steps: MemberSteps, out: ServiceResults) -> None:
    number = numbers(steps.vids)
    before = np.r_[-1, number[:-1]][: len(number)]
    asked = (steps.kind == DELIVERED) & ~steps.begins & (before >= 0)
    bad = asked & (number <= before)

    def found() -> Iterator[ServiceViolation]:
        for i in np.flatnonzero(bad).tolist():
            text = f"{steps.members[i]} gets {steps.vids[i]} after {steps.vids[i - 1]}"
            yield ServiceViolation("view-numbers", text, (steps.place(i - 1), steps.place(i)))

    out.add("view-numbers", int(asked.sum()), found())


def agreement(delivered: ServiceFrame, out: ServiceResults) -> None:
    """Only views that members left for different views are looked at in pairs."""
    previous, uids, vids = (delivered.texts(name) for name in ("previous", "uid", "vid"))
    place, vid = codes(uids, previous), codes(vids)
    has = np.array([bool(text) for text in previous], dtype=bool)
    members = [set(text.split("\n")) for text in delivered.joined("members")]
    to = [set(text.split("\n")) for text in delivered.joined("to")]
    sizes = np.bincount(place[has], minlength=1)

    def found() -> Iterator[ServiceViolation]:
        for each in np.unique(place[has]).tolist():
            here = np.flatnonzero(has & (place == each))
            if len(np.unique(vid[here])) < 2:
                continue
            for a, b in combinations(here.tolist(), 2):
                if vid[a] != vid[b] and to[a] & members[b] and to[b] & members[a]:
                    one, other = min(to[a] & members[b]), min(to[b] & members[a])
                    text = (
                        f"from {previous[a]} of {uids[a]} {one} goes to {vids[a]}, "
                        f"{other} to {vids[b]}"
                    )
                    places = (delivered.place(a), delivered.place(b))
                    yield ServiceViolation("group-view-agreement", text, places)

    out.add("group-view-agreement", int((sizes - 1).clip(0).sum()), found())


def origin(
    delivered: ServiceFrame, installed: ServiceFrame, all_here: bool, out: ServiceResults
) -> None:
    """All rows about one view have the same members; one of a set is among them, if all are
    here."""
    n = len(installed)
    frames = (installed, delivered)
    uids = [*installed.texts("uid"), *delivered.texts("uid")]
    vids = [*installed.texts("vid"), *delivered.texts("vid")]
    view = codes(uids, vids)
    content = codes([*installed.joined("members"), *delivered.joined("members")])
    made = np.full(int(view.max()) + 1 if len(view) else 1, -1, dtype=np.int64)
    made[view[:n][::-1]] = np.arange(n)[::-1]
    source = made[view]
    none = source < 0
    differs = ~none & (content != content[np.where(none, 0, source)])
    bad = differs | (none & all_here)

    def found() -> Iterator[ServiceViolation]:
        for i in np.flatnonzero(bad).tolist():
            shown = [frames[int(i >= n)].place(i - n if i >= n else i)]
            text = f"no set made {vids[i]} of {uids[i]}, which members get"
            if not none[i]:
                shown.insert(0, installed.place(int(source[i])))
                text = f"{vids[i]} of {uids[i]} has other members elsewhere"
            yield ServiceViolation("view-origin", text, tuple(shown))

    out.add("view-origin", len(delivered), found())


def _all_here(tables: GroupTables, lives: Sequence[LifeFacts]) -> bool:
    servers = [life for life in lives if life.is_server]
    whole = all(life.complete and not life.torn for life in servers)
    return whole and not absent_of(tables, lives)


def absent_of(tables: GroupTables, lives: Sequence[LifeFacts]) -> list[str]:
    """Servers and interfaces that rows name and that have no journal."""
    named: set[str] = set()
    for name in ("set_state_held", "set_state_applied"):
        named.update(frame(tables, name, lives).each("members")[1])
    members = frame(tables, "group_view_installed", lives).each("members")[1]
    interfaces = {member.rpartition("/")[0] for member in members}
    servers = named - {life.process for life in lives}
    return [*sorted(servers), *sorted(interfaces - {life.host for life in lives})]


def single_service(served: ServiceFrame, out: ServiceResults) -> None:
    time = served.longs("sim_ns")
    rows = np.flatnonzero(time >= 0)
    uids, sets = served.texts("uid"), served.texts("set")
    instant = codes(uids, time)
    server = codes(sets, served.life)
    members = [set(text.split("\n")) for text in served.joined("members")]

    def found() -> Iterator[ServiceViolation]:
        sizes = np.bincount(instant[rows], minlength=1)
        for each in np.flatnonzero(sizes > 1).tolist():
            here = [i for i in rows.tolist() if instant[i] == each]
            for a, b in combinations(here, 2):
                both = sorted(members[a] & members[b])
                if server[a] != server[b] and both:
                    text = f"{sets[a]} and {sets[b]} own {uids[a]} and serve {', '.join(both)}"
                    places = (served.place(a), served.place(b))
                    yield ServiceViolation("single-service", text, places)

    out.add("single-service", len(rows), found())
