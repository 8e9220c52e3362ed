"""Scenario files: what is refused, where, and what is kept when they are written back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.errors import ScenarioError
from phalanx.sim.generators.fixed_view import random_scenario
from phalanx.sim.scenario import model as sc
from phalanx.sim.scenario.model import Garbage, Network, Pause, Peculiarity, Scenario, Traffic
from phalanx.sim.scenario.toml_file import load, parse, to_toml

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
        ('to = ["ada"]', 'to = "most"', 23, 'to = "most"', "choose among all, some"),
        (
            'service = "safe"',
            'service = "total"',
            22,
            'service = "total"',
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
        ("cpu_ns = 7", "config = { mode = 'hold' }", 13, "same at every member", "[config]"),
        ("cpu_ns = 7", "config = { order = 'toto' }", 13, "must agree in a view", "alone"),
        ("cpu_ns = 7", "config = { nack_ns_min = 0 }", 13, "nack_ns_min = 0", "above 0"),
        ('name = "ada"', 'name = "eve"', 12, "unknown member 'eve'", "choose among"),
        ("[[traffic]]", "[[pause]]\nmember='eve'\nat_ns=1\nfor_ns=1\n[[traffic]]", 16, "eve", ""),
        ("[[traffic]]", "[[burst]]\nat_ns = 1\n[[traffic]]", 15, "no 'for_ns'", "add for_ns"),
        ("[[traffic]]", "[[link]]\nto = ['eve']\n[[traffic]]", 16, "eve", "choose among"),
        (
            "[[traffic]]",
            "[[garbage]]\nto = 'ada'\nat_ns = 1\nkind = 'odd'\n[[traffic]]",
            18,
            'kind = "odd"',
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


def test_traffic_disturbs_nobody() -> None:
    said = (Traffic(from_="a", at_ns=50),)
    pause = (Pause(member="a", at_ns=3, for_ns=4),)
    scenario = Scenario(members=("a",), traffic=said, pause=pause)
    assert (scenario.horizon_ns(), scenario.undisturbed_ns()) == (50, 7)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"gone\.toml: No such file"):
        load(tmp_path / "gone.toml")


def test_a_file_that_is_not_text_is_refused_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b'members = ["a"]\nname = "\xff"\n')
    with pytest.raises(ScenarioError, match=r"x\.toml:2: not a text file: byte 0xff"):
        load(tmp_path / "x.toml")


OWN_CONFIG = """\
config = { nack_ns_min = 5 }
members = ["a"]
[[member]]
name = "a"
[member.config]
nack_ns_max = 1
"""
LONG_TRAFFIC = """\
members = ["a"]
[[traffic]]
from = "a"
count = 1_000_000
every_ns = 10_000_000_000_000
"""


CHANGES = """\
members = ["a", "b", "c"]
start = "alone"
calm_ns = 5
[[partition]]
at_ns = 1
groups = [["a"], ["b"]]
[[heal]]
at_ns = 2
[[cut]]
at_ns = 3
from = ["a"]
both = true
[[crash]]
member = "a"
at_ns = 4
lose = true
[[restart]]
member = "a"
at_ns = 4
[[leave]]
member = "b"
at_ns = 5
[[imposter]]
member = "c"
beside = "a"
at_ns = 6
incarnation = 0
[[break]]
member = "b"
target = "c"
at_ns = 6
[[reader]]
member = "c"
at_ns = 7
for_ns = 9
level = 2
[[clock]]
member = "c"
at_ns = 7
by_ns = 8
[[busy]]
member = "c"
at_ns = 8
for_ns = 9
cpu_ns = 10
"""


def test_what_changes_views_is_read_as_written_and_written_back() -> None:
    scenario = parse(CHANGES)
    assert scenario == Scenario(
        members=("a", "b", "c"),
        start="alone",
        calm_ns=5,
        partition=(sc.Partition(at_ns=1, groups=(("a",), ("b",))),),
        heal=(sc.Heal(at_ns=2),),
        cut=(sc.Cut(at_ns=3, from_=("a",), both=True),),
        crash=(sc.Crash(member="a", at_ns=4, lose=True),),
        restart=(sc.Restart(member="a", at_ns=4),),
        leave=(sc.PlannedLeave(member="b", at_ns=5),),
        imposter=(sc.Imposter(member="c", beside="a", at_ns=6, incarnation=0),),
        break_=(sc.OperatorBreak(member="b", target="c", at_ns=6),),
        reader=(sc.Reader(member="c", at_ns=7, for_ns=9, level=2),),
        clock=(sc.ClockJump(member="c", at_ns=7, by_ns=8),),
        busy=(sc.Busy(member="c", at_ns=8, for_ns=9, cpu_ns=10),),
    )
    assert parse(to_toml(scenario)) == scenario
    assert scenario.horizon_ns() == scenario.undisturbed_ns() == 17


@pytest.mark.parametrize(
    ("old", "new", "line", "problem", "remedy"),
    [
        ('"alone"', '"apart"', 2, 'start = "apart"', "choose among together, alone"),
        ('[["a"], ["b"]]', "[]", 6, "partition.groups", "a list of length >= 1"),
        ('[["a"], ["b"]]', '[["a"], []]', 6, "partition.groups", "a list of length >= 1"),
        ('[["a"], ["b"]]', '[["a"],\n["b", "a"]]', 7, "'a' is in two groups", "each member once"),
        ('[["a"], ["b"]]', '[["a"],\n["b", "x"]]', 7, "unknown member 'x'", "choose among"),
        ('[["a"], ["b"]]', '["a"]', 6, 'groups = "a"', 'give a list, for example ["a"]'),
        ("[[heal]]", "[heal]", 7, "[heal]", "write [[heal]]"),
        ("at_ns = 2\n", "", 7, "[[heal]] has no 'at_ns'", "add at_ns"),
        ('from = ["a"]', 'from = ["x"]', 11, "unknown member 'x'", "choose among"),
        ("lose = true", "lose = 1", 16, "crash.lose = 1", "must be bool"),
        ('beside = "a"', 'beside = "x"', 25, "unknown member 'x'", "choose among"),
        ('target = "c"', 'target = "x"', 30, "unknown member 'x'", "choose among"),
        ('target = "c"', 'target = "b"', 30, "'b' cannot break with itself", "name another"),
        ('target = "c"\n', "", 28, "[[break]] has no 'target'", "add target"),
        ("[[break]]", "[break]", 28, "[break]", "write [[break]]"),
        ("level = 2", "level = 3", 36, "reader.level = 3", "<= 2"),
        ("level = 2", "level = 0", 36, "reader.level = 0", ">= 1"),
        ('member = "c"\nat_ns = 7\nfor_ns', 'member = "x"\nat_ns = 7\nfor_ns', 33, "'x'", "choose"),
        ("for_ns = 9\nlevel", "level", 32, "[[reader]] has no 'for_ns'", "add for_ns"),
        ("by_ns = 8", "by_ns = -8", 40, "clock.by_ns = -8", ">= 1"),
        ("cpu_ns = 10", "cpu = 10", 45, "unknown key 'cpu' in busy", "cpu_ns"),
        ("incarnation = 0", "incarnation = 100_000", 27, "imposter.incarnation", "<= 99999"),
        (
            "incarnation = 0",
            "incarnation = 1",
            27,
            "'c' has two processes with incarnation 1",
            "give 0, or a number that no restart and no other [[imposter]] of it uses",
        ),
        (
            'member = "c"\nbeside = "a"\nat_ns = 6\nincarnation = 0',
            'member = "a"\nbeside = "b"\nat_ns = 6\nincarnation = 2',
            27,
            "'a' has two processes with incarnation 2",
            "give 0",
        ),
        (
            "[[break]]",
            '[[imposter]]\nmember = "c"\nbeside = "b"\nat_ns = 9\nincarnation = 0\n[[break]]',
            32,
            "'c' has two processes with incarnation 0",
            "give 0",
        ),
        (
            "[[imposter]]",
            "[[member]]\nname = 'c'\nconfig = { order = 'all-ack' }\n[[imposter]]",
            28,
            "'c' and 'a' differ in order or early",
            "the same settings",
        ),
        (
            "at_ns = 4\n[[leave]]",
            "at_ns = 3\n[[leave]]",
            19,
            "'a' is running at 3 ns",
            "a [[restart]] of it needs a [[crash]] or [[leave]] of it before",
        ),
        (
            "[[imposter]]",
            "[[crash]]\nmember = 'b'\nat_ns = 6\n[[crash]]\nmember = 'b'\nat_ns = 7\n[[imposter]]",
            28,
            "'b' is gone at 7 ns",
            "a [[crash]] of it needs a [[restart]] of it before",
        ),
        (
            "[[imposter]]",
            "[[leave]]\nmember = 'b'\nat_ns = 9\n[[imposter]]",
            25,
            "'b' is leaving at 9 ns",
            "a [[leave]] of it needs a [[restart]] of it before",
        ),
    ],
)
def test_a_change_that_cannot_be_played_is_refused_with_line_and_remedy(
    old: str, new: str, line: int, problem: str, remedy: str
) -> None:
    assert old in CHANGES
    with pytest.raises(ScenarioError) as caught:
        parse(CHANGES.replace(old, new, 1), "x.toml")
    assert str(caught.value).startswith(f"x.toml:{line}: "), caught.value
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("settings", "calm"),
    [
        ({}, 0),
        ({"pause": (Pause(member="a", at_ns=1, for_ns=1),)}, 0),
        ({"start": "alone"}, 600 * sc.MS),
        ({"heal": (sc.Heal(at_ns=1),)}, 600 * sc.MS),
        ({"start": "alone", "config": {"hello_ns": 50 * sc.MS}}, 200 * sc.MS),
        ({"start": "alone", "calm_ns": 7}, 7),
    ],
)
def test_a_run_must_stay_calm_where_members_come_and_go(
    settings: dict[str, Any], calm: int
) -> None:
    assert Scenario(members=("a",), **settings).calm() == calm


@pytest.mark.parametrize(
    ("text", "line", "problem", "remedy"),
    [
        # lines
        ('members = ["a"]\n\n[[trafic]]\nfrom = "a"\n', 3, "unknown key 'trafic'", "traffic"),
        ('about = """\n[network]\nloss = 1\n"""\nmembers = ["a"]\nbogus = 1', 6, "bogus", ""),
        ("about = '''\nbogus = 1\n'''\nmembers = ['a']\nbogus = 1", 5, "bogus", ""),
        ('members = ["a"] # bogus = 1\n"bogus" = 1', 2, "bogus", ""),
        ('members = ["a"]\n"x y\\n" = 1', 2, r"unknown key 'x y\n'", "known"),
        ('members = ["a"]\n"x`y" = 1', 2, "unknown key 'x`y'", "known"),
        (
            'members = ["a"]\ntraffic = [\n  { from = "a" },\n  { from = "a", sise = 1 },\n]',
            4,
            "unknown key 'sise' in traffic",
            "size",
        ),
        ('members = [\n  "a",\n  "b",\n  "a",\n]', 4, "'a' is named twice", "once"),
        ('members = [\n  "a",\n  7,\n]', 3, "members = 7", "a string, not int"),
        ('members = ["a"]\n[[link]]\nto = [\n"a",\n"b"]', 5, "unknown member 'b'", ""),
        ('about = "\u2028 \x85"\nmembers = ["a"]\nbogus = 1', 3, "bogus", ""),
        ('members = ["a"]\r\nbogus = 1\r\n', 2, "bogus", ""),
        ('members = ["a"]\nconfig.ordre = 1', 2, "ordre = 1", "unknown setting"),
        ('members = ["a"]\nname = "', 2, "", "TOML"),
        # settings
        (
            'members = ["a"]\n[config]\nwindow_bytes_max = 1',
            3,
            "window_bytes_max = 1 does not go with window_bytes_min = 262144, the default",
            "change window_bytes_max, or set window_bytes_min too",
        ),
        (
            'members = ["a"]\n[config]\nwindow_bytes_max = 1\nwindow_bytes_min = 2',
            4,
            "window_bytes_min = 2",
            "must not exceed window_bytes_max",
        ),
        (
            'members = ["a"]\n[[member]]\nname = "a"\n[member.config]\n\nnack_ns_max = 1',
            6,
            "nack_ns_max = 1 does not go with nack_ns_min = 1000000, the default",
            "",
        ),
        (
            OWN_CONFIG,
            6,
            "nack_ns_min = 5, as [config] says",
            "",
        ),
        ('members = ["a"]\n[config]\nahead_frames_max = true', 3, "= true", "of type int"),
        (
            'members = ["a"]\n[[member]]\nname = "a"\n[member.config]\n\nmode = "hold"',
            6,
            "mode is the same",
            "",
        ),
        # names
        ('members = ["a\\nb"]', 1, r"cannot be called 'a\nb'", "1 to 128 printable characters"),
        ('members = ["a", "\\u2028"]', 1, "cannot be called", "printable"),
        # what TOML or Python cannot hold
        (f'members = ["a"]\nseed = {"9" * 6000}', 2, "thousands of digits", "64 bits"),
        (f'members = ["a"]\nseed = 0x{"f" * 6000}', 2, "seed = a number of more", "64 bits"),
        ('members = ["a"]\nconfig.x = ' + "[" * 5000 + "]" * 5000, 2, "nested", "three levels"),
        ('members = ["a"]\nconfig.x = ' + "[" * 90 + "]" * 90, 2, "nested", "three levels"),
        ('members = ["a"]\n' + "x." * 5000 + "x = 1", 2, "nested", "three levels"),
        # bounds
        ('members = ["a"]\n[[member]]\nname="a"\nclock_ns=1152921504606846977', 4, "clock_ns", ""),
        (
            'members = ["a"]\n[[traffic]]\nfrom = "a"\nsize = 16_777_216\nbatch = 5',
            5,
            "one submission of 5 x 16777216 bytes is too large",
            "67108864 at most",
        ),
        (
            LONG_TRAFFIC,
            2,
            "[[traffic]] goes on until",
            "lower count",
        ),
        # words
        (
            'members = ["a"]\n[[link]]\nfrom = "a"',
            3,
            'link.from = "a"',
            'a list, for example ["a"]',
        ),
        ('members = "a"', 1, 'members = "a"', 'give a list, for example ["a"]'),
        (
            'members = ["a"]\n[[traffic]]\nfrom = "a"\nto = "a"',
            4,
            'to = "a"',
            'choose among all, some, or give a list of members, for example ["a"]',
        ),
        ('members = ["a"]\n[traffic]\nfrom = "a"', 2, "[traffic]", "write [[traffic]]"),
        ('members = ["a"]\n[[network]]', 2, "[[network]]", "write [network], once"),
        ('members = ["a"]\nconfig = 3', 2, "config = 3", "write [config], once"),
        ('members = ["a"]\ntraffic = [3]', 2, "traffic = 3", "write [[traffic]]"),
        ('members = ["a"]\nseed = true', 2, "seed = true", "must be int"),
        ('members = ["a"]\nname = 1979-05-27', 2, "name = 1979-05-27", "a string"),
        ('members = ["a"]\nmembers = ["b"]', 2, "members is given twice", "TOML"),
        ("[network]\n[network]", 2, "[network] is declared twice", "TOML"),
    ],
)
def test_a_complaint_is_one_line_with_the_right_place(
    text: str, line: int, problem: str, remedy: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "x.toml")
    told = str(caught.value)
    assert told.isprintable()
    assert told.startswith(f"x.toml:{line}: "), told
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


def test_the_name_of_a_file_cannot_break_the_line() -> None:
    with pytest.raises(ScenarioError, match=r"a\\nb:1: "):
        parse("x = 1", "a\nb")


WORDS = (
    *("[", "]", "{", "}", ",", "=", "\n", ".", '"', "'", '"""', "#", " ", "\\", "\u2028", "\x85"),
    *("members", "a", '["a"]', "traffic", "[[traffic]]", "config", "1", "-1", "true", "0x1f"),
)


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.booleans())
def test_any_text_is_a_scenario_or_refused_in_one_line(words: list[str], whole: bool) -> None:
    text = ('members = ["a"]\n' if whole else "") + "".join(words)
    problem, line = "", 1
    try:
        parse(text, "x.toml")
    except ScenarioError as error:
        problem, line = str(error), error.line or 0
    assert problem.isprintable()
    assert 1 <= line <= text.count("\n") + 1


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
