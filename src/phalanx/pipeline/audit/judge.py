"""Judge one group: every check, in one process, on the rows of the group.

`judge_group` is a pure function of a `GroupTables`. `audit_groups` judges any number of groups one
after the other; on Spark each task judges some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from phalanx.core.wire.shared_settings import SHARED
from phalanx.errors import PipelineError
from phalanx.pipeline.audit.causality import causality
from phalanx.pipeline.audit.chronicle import Chronicle
from phalanx.pipeline.audit.clock_jumps import clock_jumps
from phalanx.pipeline.audit.delivery_view import delivery_view, initial_view
from phalanx.pipeline.audit.group_findings import KEPT, GroupFindings, violation_of
from phalanx.pipeline.audit.integrity import integrity, no_duplication
from phalanx.pipeline.audit.large_group import PART_ROWS, RunTasks, judge_large
from phalanx.pipeline.audit.liveness import liveness
from phalanx.pipeline.audit.lost_receivers import lost_receivers
from phalanx.pipeline.audit.markers import markers
from phalanx.pipeline.audit.merges import merges
from phalanx.pipeline.audit.message_columns import GroupColumns
from phalanx.pipeline.audit.order import total_order
from phalanx.pipeline.audit.part_reader import GroupFiles
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.receipts import receipts
from phalanx.pipeline.audit.reports import reports
from phalanx.pipeline.audit.service.judge_service import is_service, judge_service
from phalanx.pipeline.audit.synchrony import marker_sides, safe_prefix, virtual_synchrony
from phalanx.pipeline.audit.verdicts import Audit, RunVerdicts, judged, overall
from phalanx.pipeline.audit.view_checks import view_checks
from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.segment_stats import JournalFacts
from phalanx.verify.properties import PROPERTIES
from phalanx.verify.service.service_properties import SERVICE_PROPERTIES

ALL_PROPERTIES = (*PROPERTIES, *SERVICE_PROPERTIES)
"""Those of groups, and those of the membership service."""
MESSAGE_CHECKS: tuple[Callable[[PreparedGroup], None], ...] = (
    integrity,
    no_duplication,
    delivery_view,
    initial_view,
    virtual_synchrony,
    marker_sides,
    safe_prefix,
    liveness,
    total_order,
    causality,
    receipts,
    lost_receivers,
    merges,
)


def wanted(properties: Sequence[str] | None) -> tuple[str, ...]:
    """The properties that are meant, in their order. PipelineError for an unknown name."""
    for name in properties or ():
        if name not in ALL_PROPERTIES:
            remedy = f"choose among {', '.join(ALL_PROPERTIES)}"
            raise PipelineError(f"property {name!r}", "there is no such property", remedy)
    return tuple(name for name in ALL_PROPERTIES if properties is None or name in properties)


def audit_groups(groups: Iterable[GroupTables], properties: Sequence[str] | None = None) -> Audit:
    """Judges all properties, or some, of each group, and overall. PipelineError for two journals
    of one life, or an unknown property."""
    names = wanted(properties)
    return summed([judge_group(group, names) for group in groups], names)


def summed(runs: Iterable[RunVerdicts], names: Sequence[str]) -> Audit:
    """The verdicts on some groups and services, and overall. A property is left out if none of
    them could have it."""
    ordered = tuple(sorted(runs, key=lambda run: (run.run, run.cluster, run.group)))
    properties = {}
    for name in names:
        having = [run for run in ordered if name in run.properties]
        if having or (not ordered and name in PROPERTIES):
            properties[name] = overall(name, having, KEPT)
    return Audit(properties, ordered)


def judge_group(tables: GroupTables, names: Sequence[str] = ALL_PROPERTIES) -> RunVerdicts:
    """The verdicts on one group, or one service, in one run."""
    refuse_second_journals(tables.key, tables.journals)
    if is_service(tables.key):
        return judge_service(tables, names)
    columns, out = GroupColumns(tables), GroupFindings()
    prepared = PreparedGroup(columns, out)
    for check in MESSAGE_CHECKS:
        check(prepared)
    found = _verdicts(columns.run, out, names)
    found.clocks.extend(clock_jumps(tables).values())
    return found


def judge_large_group(
    group: GroupFiles,
    run_tasks: RunTasks,
    names: Sequence[str] = PROPERTIES,
    part_rows: int = PART_ROWS,
) -> RunVerdicts:
    """The same of a group in files, in parts of bounded size."""
    refuse_second_journals(group.key, group.journals)
    run, out, clocks = judge_large(group, run_tasks, part_rows)
    found = _verdicts(run, out, names)
    found.clocks.extend(clocks)
    return found


def _verdicts(run: Chronicle, out: GroupFindings, names: Sequence[str]) -> RunVerdicts:
    checks_of_few_rows(run, out)
    return verdicts_of(run, out, names, _facts(run))


def checks_of_few_rows(run: Chronicle, out: GroupFindings) -> None:
    """The checks that need no messages."""
    view_checks(run, out)
    markers(run, out)
    reports(run, out)
    _counts(run, out)


def verdicts_of(
    run: Chronicle, out: GroupFindings, names: Sequence[str], found: RunVerdicts
) -> RunVerdicts:
    """Puts the verdicts on these properties into `found`, which has the facts."""
    for name in (name for name in names if name in PROPERTIES):
        examples = [violation_of(run, finding) for finding in out.examples(name)]
        examples.sort(
            key=lambda v: (v.sender or "", v.sender_incarnation or 0, v.first or 0, v.text)
        )
        result = judged(name, found, out.times[name], examples, out.violated(name))
        found.properties[name] = result
    return found


def refuse_second_journals(key: GroupKey, found: Sequence[JournalFacts]) -> None:
    """PipelineError for two journals of one life."""
    lives = Counter((journal.member, journal.incarnation) for journal in found)
    for (member, incarnation), journals in lives.items():
        if journals > 1:
            raise PipelineError(
                f"group {key.group!r}",
                f"a second journal of {member}.{incarnation}",
                "audit one at a time; an incarnation must never be used twice",
            )


def _facts(run: Chronicle) -> RunVerdicts:
    return facts_of_journals(run, set(run.views))


def facts_of_journals(run: Chronicle, views: Collection[int]) -> RunVerdicts:
    """What is known of the journals of a group, as far as members of these views are concerned."""
    one = run.journals[0]
    rows = [row for m in run.known for row in m.installs if row.v in views]
    named = {name for row in rows for name in row.inside}
    here = [m for m in run.known if m.label in named or len(views) == len(run.views)]
    found = RunVerdicts(
        cluster=one.cluster,
        run=one.run,
        group=one.group,
        settled=run.settled,
        mode=run.mode,
        members=tuple(m.label for m in here),
        absent=tuple(m.label for m in run.members if m.journal is None and m.label in named),
        torn=tuple(m.label for m in here if m.torn),
        unended=tuple(m.label for m in here if m.stop is None and not m.excerpt.goes_on),
        properties={},
        settings={},
        mixed=[],
        clocks=[],
    )
    _settings(run, found)
    return found


def _settings(run: Chronicle, found: RunVerdicts) -> None:
    """Settings that must be equal and are not, and the views whose members differ in one."""
    differing: list[list[list[str]]] = []
    for name in SHARED:
        values: dict[str, list[str]] = {}
        for journal in sorted(run.journals, key=lambda j: (j.member, j.incarnation)):
            if name in journal.shared:
                values.setdefault(journal.shared[name], []).append(journal.label)
        if len(values) > 1:
            differing.append(list(values.values()))
            found.settings[name] = {value: values[value] for value in sorted(values)}
    for view in run.views.values():
        if any(sum(not view.inside.isdisjoint(s) for s in having) > 1 for having in differing):
            found.mixed.append(view.view)


def _counts(run: Chronicle, out: GroupFindings) -> None:
    """How often properties are tested by the rows and routes of the group."""
    out.asked("no-duplication", sum(m.delivered for m in run.known))
    whole = [m for m in run.known if not m.torn]
    out.asked("receipt-truth", sum(some.rows for m in whole for some in m.receipts.values()))
    out.asked("not-sent-liveness", sum(m.lost for m in whole))
    out.asked("initial-view", sum(m.delivered + m.sent for m in whole))
    for route in run.routes:
        whole = [m for m in route.members if not m.torn]
        if route.w is not None and len(whole) > 1:
            out.asked("virtual-synchrony", len(whole))
        uses = [m.uses[route.v] for m in route.members if route.v in m.uses]
        out.asked("running-prefix", sum(use.ordered for use in uses))
        out.asked("toto-refinement", sum(use.batched for use in uses))
        if route.w is not None:
            size = sum(use.ordered > 0 for use in uses)
            out.asked("weak-total-order", size * (size - 1) // 2)
