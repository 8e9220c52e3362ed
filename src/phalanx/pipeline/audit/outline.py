"""One run in outline: the rows that its chronicle gives to the small tables (see `small`).

No Spark in here: a worker does this for one run after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from phalanx.core.wire.shared_settings import SHARED
from phalanx.pipeline.audit.chronicle import LAST, Chronicle, MemberRecord
from phalanx.pipeline.audit.finding_text import Says
from phalanx.pipeline.audit.markers import markers
from phalanx.pipeline.audit.reports import promises, proposals, reports
from phalanx.pipeline.audit.view_checks import view_checks


def tables_of(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of the small tables of one run."""
    one = run.journals[0] if run.journals else None
    if one is None:
        return
    yield (
        "runs",
        {
            "cluster": one.cluster,
            "run": one.run,
            "group": one.group,
            "settled": run.settled,
            "mode": run.mode,
            "senders": len(run.members),
            "size": sum(m.delivered for m in run.known),
            "ranks": [(m.label, m.k) for m in run.members],
        },
    )
    yield from _settings(run)
    yield from _people(run)
    yield from _stays(run)
    for v, view in run.vids.items():
        yield "vids", {"v": v, "view": view}
    yield from _ways(run)
    yield from _views(run)
    yield from _owed(run)
    yield from _sets(run)
    says = Says()
    view_checks(run, says)
    markers(run, says)
    reports(run, says)
    yield from _promises(run, says)
    yield from _merges(run, says)
    _counts(run, says)
    for name, times in says.times.items():
        yield "said", {"property": name, "checked": times}
    for found in says.findings:
        yield "said", found


def _settings(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Settings that must be equal and are not, and the views whose members differ in one."""
    differing: list[list[list[str]]] = []
    for name in SHARED:
        values: defaultdict[str, list[str]] = defaultdict(list)
        for journal in sorted(
            run.journals, key=lambda journal: (journal.member, journal.incarnation)
        ):
            if name in journal.shared:
                values[journal.shared[name]].append(journal.label)
        if len(values) > 1:
            differing.append(list(values.values()))
            for value in sorted(values):
                yield "settings", {"name": name, "value": value, "members": values[value]}
    for view in run.views.values():
        if any(sum(not view.inside.isdisjoint(s) for s in having) > 1 for having in differing):
            yield "mixed", {"view": view.view}


def _people(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    named = {name for view in run.views.values() for name in view.inside}
    lives = [(journal.member, journal.incarnation) for journal in run.journals]
    for m in run.members:
        known = m.journal is not None
        yield (
            "people",
            {
                "k": m.k,
                "member": m.member,
                "incarnation": m.incarnation,
                "label": m.label,
                "bank": m.bank,
                "bit": m.bit,
                "journal": m.journal.journal if m.journal else None,
                "torn": m.torn,
                "stopped": m.stop is not None,
                "alive": known and run.alive(m),
                "whole": run.whole(m),
                "settled": run.settled,
                "mode": run.mode,
                "sent_last": m.sent_last,
                "tells": m.tells,
                "last_step": None if run.whole(m) else m.last_step,
                "named": m.label in named,
                "twice": lives.count((m.member, m.incarnation)) > 1,
                "all_spells": [{"v": v, "spell": spell} for v, spell in _spells(m)],
            },
        )
        here = [
            {"lseq": row.lseq, "step": row.step, "here": sorted(run.views[row.v].inside)}
            for row in m.installs
        ]
        if known:
            yield "lived", {"s": m.k, "lived": here}


def _spells(m: MemberRecord) -> Iterator[tuple[int, dict[str, int | None]]]:
    ends = [row.lseq for row in m.installs[1:]] + [LAST]
    for row, until in zip(m.installs, ends, strict=False):
        mark = next((at for at in m.marks if row.lseq < at < until), None)
        yield row.v, {"begin": row.lseq, "until": until, "mark": mark}


def _stays(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    compared = {(m.k, route.v) for route in run.routes for m in route.members}
    for m in run.known:
        spells: defaultdict[int, list[Any]] = defaultdict(list)
        for v, spell in _spells(m):
            spells[v].append(spell)
        for v in dict.fromkeys([*spells, *m.markers, *m.uses]):
            marker, at = m.markers.get(v), m.next.get(v)
            step = next((row.step for row in m.installs if row.v == v), None)
            yield (
                "stays",
                {
                    "k": m.k,
                    "v": v,
                    "spells": spells.get(v, []),
                    "ended": step is not None and run.step_ended(m, step),
                    "marker_lseq": marker.lseq if marker else None,
                    "marker_pos": marker.pos if marker else None,
                    "next": None if at is None else m.installs[at].v,
                    "compared": (m.k, v) in compared,
                },
            )


def _masks(members: Iterable[MemberRecord]) -> dict[int, int]:
    masks: defaultdict[int, int] = defaultdict(int)
    for m in members:
        masks[m.bank] |= m.bit
    return masks


def _ways(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    """`together`: whole journals that moved on, if there are at least two; `ordered`: whole
    journals with ordered messages in the view."""
    for route in run.routes:
        whole = [m for m in route.members if not m.torn]
        climbers = [m for m in whole if route.v in m.uses and m.uses[route.v].ordered]
        moved = whole if route.w is not None and len(whole) > 1 else []
        along, together, ordered = _masks(route.members), _masks(moved), _masks(climbers)
        where = {"v": route.v, "w": route.w}
        for bank, mask in along.items():
            yield (
                "ways",
                where
                | {"bank": bank, "along": mask}
                | {"together": together.get(bank, 0), "ordered": ordered.get(bank, 0)},
            )
        for m in climbers:
            highest = m.uses[route.v].highest
            yield "climbs", where | {"bank": m.bank, "bit": m.bit, "k": m.k, "highest": highest}


def _views(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    """`duty`: who must deliver in a view what is safe in it; `absent`: who is in it without ever
    having installed it, though all that it did is known."""
    installed: defaultdict[int, list[MemberRecord]] = defaultdict(list)
    for m in run.known:
        for v in m.installed:
            installed[v].append(m)
    for view in run.views.values():
        inside = [m for m in run.known if m.label in view.inside and not m.torn]
        there = installed[view.v]
        absent = [m for m in inside if m not in there and run.whole(m)]
        duty = [
            m
            for m in inside
            if m in there and (view.v in m.next or (m in run.living and m.end == view.v))
        ]
        masks = [_masks(who) for who in (there, duty, absent)]
        named = sorted(view.inside)
        ranks = [run.by_label[name].k for name in named]
        for bank in _banks(run):
            i, d, a = (mask.get(bank, 0) for mask in masks)
            facts = {"v": view.v, "bank": bank, "inside": named, "ranks": ranks}
            yield "views", facts | {"installed": i, "duty": d, "absent": a}


def _banks(run: Chronicle) -> range:
    return range(1 + max((m.bank for m in run.members), default=0))


def _owed(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is owed to the messages of a sender in a view. `closed`: it left the view. In the one
    that a living sender ended in: all that have a whole journal, and those of them that live,
    ended in the view too and can be reached."""
    for s in run.known:
        lasting = s in run.living and s.end is not None
        every, near = _due(run, s) if lasting else ({}, {})
        for home in {*s.next, *([s.end] if lasting else [])}:
            last = lasting and home == s.end
            for bank in _banks(run):
                facts = {"s": s.k, "bank": bank, "home": home}
                facts["closed"] = home in s.next and not s.torn
                facts["all"] = every.get(bank, 0) if last else 0
                yield "owed", facts | {"live": near.get(bank, 0) if last else 0}


def _due(run: Chronicle, s: MemberRecord) -> tuple[dict[int, int], dict[int, int]]:
    assert s.end is not None
    view = run.views[s.end]
    inside = [m for m in run.known if m.label in view.inside and not m.torn]
    reach = None if s.reach is None else s.reach.component
    live = [
        m
        for m in inside
        if m in run.living and m.end == s.end and (reach is None or m.member in reach)
    ]
    return _masks(inside), _masks(live)


def _sets(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    for found in run.receivers:
        meant = [m for m in run.known if found.means(m)]
        facts = {"t": found.t, "bare": found.to_incarnations is None, "names": found.names}
        yield "sets", facts | {"ks": [m.k for m in meant], "masks": list(_masks(meant).items())}


def _promises(run: Chronicle, says: Says) -> Iterator[tuple[str, dict[str, Any]]]:
    for s, closing, promised in promises(run, says):
        masks = _masks(promised)
        for bank in _banks(run):
            facts = {"s": s.k, "lseq": closing.lseq, "bank": bank}
            yield "closing", facts | {"promised": masks.get(bank, 0)}


def _merges(run: Chronicle, says: Says) -> Iterator[tuple[str, dict[str, Any]]]:
    for by, side, came in proposals(run, says):
        said = [
            (run.by_label[sender].k, upto)
            for sender, upto in dict(zip(side.delivered, side.delivered_upto, strict=True)).items()
        ]
        report = {"by": by.k, "side": side.lseq}
        complete = all(proposal is not None for _, proposal in came)
        facts = {"v": side.v, "w": side.w, "complete": complete, "said": said}
        yield "sides", report | facts
        for m, proposal in came:
            if m is not None and proposal is not None:
                yield "proposed", report | {"k": m.k, "proposal": proposal.lseq}


def _counts(run: Chronicle, says: Says) -> None:
    """How often is asked what Spark asks of rows and routes."""
    says.asked("no-duplication", sum(m.delivered for m in run.known))
    whole = [m for m in run.known if not m.torn]
    says.asked("receipt-truth", sum(some.rows for m in whole for some in m.receipts.values()))
    says.asked("not-sent-liveness", sum(m.lost for m in whole))
    says.asked("initial-view", sum(m.delivered + m.sent for m in run.known if not m.torn))
    for route in run.routes:
        whole = [m for m in route.members if not m.torn]
        if route.w is not None and len(whole) > 1:
            says.asked("virtual-synchrony", len(whole))
        uses = [m.uses[route.v] for m in route.members if route.v in m.uses]
        says.asked("running-prefix", sum(use.ordered for use in uses))
        says.asked("toto-refinement", sum(use.batched for use in uses))
        if route.w is not None:
            size = sum(use.ordered > 0 for use in uses)
            says.asked("weak-total-order", size * (size - 1) // 2)
