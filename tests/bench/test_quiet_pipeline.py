"""The run of all wall times: rounds within the time there is, medians, promises, problems."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.quiet_pipeline import Figure, figures, measured, once, summary

from bench import quiet_pipeline


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def figure(name: str = "one", **more: Any) -> Figure:
    return Figure(name, [], **({"promise": ""} | more))


def run_of(wall_s: float, peak_mb: int = 100, **more: Any) -> dict[str, Any]:
    used = {"cpu_s": wall_s, "other_cpu_s": 0.0, "load": 0.0, "peak_mb": peak_mb}
    return {"wall_s": wall_s, **used, **more}


def test_a_run_takes_the_last_object_of_the_output_and_the_time_of_the_process() -> None:
    told = {"verdicts": {"fifo": "holds"}, "rows": 3}
    text = f"import time; time.sleep(0.3); print('some text'); print('''{json.dumps(told)}''')"
    found = once(figure()._replace(command=program(text)))
    assert found["rows"] == 3
    assert 0.3 < found["wall_s"] < 30
    assert found["peak_mb"] > 1
    assert "problem" not in found


def test_a_number_of_verdicts_names_none_that_is_violated() -> None:
    found = once(figure()._replace(command=program("""print('{"verdicts": 40}')""")))
    assert "problem" not in found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import sys; sys.exit('no data')", "exit 1: no data"),
        ("""print('{"verdicts": {"fifo": "violated", "causal": "holds"}}')""", "violated: fifo"),
        ("import time; time.sleep(60)", "not within 1 s"),
    ],
)
def test_a_run_that_fails_is_a_problem_and_no_figure(text: str, problem: str) -> None:
    one = figure(promise="9 s", most=9.0)._replace(command=program(text))
    found = once(one, seconds=1.0 if "sleep" in text else 60.0)
    assert problem in found["problem"]
    told = summary([one], {"one": [found]})
    assert (told["one"]["median"], told["one"]["kept"]) == (None, False)


def test_every_figure_is_measured_once_and_again_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def run(one: Figure) -> dict[str, Any]:
        nonlocal now
        took = {"long": 60.0, "short": 5.0, "broken": 1.0}[one.name]
        now += took
        return run_of(took) | ({"problem": "exit 1"} if one.name == "broken" else {})

    every = [figure("long"), figure("short"), figure("broken")]
    runs = measured(every, 3, 100.0, run)
    assert {name: len(found) for name, found in runs.items()} == {
        "long": 1,
        "short": 3,
        "broken": 1,
    }


def test_a_promise_is_about_the_median_and_the_peak_of_memory() -> None:
    fast = figure("fast", promise="9 s", most=9.0)
    large = figure("large", promise="9 s", most=9.0, peak_mb_max=6000.0)
    rate = figure("rate", promise="5/s", value=lambda found: float(found["rate"]), least=5.0)
    free = figure("free")
    runs = {
        "fast": [run_of(8.0), run_of(20.0), run_of(8.5)],
        "large": [run_of(8.0), run_of(8.0, 6001)],
        "rate": [run_of(1.0, rate=4.0), run_of(1.0, rate=6.0), run_of(1.0, rate=4.9)],
        "free": [run_of(8.0)],
    }
    told = summary([fast, large, rate, free], runs)
    assert {name: (row["median"], row["kept"]) for name, row in told.items()} == {
        "fast": (8.5, True),
        "large": (8.0, False),
        "rate": (4.9, False),
        "free": (8.0, None),
    }


@pytest.mark.parametrize(("larger_s", "kept"), [(20.9, True), (21.5, False)])
def test_the_doubling_is_the_quotient_of_two_medians(larger_s: float, kept: bool) -> None:
    small, large = (figure(name) for name in quiet_pipeline.DOUBLED)
    runs = {small.name: [run_of(10.0)], large.name: [run_of(larger_s)]}
    told = summary([small, large], runs)["doubling"]
    assert (told["median"], told["kept"]) == (round(larger_s / 10.0, 2), kept)


def test_the_figures_have_different_names_and_programs_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet_pipeline, "group_of", lambda _: "demo")
    every = figures(tmp_path)
    assert len({one.name for one in every}) == len(every)
    assert set(quiet_pipeline.DOUBLED) <= {one.name for one in every}
    files = [Path(word) for one in every for word in one.command if word.endswith(".py")]
    assert files
    assert all(path.is_file() for path in files)
