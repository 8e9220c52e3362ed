"""Judge the journals of one service in one run, and say what is known of them."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.journal.service_schema import SERVICE_GROUP
from phalanx.pipeline.audit.service.rest_kernels import check_at_rest
from phalanx.pipeline.audit.service.service_columns import (
    LifeFacts,
    ServiceResults,
    ServiceViolation,
    lives_of,
)
from phalanx.pipeline.audit.service.set_kernels import check_sets
from phalanx.pipeline.audit.service.view_kernels import absent_of, check_views
from phalanx.pipeline.audit.verdicts import AuditViolation, Result, RunVerdicts
from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.verify.service.service_properties import (
    SERVICE_PROPERTIES,
    missing_service_evidence,
)


def is_service(key: GroupKey) -> bool:
    """Whether these are the journals of a service."""
    return key.group == SERVICE_GROUP


def judge_service(tables: GroupTables, names: Sequence[str] = SERVICE_PROPERTIES) -> RunVerdicts:
    """The verdicts on one service in one run."""
    lives = lives_of(tables)
    out = ServiceResults()
    found = _facts(tables, lives)
    check_sets(tables, lives, found.settled, out)
    check_views(tables, lives, out)
    if found.settled:
        check_at_rest(tables, lives, tables.journals[0].undisturbed_ns, out)
    for name in SERVICE_PROPERTIES:
        if name in names:
            found.properties[name] = _result(name, found, out)
    return found


def _facts(tables: GroupTables, lives: Sequence[LifeFacts]) -> RunVerdicts:
    absent = absent_of(tables, lives)
    torn = tuple(life.label for life in lives if life.torn)
    truths = {(journal.settled, journal.undisturbed_ns) for journal in tables.journals}
    whole = not absent and not torn and all(life.complete for life in lives)
    return RunVerdicts(
        cluster=tables.key.cluster,
        run=tables.key.run,
        group=tables.key.group,
        settled=whole and len(truths) == 1 and bool(tables.journals[0].settled),
        mode=None,
        members=tuple(life.label for life in lives),
        absent=tuple(absent),
        torn=torn,
        unended=tuple(life.label for life in lives if not life.complete),
        properties={},
    )


def _result(name: str, facts: RunVerdicts, out: ServiceResults) -> Result:
    checked = out.times[name]
    if out.found[name]:
        examples = tuple(_violation(facts, each) for each in out.kept[name])
        return Result("violated", checked, out.found[name], counterexamples=examples)
    why = missing_service_evidence(
        name, settled=facts.settled, absent=facts.absent, torn=facts.torn, checked=checked
    )
    return Result("unverifiable" if why else "holds", checked, why=why)


def _violation(facts: RunVerdicts, found: ServiceViolation) -> AuditViolation:
    return AuditViolation(
        property=found.property,
        cluster=facts.cluster,
        run=facts.run,
        group=facts.group,
        members=tuple(dict.fromkeys(row.member for row in found.rows)),
        view=None,
        sender=None,
        sender_incarnation=None,
        first=None,
        last=None,
        text=found.text,
        rows=found.rows,
    )
