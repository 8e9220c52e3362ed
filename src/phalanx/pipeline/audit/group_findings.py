"""What the checks of one group say: how often each property was tested, and its violations.

Until the end members are ranks and views are numbers. `violations` puts the examples that are kept
into words, by the sentence of their kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from phalanx.pipeline.audit.chronicle import Chronicle, MemberRecord
from phalanx.pipeline.audit.number_ranges import NONE, Bools, Longs
from phalanx.pipeline.audit.sentences import SENTENCES
from phalanx.pipeline.audit.verdicts import AuditViolation, VerdictRow

KEPT = 3
"""Counter-examples that are kept of each property of each group."""
_LOOKED_AT = 16
"""Of many violations of one kind, so many are turned into findings, to choose among."""


class GroupFinding(msgspec.Struct, frozen=True):
    """One violation. `who` did it, `other` is involved, the messages are first..last of `s`, `v`
    and `w` are views; `rows` are pairs of a rank and a row number."""

    kind: str
    who: int | None = None
    other: int | None = None
    s: int | None = None
    first: int | None = None
    last: int | None = None
    v: int | None = None
    w: int | None = None
    note: str | None = None
    rows: tuple[tuple[int, int], ...] = ()

    @property
    def property(self) -> str:
        return self.kind.partition("/")[0]

    def _order(self) -> tuple[object, ...]:
        known = ((-1 if x is None else x) for x in (self.s, self.first, self.who, self.other))
        return (-len(self.rows), *known, self.kind, self.note or "")


class GroupFindings:
    """Of one group. Merging the findings of its units gives the same as judging it as a whole."""

    def __init__(self, belongs: Callable[[GroupFinding], bool] | None = None) -> None:
        """`belongs`: which violations count; all if it is not given."""
        self._belongs = belongs
        self.times: Counter[str] = Counter()
        """How often each property was tested."""
        self.counts: Counter[str] = Counter()
        """How often each kind of violation was found."""
        self.kept: dict[str, list[GroupFinding]] = {}
        self.disordered: set[int] = set()
        """Views in which positions of messages are broken."""

    def asked(self, name: str, times: int = 1) -> None:
        self.times[name] += int(times)

    def found(
        self,
        kind: str,
        *,
        rows: Sequence[tuple[MemberRecord, int]],
        who: MemberRecord | None = None,
        other: MemberRecord | None = None,
        first: int | None = None,
        last: int | None = None,
        v: int | None = None,
        w: int | None = None,
        note: str | None = None,
    ) -> None:
        """One violation. `first` and `last` are messages of `who`."""
        self.add(
            GroupFinding(
                kind,
                None if who is None else who.k,
                None if other is None else other.k,
                who.k if who is not None and first is not None else None,
                *(first, last, v, w, note),
                rows=tuple((member.k, lseq) for member, lseq in rows),
            )
        )

    def add(self, finding: GroupFinding) -> None:
        assert finding.kind in SENTENCES, finding.kind
        if self._belongs is not None and not self._belongs(finding):
            return
        self.counts[finding.kind] += 1
        self._keep([finding])

    def add_each(
        self,
        kind: str,
        bad: Bools | Longs,
        s: Longs,
        first: Longs,
        shown: Callable[[int], GroupFinding],
    ) -> None:
        """Violations of one kind at these places of columns (a condition, or indices). `shown`
        makes findings of places; it is asked for some of the first, by sender and number."""
        where = np.flatnonzero(bad) if bad.dtype == np.bool_ else bad
        if not len(where):
            return
        assert kind in SENTENCES, kind
        if self._belongs is not None:
            for i in where.tolist():
                self.add(shown(i))
            return
        self.counts[kind] += len(where)
        if len(where) > _LOOKED_AT:
            order = np.lexsort((where, first[where], s[where]))
            where = where[order[:_LOOKED_AT]]
        self._keep([shown(int(i)) for i in where])

    def _keep(self, findings: Iterable[GroupFinding]) -> None:
        for finding in findings:
            kept = self.kept.setdefault(finding.property, [])
            kept.append(finding)
            if len(kept) > _LOOKED_AT:
                kept.sort(key=GroupFinding._order)
                del kept[KEPT:]

    def violated(self, name: str) -> int:
        """How often a property was violated."""
        return sum(count for kind, count in self.counts.items() if kind.partition("/")[0] == name)

    def examples(self, name: str) -> list[GroupFinding]:
        return sorted(self.kept.get(name, ()), key=GroupFinding._order)[:KEPT]

    def merge(self, other: GroupFindings) -> None:
        self.times.update(other.times)
        self.counts.update(other.counts)
        self.disordered |= other.disordered
        for findings in other.kept.values():
            self._keep(findings)


def known(value: int) -> int | None:
    """None in the place of what stands for it in a column."""
    return None if value in (NONE, -1) else value


def violation_of(run: Chronicle, finding: GroupFinding) -> AuditViolation:
    """A finding with names instead of numbers, in words."""
    one = run.journals[0]

    def member(k: int | None) -> MemberRecord | None:
        return None if k is None else run.members[k]

    who, other, sender = member(finding.who), member(finding.other), member(finding.s)
    words = {
        "{who}": "nobody" if who is None else who.label,
        "{other}": "nobody" if other is None else other.label,
        "{what}": _messages(sender, finding.first, finding.last),
        "{v}": run.view_name(finding.v),
        "{w}": run.view_name(finding.w),
        "{note}": finding.note or "nobody",
    }
    text = SENTENCES[finding.kind]
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    rows = [
        VerdictRow(run.members[k].member, run.members[k].incarnation, lseq)
        for k, lseq in finding.rows
    ]
    involved = [m.member for m in (who, other, sender) if m is not None]
    return AuditViolation(
        property=finding.property,
        cluster=one.cluster,
        run=one.run,
        group=one.group,
        members=tuple(dict.fromkeys([*involved, *(row.member for row in rows)])),
        view=None if finding.v is None else run.vids.get(finding.v),
        sender=None if sender is None else sender.member,
        sender_incarnation=None if sender is None else sender.incarnation,
        first=finding.first,
        last=finding.last,
        text=text,
        rows=tuple(rows),
    )


def _messages(sender: MemberRecord | None, first: int | None, last: int | None) -> str:
    if sender is None or first is None:
        return "nobody"
    several = f"..{last}" if last is not None and last > first else ""
    return f"{sender.label}#{first}{several}"


def shown_rows(*rows: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Rows of journals that exist, without those that do not."""
    return tuple((k, lseq) for k, lseq in rows if k >= 0 and lseq > 0)
