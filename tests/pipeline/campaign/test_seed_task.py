"""One seed, one row: every way a run can end, and that the row does not depend on the place."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path
from subprocess import run as run_process
from sys import executable

import msgspec
import pytest

import phalanx
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.campaign.code_version import PLAYED, code_version, sources
from phalanx.pipeline.campaign.seed_task import Campaign, named, play, schema
from phalanx.pipeline.package_zip import packed
from phalanx.sim.run import RunResult, run
from phalanx.sim.scenario.model import Scenario

SMALL = Campaign("fixed", 2, 2)
MUTANT = "causal-without-waiting"


def test_a_run_that_keeps_its_promises_is_ok() -> None:
    row = play(SMALL, "v", 1)
    result = run(SMALL.scenario(1))
    assert (row.status, row.violated, row.error) == ("ok", [], None)
    assert (row.campaign, row.code_version, row.seed) == ("fixed-2-2", "v", 1)
    assert (row.digest, row.steps, row.sim_ns) == (result.digest, result.steps, result.sim_ns)
    assert row.delivered > row.counts["property.fifo"] / 2 > 0


def test_a_broken_rule_is_a_violation_with_its_first_finding() -> None:
    rows = [play(Campaign("fixed", 3, 5, mutant=MUTANT), "v", seed) for seed in range(12)]
    (first, *_) = [row for row in rows if row.status == "violated"]
    assert first.violated
    assert first.error is not None
    assert first.error.startswith(first.violated[0])


def test_a_run_out_of_steps_is_inconclusive_and_no_failure() -> None:
    row = play(msgspec.structs.replace(SMALL, steps_max=40), "v", 1)
    assert (row.status, row.violated) == ("inconclusive", [])
    assert row.steps == 40
    assert row.error is not None
    assert "not settled after 40 steps" in row.error


def test_a_run_that_had_its_time_and_did_not_settle_is_stuck() -> None:
    def slow(scenario: Scenario) -> RunResult:
        result = run(scenario)
        result.stuck, result.stuck_because = True, "a not settled"
        return result

    row = play(SMALL, "v", 1, slow)
    assert (row.status, row.error) == ("stuck", "a not settled")


def test_an_exception_is_a_row_that_names_no_place_of_this_machine() -> None:
    def bad(scenario: Scenario) -> RunResult:
        return run(msgspec.structs.replace(scenario, members=("a", "a")))

    row = play(SMALL, "v", 1, bad)
    assert (row.status, row.digest) == ("exception", "")
    assert row.error is not None
    assert 'File "phalanx/sim/' in row.error
    assert "/src/phalanx" not in row.error


def test_a_guided_walk_is_a_row_too() -> None:
    walk = Campaign("walk", 4, 5)
    row = play(walk, "v", 3)
    assert (row.status, row.violated, row.error) == ("ok", [], None)
    assert row.counts["case.walks"] >= 1
    assert play(walk, "v", 3).digest == row.digest
    broken = [
        play(Campaign("walk", 4, 5, "transitional-set-of-all"), "v", seed) for seed in range(40)
    ]
    (first, *_) = [one for one in broken if one.status == "violated"]
    assert first.violated == ["JT"]


@pytest.mark.parametrize(
    "chosen", [SMALL, Campaign("storm", 3, 5, "no-flush", 1000), Campaign("walk", 4, 7)]
)
def test_a_campaign_is_known_by_its_name(chosen: Campaign) -> None:
    assert named(chosen.name) == chosen


def test_rows_fit_the_schema() -> None:
    pa = arrow()
    row = play(SMALL, "v", 1)
    made = pa.RecordBatch.from_pylist([msgspec.to_builtins(row)], schema=schema())
    (found,) = made.to_pylist()
    found["counts"] = dict(found["counts"])
    assert found == msgspec.to_builtins(row)


def test_the_zip_for_a_cluster_is_the_same_code_and_gives_the_same_row(tmp_path: Path) -> None:
    path = packed(tmp_path)
    assert not [n for n in zipfile.ZipFile(path).namelist() if not n.startswith("phalanx/")]
    program = (
        "from phalanx.pipeline.campaign.code_version import code_version\n"
        "from phalanx.pipeline.campaign.seed_task import Campaign, play\n"
        "import phalanx; assert '.zip' in phalanx.__file__\n"
        "print(code_version(), play(Campaign('fixed', 2, 2), 'v', 1).digest)\n"
    )
    env = {"PYTHONPATH": str(path), "PYTHONHASHSEED": "7"}
    said = run_process(
        [executable, "-c", program], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.split() == [code_version(), play(SMALL, "v", 1).digest]


def test_the_version_covers_all_that_a_seed_is_played_with() -> None:
    """Followed from import to import; the face of the package, which imports all, plays nothing."""
    home = Path(phalanx.__file__).parent
    source = {f"phalanx/{p.relative_to(home)}": p.read_text() for p in home.rglob("*.py")}
    reached: set[str] = set()
    todo = ["phalanx/pipeline/campaign/seed_task.py"]
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached.add(name)
        for node in ast.walk(ast.parse(source[name])):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            paths = [part.replace(".", "/") for part in names if part != "phalanx"]
            todo += [p for path in paths for p in (f"{path}.py", f"{path}/__init__.py")]
            todo = [path for path in todo if path in source]
    assert len(reached) > 40
    assert {name for name in reached if not name.startswith(PLAYED)} == set()
    assert reached <= {name for name, _ in sources()}
