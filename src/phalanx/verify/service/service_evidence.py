"""Verdicts on the journals of a service: run the checkers, and account for missing evidence.

As `verify.evidence` does for groups: a missing row is held against nobody, and what a simulator
alone knows, that the service has come to rest, is judged where the headers of all journals say so.
A process that rows name without a journal is *absent*. Restarts of one process are several
journals, each of one life.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from phalanx.errors import JournalError
from phalanx.journal.ground_truth import GroundTruth, truth_of
from phalanx.journal.reader import Reading
from phalanx.journal.schema import Event, Life
from phalanx.journal.segment import Header
from phalanx.journal.service_schema import SERVICE_GROUP
from phalanx.verify.checkers.findings import Report
from phalanx.verify.evidence import Judgement
from phalanx.verify.service.member_view_checks import check_member_views
from phalanx.verify.service.rest_checks import check_rest
from phalanx.verify.service.service_properties import missing_service_evidence
from phalanx.verify.service.service_trace import ServiceFindings, ServiceTrace, trace_of
from phalanx.verify.service.set_log_checks import check_set_logs

Life_ = tuple[str, int]


@dataclass(slots=True)
class ServiceEvidence:
    """The journals of one service in one run, and the results of the checkers."""

    cluster: str
    run: str
    journals: dict[Life_, list[Event]] = field(default_factory=dict)
    headers: dict[Life_, Header] = field(default_factory=dict)
    truth: GroundTruth = field(default_factory=GroundTruth)
    trace: ServiceTrace = field(default_factory=lambda: ServiceTrace([]))
    report: Report = field(default_factory=lambda: Report({}))

    @property
    def rows(self) -> int:
        return sum(len(rows) for rows in self.journals.values())

    @property
    def absent(self) -> list[str]:
        return self.trace.absent

    @property
    def torn(self) -> list[str]:
        return [f"{life.host}.{life.life}" for life in self.trace.torn]

    @property
    def unended(self) -> list[str]:
        return [f"{life.host}.{life.life}" for life in self.trace.lives if not life.complete]

    def judgement(self, name: str) -> Judgement:
        """The verdict on one property, which accounts for missing evidence."""
        found = self.report.properties[name]
        if found.found:
            return Judgement("violated", "")
        why = missing_service_evidence(
            name,
            settled=self.truth.settled,
            absent=self.absent,
            torn=self.torn,
            checked=found.evaluated,
        )
        return Judgement("unverifiable" if why else "holds", why)


def without_services(reading: Reading) -> Reading:
    """The journals of groups alone."""
    headers = reading.headers
    mine = {j for j, header in headers.items() if header.group == SERVICE_GROUP}
    journals = {j: rows for j, rows in reading.journals.items() if j not in mine}
    return Reading(reading.segments, journals)


def judge_services(reading: Reading) -> list[ServiceEvidence]:
    """Check each service of each run by itself. JournalError for two journals of one life."""
    services: dict[tuple[str, str], ServiceEvidence] = {}
    headers = reading.headers
    for journal, rows in reading.journals.items():
        header = headers[journal]
        if header.group != SERVICE_GROUP or not rows:
            continue
        key = header.cluster, rows[0].run
        evidence = services.setdefault(key, ServiceEvidence(*key))
        life = header.member, header.incarnation
        if life in evidence.headers:
            file = next(s.path for s in reading.segments if s.header.journal == journal)
            problem = f"a second journal of {life[0]}.{life[1]} in the service of {header.cluster}"
            remedy = "check one at a time; a life is never repeated"
            raise JournalError(str(file), None, problem, remedy)
        evidence.headers[life] = header
        evidence.journals[life] = rows
    for evidence in services.values():
        _judge(evidence)
    return [services[key] for key in sorted(services)]


def _judge(evidence: ServiceEvidence) -> None:
    truths = [truth_of(header.config) for header in evidence.headers.values()]
    evidence.trace, evidence.truth, evidence.report = judged_rows(evidence.journals, truths)


def judged_rows(
    journals: Mapping[Life_, Sequence[Event]], truths: Sequence[GroundTruth]
) -> tuple[ServiceTrace, GroundTruth, Report]:
    """The trace of these journals, what is known of their run, and the results. That the run has
    settled counts only if nothing is missing."""
    trace = trace_of(journals)
    truth = truths[0] if truths else GroundTruth()
    ended = all(isinstance(r[-1], Life) and r[-1].op != "START" for r in journals.values())
    whole = ended and not trace.torn and not trace.absent
    if any(other != truth for other in truths) or not whole:
        truth = GroundTruth()
    out = ServiceFindings()
    check_set_logs(trace, truth.settled, out)
    check_member_views(trace, out)
    if truth.settled:
        check_rest(trace, truth.undisturbed_ns, out)
    return trace, truth, out.report
