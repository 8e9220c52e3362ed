"""What checks in Python say, in the shape of `findings`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from phalanx.pipeline.audit.chronicle import MemberRecord
from phalanx.pipeline.audit.sentences import SENTENCES


class Says:
    """Of one run: how often each property was asked, and what was found."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.findings: list[dict[str, Any]] = []

    def asked(self, name: str, times: int = 1) -> None:
        self.times[name] += times

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
        """`first` and `last` are messages of `who`."""
        assert kind in SENTENCES, kind
        self.findings.append(
            {
                "property": kind.partition("/")[0],
                "kind": kind,
                "who": None if who is None else who.k,
                "other": None if other is None else other.k,
                "s": who.k if who is not None and first is not None else None,
                "first": first,
                "last": last,
                "v": v,
                "w": w,
                "note": note,
                "rows": [{"k": member.k, "lseq": lseq} for member, lseq in rows],
            }
        )
