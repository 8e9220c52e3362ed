"""The journals of one long view: correct by construction, and broken in one place on demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import audit_duckdb, bench_audit, single_view_data
from phalanx.pipeline.audit import audit_plan, wanted
from phalanx.pipeline.group_plan import plan_groups

TESTED = {"virtual-synchrony", "causal", "running-prefix", "weak-total-order", "fifo", "integrity"}


def test_a_long_view_holds_and_a_lost_range_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a whole, in parts, and by the SQL of DuckDB. A range across the border of two parts
    is counted in both."""
    monkeypatch.setattr(single_view_data, "MILLION", 30_000)
    place = single_view_data.provide(tmp_path, 1, "skewed")
    broken = single_view_data.with_violation(place)
    for folder in (place, broken):
        plan = plan_groups([folder])
        whole = audit_plan(plan, wanted(None), engine="local")
        parts = audit_plan(plan, wanted(None), engine="local", large_rows=10, part_rows=2000)
        assert {name: result.verdict for name, result in whole.properties.items()} == {
            name: result.verdict for name, result in parts.properties.items()
        }
        by_sql = bench_audit.duckdb(folder)["verdicts"]
        assert set(by_sql) == set(audit_duckdb.CHECKS)
        if folder == place:
            assert whole.violated == ()
            assert {whole.properties[name].verdict for name in TESTED} == {"holds"}
            assert set(by_sql.values()) == {"holds"}
        else:
            assert by_sql["virtual-synchrony"] == "violated"
            (found,) = whole.properties["virtual-synchrony"].counterexamples
            assert found.members[1] == "m03"
