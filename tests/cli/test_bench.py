"""`phalanx bench`: its options, and one small run with real members."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from phalanx.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], "'speed' is not one of 'throughput', 'latency', 'failover', 'idle'"),
        (["--members", "1"], "'1' is not a whole number from 2 to 32"),
        (["--members", "2,x"], "'x' is not a whole number"),
        (["--service", "agreed,sure"], "'sure' is not one of"),
        (["--size", "7"], "'7' is not a whole number from 8"),
        (["--seconds", "0"], "'0' is not a whole number from 1"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["bench", *arguments])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_a_small_run_measures_throughput_and_latency(tmp_path: Path) -> None:
    what = ["throughput", "latency", "--members", "2", "--seconds", "1", "--trials", "1"]
    result = CliRunner().invoke(main, ["bench", *what, "--json", "--journal", str(tmp_path)])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["machine"]["network"] == "loopback"
    medians = {(row["what"], row["measure"]): row["median"] for row in facts["rows"]}
    assert medians["throughput", "messages/s"] > 1000
    assert 10 < medians["latency", "p50 us"] <= medians["latency", "p99 us"]
    assert len(facts["verdicts"]) == 3
    assert not any(text.startswith("VIOLATED") for text in facts["verdicts"].values())
    assert facts["failures"] == facts["complaints"] == []
