"""What the journals of members prove: the checkers, and what they could not be asked.

A journal is evidence of one member. A member that was killed lacks the end of its own, a member
whose journal was not given lacks all of it, and a disk that was full costs a middle. None of
that is held against anyone: a guarantee that needs what is missing is not verified, which is
said with the reason, and it is violated only if the rows that are there contradict it.

- Somebody is *absent* if a view names it and there is no journal of it. Only what one journal
  alone can show (ALONE) is judged as ever.
- A journal is *torn* if rows are missing before its last one. Anything may be among them.
- A journal that just ends, without a STOP row, is neither: its member was killed, or lives on.
  The checkers ask nothing of what may lie behind the end, such as sends that others delivered.

Of real members liveness is not judged at all. It asks for a moment when whatever was going to
happen has happened, and journals do not show one, not even if all of them end with a STOP: who
stops takes along what it had not sent yet. A message that never arrives is found by virtual
synchrony, once its view has ended. Clocks of two machines are never compared.

A simulator does know that moment, and has one clock. Where all headers say that the run settled
(`journal.truth`), every journal ends with a STOP or a CRASH, and nothing is missing, the rows are
judged as the simulator judges them. All others lose `sim_ns`, should they have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from phalanx.core.wire.shared_settings import SHARED
from phalanx.errors import JournalError
from phalanx.journal import jsonl as eventfile
from phalanx.journal.ground_truth import GroundTruth, truth_of
from phalanx.journal.reader import Reading, read_all
from phalanx.journal.schema import Corrupt, Event, Gap, Life, ViewInstall
from phalanx.journal.segment import Header
from phalanx.verify.checkers import Mode, Report, Verdict, check
from phalanx.verify.checkers.member_names import Member, label

ALONE = frozenset(
    {
        "self-inclusion",
        "local-monotonicity",
        "initial-view",
        "no-duplication",
        "fifo",
        "view-delta-truth",
        "accepted-is-sent",
    }
)
"""What one journal shows, whatever others did."""
SETTLED = frozenset(
    {
        "membership-precision",
        "multicast-liveness",
        "termination-of-delivery",
        "safe-indication-liveness",
        "protocol-termination",
        "bounded-views",
        "receipt-liveness",
    }
)
SIMULATED = frozenset({"bounded-window"})
"""What needs settings of the members that journals do not hold."""
ENDS = ("STOP", "CRASH")
"""What the last row of a life says, where it could be written."""
NAMED_MAX = 5


class Judgement(NamedTuple):
    verdict: Verdict
    why: str
    """Why it could not be verified; empty otherwise."""


@dataclass(slots=True)
class JournalEvidence:
    """The journals of one group in one run, and what the checkers say of them."""

    cluster: str
    run: str
    group: str
    journals: dict[Member, list[Event]] = field(default_factory=dict)
    headers: dict[Member, Header] = field(default_factory=dict)
    absent: list[Member] = field(default_factory=list)
    torn: dict[Member, str] = field(default_factory=dict)
    """And what they lack."""
    unended: list[Member] = field(default_factory=list)
    settings: dict[str, dict[str, list[Member]]] = field(default_factory=dict)
    """Settings that must agree and do not: which members have which value."""
    mixed: list[str] = field(default_factory=list)
    """Views with members that differ in one of them."""
    mode: Mode | None = None
    truth: GroundTruth = field(default_factory=GroundTruth)
    """What a simulator knows; nothing of real members, nor where a part is missing."""
    report: Report = field(default_factory=lambda: Report({}))

    @property
    def rows(self) -> list[Event]:
        return [row for rows in self.journals.values() for row in rows]

    @property
    def story(self) -> list[Event]:
        """The rows as they happened, if all members shared one machine and so one clock."""
        boots = {header.boot_id for header in self.headers.values()}
        if len(boots) > 1 or "" in boots:
            return self.rows
        return sorted(self.rows, key=lambda row: row.t_ns)

    def judgement(self, name: str) -> Judgement:
        """The verdict on one guarantee, with all that is missing taken into account."""
        found = self.report.properties[name]
        if found.found:
            return Judgement("violated", "")
        why = lacking(
            name,
            settled=self.truth.settled,
            mode=self.mode,
            absent=[label(member) for member in self.absent],
            torn=[label(member) for member in self.torn],
            checked=found.evaluated,
        )
        return Judgement("unverifiable" if why else "holds", why)


def lacking(
    name: str,
    *,
    settled: bool,
    mode: str | None,
    absent: Sequence[str],
    torn: Sequence[str],
    checked: int,
) -> str:
    """What a guarantee that nothing contradicts lacks to be verified; empty if nothing."""
    if name in SETTLED and not settled:
        return "journals do not show that a group has settled"
    if name == "sending-view" and mode != "hold":
        told = "not the same in all headers" if mode is None else f"{mode!r} here"
        return f"only mode 'hold' promises it, it is {told}"
    if absent and name not in ALONE:
        return f"no journal of {_names(absent)}"
    if torn:
        return f"rows are missing of {_names(torn)}"
    if name in SIMULATED and not checked:
        return "it is asked of simulations only"
    return "" if checked else "nothing put it to the test"


def violations_in(folder: Path) -> list[str]:
    """What the journals in a folder prove to be violated, a line each. JournalError if there is
    nothing to read."""
    return [str(v) for found in judge(read_all([folder])) for v in found.report.violations]


def judge(reading: Reading) -> list[JournalEvidence]:
    """Checks each group of each run by itself. JournalError for two journals of one life."""
    groups: dict[tuple[str, str, str], JournalEvidence] = {}
    headers = reading.headers
    for journal, rows in reading.journals.items():
        if not rows:  # begun, and nothing written yet
            continue
        header = headers[journal]
        key = header.cluster, rows[0].run, header.group
        evidence = groups.setdefault(key, JournalEvidence(*key))
        member = header.node, header.inc
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
        if not (isinstance(rows[-1], Life) and rows[-1].op == "STOP"):
            evidence.unended.append(member)
        for row in rows:
            if isinstance(row, ViewInstall):
                named.update(zip(row.members, row.member_incs, strict=True))
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
    """Which of the settings that must agree differ among the headers that have them."""
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
        row.vid: list(zip(row.members, row.member_incs, strict=True))
        for row in evidence.rows
        if isinstance(row, ViewInstall)
    }
    return [
        view
        for view, members in views.items()
        if any(
            sum(any(m in members for m in having) for having in values.values()) > 1
            for values in evidence.settings.values()
        )
    ]


def _ended(rows: Sequence[Event]) -> bool:
    """Nothing can be missing behind the last row."""
    return isinstance(rows[-1], Life) and rows[-1].op in ENDS


def _lack(rows: Sequence[Event]) -> str:
    """What is missing before the last row; empty if nothing is."""
    told = [f"rows {r.first} to {r.last}: {r.reason}" for r in rows if isinstance(r, Gap)]
    told += [
        f"{r.length} bytes at {r.offset} of {r.file} cannot be read"
        for r in rows
        if isinstance(r, Corrupt)
    ]
    told += [line.partition(": ")[2] for line in eventfile.damage(rows)]
    more = f", and {len(told) - NAMED_MAX} more" if len(told) > NAMED_MAX else ""
    return "; ".join(told[:NAMED_MAX]) + more


def _names(members: Sequence[str]) -> str:
    more = f" and {len(members) - NAMED_MAX} more" if len(members) > NAMED_MAX else ""
    return ", ".join(members[:NAMED_MAX]) + more


def _file(reading: Reading, journal: str) -> str:
    return next(str(s.path) for s in reading.segments if s.header.journal == journal)
