"""`phalanx audit`: its lines, from verdicts that are made up. The command itself needs Spark
(tests/pipeline/audit)."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from phalanx.cli.audit import lines
from phalanx.pipeline.audit.verdicts import Audit, AuditViolation, Result, RunVerdicts

ADA, BACK = "ada.1763355123456", "ada.1763355127890"


def test_lines_have_violations_and_checks_in_columns_and_members_by_short_names() -> None:
    violation = AuditViolation(
        property="fifo",
        cluster="c",
        run="r",
        group="g",
        members=("ada",),
        view="v1",
        sender="bea",
        sender_incarnation=1763355123999,
        first=1,
        last=2,
        text=f"{BACK} delivered bea.1763355123999#2 before bea.1763355123999#1",
        rows=(),
    )
    results = {
        "fifo": Result("violated", 12, 1, counterexamples=(violation,)),
        "causal": Result("unverifiable", why="no journal of bea"),
    }
    run = RunVerdicts(
        cluster="c",
        run="r",
        group="g",
        settled=True,
        mode=None,
        members=(ADA, BACK),
        absent=("bea.1763355123999",),
        torn=(),
        unended=(),
        properties=results,
    )
    first, absent, head, fifo, causal, _, told, where = lines(Audit(results, (run,)))
    assert first == "group g of c, run r: ada.3456, ada.7890"
    assert absent == "  no journal of bea"
    assert head.split() == ["verdict", "violations", "times", "checked", "guarantee"]
    assert fifo.split()[:4] == ["violated", "1", "12", "fifo"]
    assert causal.split()[:5] == ["not", "verified", "-", "0", "causal"]
    assert told == "fifo: ada.7890 delivered bea#2 before bea#1"
    assert where == "  in group g of c, run r"
