"""Verdicts on the journals of a group: run the checkers, and account for missing evidence.

A journal is the evidence of one member. The journal of a killed member lacks its end, a journal
that was not given is missing as a whole, and a full disk loses rows in the middle. Missing rows
are never held against a member: a property that needs them is *unverifiable*, with the reason,
and *violated* only if rows that exist contradict it.

- A member is *absent* if a view names it and there is no journal of it. Then only the properties
  that need one journal (`Needs.ONE_JOURNAL`) are judged as usual.
- A journal is *torn* if rows before its last one are missing. Any row may be among them.
- A journal that ends without a STOP row is neither: its member was killed, or is still running.
  The checkers assume nothing about rows behind the end, such as sends that others delivered.

Liveness is not judged for real members. It needs a moment at which everything that was going to
happen has happened, and journals do not show one, not even if all of them end with a STOP: a
member that stops discards the messages it has not sent yet. Virtual synchrony finds a message that
never arrives, once its view has ended. Clocks of two machines are never compared.

A simulator knows that moment, and has one clock. If all headers say that the run settled
(`journal.ground_truth`), every journal ends with a STOP or a CRASH, and nothing is missing, the
rows are judged as the simulator judges them. Otherwise `sim_ns` is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from phalanx.core.wire.shared_settings import SHARED
from phalanx.errors import JournalError
from phalanx.journal import jsonl as eventfile
from phalanx.journal.ground_truth import GroundTruth, truth_of
from phalanx.journal.reader import Reading, read_all
from phalanx.journal.schema import Corrupt, Event, Gap, Life, ViewInstalled
from phalanx.journal.segment import Header
from phalanx.verify.checkers import Mode, Report, check
from phalanx.verify.checkers.member_names import Member, label
from phalanx.verify.properties import BY_NAME, Needs, Verdict

ENDS = ("STOP", "CRASH")
"""Operations of the last `life` row of a journal that is complete."""
NAMED_MAX = 5


class Judgement(NamedTuple):
    verdict: Verdict
    why: str
    """The evidence that is missing, if the property is unverifiable; empty otherwise."""


@dataclass(slots=True)
class JournalEvidence:
    """The journals of one group in one run, and the results of the checkers."""

    cluster: str
    run: str
    group: str
    journals: dict[Member, list[Event]] = field(default_factory=dict)
    headers: dict[Member, Header] = field(default_factory=dict)
    absent: list[Member] = field(default_factory=list)
    torn: dict[Member, str] = field(default_factory=dict)
    """Members with torn journals, and a description of the missing rows."""
    unended: list[Member] = field(default_factory=list)
    settings: dict[str, dict[str, list[Member]]] = field(default_factory=dict)
    """Settings that must be equal and are not: the members with each value."""
    mixed: list[str] = field(default_factory=list)
    """Views whose members differ in one of these settings."""
    clocks: list[str] = field(default_factory=list)
    """Members whose own clock goes back between two rows, a line each."""
    mode: Mode | None = None
    truth: GroundTruth = field(default_factory=GroundTruth)
    """Facts known to a simulator; empty for real members, or if rows are missing."""
    report: Report = field(default_factory=lambda: Report({}))

    @property
    def rows(self) -> list[Event]:
        return [row for rows in self.journals.values() for row in rows]

    @property
    def story(self) -> list[Event]:
        """The rows in the order of time, if all members ran on one machine with one clock."""
        boots = {header.boot_id for header in self.headers.values()}
        if len(boots) > 1 or "" in boots:
            return self.rows
        return sorted(self.rows, key=lambda row: row.t_ns)

    def judgement(self, name: str) -> Judgement:
        """The verdict on one property, which accounts for missing evidence."""
        found = self.report.properties[name]
        if found.found:
            return Judgement("violated", "")
        why = missing_evidence(
            name,
            settled=self.truth.settled,
            mode=self.mode,
            absent=[label(member) for member in self.absent],
            torn=[label(member) for member in self.torn],
            checked=found.evaluated,
        )
        return Judgement("unverifiable" if why else "holds", why)


def missing_evidence(
    name: str,
    *,
    settled: bool,
    mode: str | None,
    absent: Sequence[str],
    torn: Sequence[str],
    checked: int,
) -> str:
    """Why a property that no row contradicts cannot be verified; empty if it holds.

    `checked` is how often rows tested it, `absent` and `torn` are the labels of members."""
    needs = BY_NAME[name].needs
    if Needs.SETTLED_RUN in needs and not settled:
        return "journals do not show that a group has settled"
    if Needs.MODE_HOLD in needs and mode != "hold":
        shown = "not the same in all headers" if mode is None else f"{mode!r} here"
        return f"only mode 'hold' promises it, it is {shown}"
    if absent and Needs.ALL_JOURNALS in needs:
        return f"no journal of {_names(absent)}"
    if torn:
        return f"rows are missing of {_names(torn)}"
    if Needs.SIMULATION in needs and not checked:
        return "it is asked of simulations only"
    return "" if checked else "nothing put it to the test"


def violations_in(folder: Path) -> list[str]:
    """The violations that the journals in a folder show, a line each. JournalError if there is
    no journal."""
    return [str(v) for found in judge(read_all([folder])) for v in found.report.violations]


def judge(reading: Reading) -> list[JournalEvidence]:
    """Check each group of each run by itself. JournalError for two journals of one life."""
    groups: dict[tuple[str, str, str], JournalEvidence] = {}
    headers = reading.headers
    for journal, rows in reading.journals.items():
        if not rows:  # begun, and nothing written yet
            continue
        header = headers[journal]
        key = header.cluster, rows[0].run, header.group
        evidence = groups.setdefault(key, JournalEvidence(*key))
        member = header.member, header.incarnation
        if member in evidence.headers:
            raise JournalError(
                _file(reading, journal),
                None,
                f"a second journal of {label(member)} in group {header.group!r}",
                "check one at a time; an incarnation must never be used twice",
            )
        evidence.headers[member] = header
        evidence.journals[member] = rows
    for evidence in groups.values():
        _judge(evidence)
    return [groups[key] for key in sorted(groups)]


def _judge(evidence: JournalEvidence) -> None:
    named: set[Member] = set()
    modes = set()
    truths: set[GroundTruth] = set()
    for member, rows in evidence.journals.items():
        modes.add(evidence.headers[member].config.get("mode"))
        truths.add(truth_of(evidence.headers[member].config))
        if lack := _lack(rows):
            evidence.torn[member] = lack
        if jump := _clock_jump(member, rows):
            evidence.clocks.append(jump)
        if not (isinstance(rows[-1], Life) and rows[-1].op == "STOP"):
            evidence.unended.append(member)
        for row in rows:
            if isinstance(row, ViewInstalled):
                named.update(zip(row.members, row.member_incarnations, strict=True))
    evidence.absent = sorted(named - evidence.journals.keys())
    evidence.settings = _differing(evidence)
    if evidence.settings:
        evidence.mixed = _mixed(evidence)
    if modes in ({"hold"}, {"flow"}):
        evidence.mode = "hold" if modes == {"hold"} else "flow"
    truth = truths.pop()
    ended = all(_ended(rows) for rows in evidence.journals.values())
    if truth.settled and ended and not (truths or evidence.absent or evidence.torn):
        evidence.truth = truth
        rows = evidence.rows
    else:
        rows = [
            row if row.sim_ns is None else msgspec.structs.replace(row, sim_ns=None)
            for row in evidence.rows
        ]
    evidence.report = check(
        rows,
        expect_liveness=evidence.truth.settled,
        mode=evidence.mode,
        undisturbed_ns=evidence.truth.undisturbed_ns,
        changes_max=evidence.truth.changes_max,
    )


def _differing(evidence: JournalEvidence) -> dict[str, dict[str, list[Member]]]:
    """The settings that must be equal and differ among the headers that have them."""
    found: dict[str, dict[str, list[Member]]] = {}
    for name in SHARED:
        values: dict[str, list[Member]] = {}
        for member in sorted(evidence.headers):
            config = evidence.headers[member].config
            if name in config:
                values.setdefault(str(config[name]), []).append(member)
        if len(values) > 1:
            found[name] = {value: values[value] for value in sorted(values)}
    return found


def _mixed(evidence: JournalEvidence) -> list[str]:
    views = {
        row.view: list(zip(row.members, row.member_incarnations, strict=True))
        for row in evidence.rows
        if isinstance(row, ViewInstalled)
    }
    return [
        view
        for view, members in views.items()
        if any(
            sum(any(m in members for m in having) for having in values.values()) > 1
            for values in evidence.settings.values()
        )
    ]


def _clock_jump(member: Member, rows: Sequence[Event]) -> str:
    """The largest jump back of a member's own clock; empty if there is none."""
    told = [row for row in rows if not isinstance(row, Gap | Corrupt)]
    back, at = max(((a.t_ns - b.t_ns, b.lseq) for a, b in pairwise(told)), default=(0, 0))
    return clock_jump_line(label(member), at, back) if back > 0 else ""


def clock_jump_line(who: str, lseq: int, back_ns: int) -> str:
    return (
        f"the clock of {who} goes back by {back_ns / 1e9:,.3f} s at row {lseq}: "
        "its times in history and measures are wrong"
    )


def _ended(rows: Sequence[Event]) -> bool:
    """Whether no row can be missing behind the last one."""
    return isinstance(rows[-1], Life) and rows[-1].op in ENDS


def _lack(rows: Sequence[Event]) -> str:
    """A description of the rows missing before the last one; empty if there are none."""
    lost = [f"rows {r.first} to {r.last}: {r.reason}" for r in rows if isinstance(r, Gap)]
    lost += [
        f"{r.length} bytes at {r.offset} of {r.file} cannot be read"
        for r in rows
        if isinstance(r, Corrupt)
    ]
    lost += [line.partition(": ")[2] for line in eventfile.damage(rows)]
    more = f", and {len(lost) - NAMED_MAX} more" if len(lost) > NAMED_MAX else ""
    return "; ".join(lost[:NAMED_MAX]) + more


def _names(members: Sequence[str]) -> str:
    more = f" and {len(members) - NAMED_MAX} more" if len(members) > NAMED_MAX else ""
    return ", ".join(members[:NAMED_MAX]) + more


def _file(reading: Reading, journal: str) -> str:
    return next(str(s.path) for s in reading.segments if s.header.journal == journal)
