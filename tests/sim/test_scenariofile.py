"""Scenario files: what is refused, where, and what is kept when they are written back."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.errors import ScenarioError
from phalanx.sim.generate import random_scenario
from phalanx.sim.scenario import Garbage, Network, Pause, Peculiarity, Scenario, Traffic
from phalanx.sim.scenariofile import load, parse, to_toml

SCENARIOS = Path(__file__).parents[2] / "scenarios"

GOOD = """\
name = "good"
members = ["ada", "bea"]

[config]
order = "toto"

[network]
delay_ns = 100
loss_ppm = 5

[[member]]
name = "ada"
cpu_ns = 7

[[traffic]]
from = "ada"
size = 10

[[traffic]]
from = "bea"
size = 20
service = "safe"
to = ["ada"]
"""


def test_a_good_scenario_is_read_as_written() -> None:
    assert parse(GOOD) == Scenario(
        name="good",
        members=("ada", "bea"),
        config={"order": "toto"},
        network=Network(delay_ns=100, loss_ppm=5),
        member=(Peculiarity(name="ada", cpu_ns=7),),
        traffic=(
            Traffic(from_="ada", size=10),
            Traffic(from_="bea", size=20, service="safe", to=("ada",)),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "problem", "remedy"),
    [
        ('name = "good"', "name = good", 1, "", "TOML"),
        ('name = "good"', 'nmae = "good"', 1, "unknown key 'nmae'", "known: name,"),
        ("loss_ppm = 5", "loss = 5", 9, "unknown key 'loss' in network", "loss_ppm"),
        ("delay_ns = 100", "delay_ns = -1", 8, "network.delay_ns = -1", "must be int >= 0"),
        ("delay_ns = 100", "delay_ns = 1.5", 8, "delay_ns = 1.5", "must be int"),
        ("loss_ppm = 5", "loss_ppm = 1000001", 9, "loss_ppm", "<= 1000000"),
        ('"bea"]', '"bea", "ada"]', 2, "named twice", "once"),
        ('members = ["ada", "bea"]', "members = []", 2, "members", "must be"),
        ('members = ["ada", "bea"]', "", 1, "no 'members'", "add members"),
        ('from = "bea"', 'from = "eve"', 20, "unknown member 'eve'", "choose among ada, bea"),
        ('to = ["ada"]', 'to = ["ada", "eve"]', 23, "unknown member 'eve'", "choose among"),
        ('to = ["ada"]', "to = []", 23, "to is empty", "name one or more"),
        ('to = ["ada"]', 'to = "most"', 23, "to = 'most'", "choose among all, some"),
        (
            'service = "safe"',
            'service = "total"',
            22,
            "service = 'total'",
            "choose among basic, causal,",
        ),
        ('from = "bea"\n', "", 19, "[[traffic]] has no 'from'", "add from"),
        ("size = 20", "size = 20\nsize_max = 3", 22, "size_max = 3 is below", "20 or more"),
        ("size = 20", "size = 16777217", 21, "size", "<= 16777216"),
        ("size = 20", "size = 20\ncount = 0", 22, "count = 0", ">= 1"),
        ("size = 20", "size = 20\nsize = 21", 22, "", "TOML"),
        ('order = "toto"', 'order = "bogus"', 5, "order", "all-ack"),
        ('order = "toto"', 'nack_ns_min = "1"', 5, "nack_ns_min", ""),
        ('order = "toto"', "ordre = 1", 5, "ordre = 1", "unknown setting"),
        ('order = "toto"', "frame_bytes_max = 1", 5, "frame_bytes_max = 1", "64..60000"),
        ("cpu_ns = 7", "cpu_ns = 7\n[[member]]\nname = 'ada'", 15, "two [[member]]", "one"),
        ("cpu_ns = 7", "config = { order = 'toto' }", 13, "same at every member", "[config]"),
        ("cpu_ns = 7", "config = { nack_ns_min = 0 }", 13, "nack_ns_min = 0", "above 0"),
        ('name = "ada"', 'name = "eve"', 12, "unknown member 'eve'", "choose among"),
        ("[[traffic]]", "[[pause]]\nmember='eve'\nat_ns=1\nfor_ns=1\n[[traffic]]", 16, "eve", ""),
        ("[[traffic]]", "[[burst]]\nat_ns = 1\n[[traffic]]", 15, "no 'for_ns'", "add for_ns"),
        ("[[traffic]]", "[[link]]\nto = ['eve']\n[[traffic]]", 16, "eve", "choose among"),
        (
            "[[traffic]]",
            "[[garbage]]\nto = 'ada'\nat_ns = 1\nkind = 'odd'\n[[traffic]]",
            18,
            "kind = 'odd'",
            "choose among random, truncated",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_with_line_and_remedy(
    old: str, new: str, line: int, problem: str, remedy: str
) -> None:
    assert old in GOOD
    with pytest.raises(ScenarioError) as caught:
        parse(GOOD.replace(old, new, 1), "x.toml")
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"x.toml:{line}: "), text
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"gone\.toml: No such file"):
        load(tmp_path / "gone.toml")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="not a text file"):
        load(tmp_path / "x.toml")


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda p: p.stem)
def test_every_example_survives_being_written_back(path: Path) -> None:
    scenario = load(path)
    assert parse(to_toml(scenario)) == scenario


def test_random_scenarios_survive_being_written_back() -> None:
    for seed in range(300):
        scenario = random_scenario(seed)
        assert parse(to_toml(scenario)) == scenario, f"seed {seed}"


def test_odd_names_survive_being_written_back() -> None:
    scenario = Scenario(
        name='quo"te \\ \t \x7f \x01 é 😀',
        members=("a b", 'x"', "ü"),
        member=(Peculiarity(name='x"', config={"nack_ns_min": 5}),),
        pause=(Pause(member="ü", at_ns=0, for_ns=1),),
        garbage=(Garbage(to="a b", at_ns=1),),
    )
    assert parse(to_toml(scenario)) == scenario
