"""Ways through a world as text: written, read, played."""

from __future__ import annotations

import pytest

from phalanx.core.effects import Service
from phalanx.errors import ConfigurationError, FileError
from phalanx.explore.process_state import Action
from phalanx.explore.state_space import Options
from phalanx.explore.trace_script import (
    Player,
    TraceScript,
    explained,
    header,
    line,
    parse,
    start_of,
)

JOINED: tuple[Action, ...] = (
    ("attempt", 0, 1, 0),
    ("deliver", 1, 0, 0),
    ("deliver", 0, 1, 0),
    ("collect", 0, 0, 0),
    ("deliver", 1, 0, 0),
    ("deliver", 0, 1, 0),
)
TWO = Options(members=2, attempts=2)


def test_a_script_comes_back_as_it_went() -> None:
    options = Options(
        members=3,
        start=((0, 2), (1,)),
        attempts=2,
        suspicions=1,
        data=1,
        mode="flow",
        service=Service.SAFE,
        young=True,
    )
    path: tuple[Action, ...] = (("data", 1, 0, 0), ("fetch", 1, 2, 3), ("settle", 0, 0, 0))
    lines = ["# why", *header(options, "some-mutant"), "", *map(line, path), "collect 0  # note"]
    script = parse("\n".join(lines), "x")
    assert script == TraceScript(options, (*path, ("collect", 0, 0, 0)), "some-mutant")


def test_a_path_is_explained_with_what_it_brings_about() -> None:
    text = explained(TWO, JOINED)
    assert text[0] == "attempt 0 1"
    assert text[1] == "    # m0 sends AJ of m0"
    assert "deliver 1 0        # AJ of m0" in text
    installs = [row for row in text if "installs" in row]
    assert [row.split()[1] for row in installs] == ["m1", "m0"]
    assert all(row.endswith("m0 m1 (join)") for row in installs)


def test_what_is_explained_can_be_read_again() -> None:
    script = parse("\n".join([*header(TWO), "", *explained(TWO, JOINED)]), "x")
    assert script.path == JOINED
    assert script.options.components == TWO.components


def test_a_player_says_what_is_wrong_by_now() -> None:
    player = Player(TWO)
    for action in JOINED:
        player.play(action)
    assert player.finding() is None


def test_what_cannot_happen_is_refused_with_what_can() -> None:
    player = Player(TWO)
    with pytest.raises(LookupError, match="'collect 0' cannot happen here; attempt 0 1, att"):
        player.play(("collect", 0, 0, 0))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("members 2\n\njump 0", "x:3: unknown action 'jump'"),
        ("members 2\n\ndeliver 0", "x:3: 'deliver 0' is no action; write deliver and 2 numbers"),
        ("members 2\n\ncollect x", "x:3: 'collect x' is no action; write collect and 1 number"),
        ("members 2\nspeed 3\n", "x: unknown setting 'speed'"),
        ("members 9", "x: bad setting: members 9"),
        ("members 2\nstart 0,1|2", "x: bad setting: start = '0,1|2'"),
        ("members 2\nservice swift", "x: bad setting: 'SWIFT'"),
        ("members 2\ndata many", "x: bad setting: invalid literal"),
    ],
)
def test_a_bad_script_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(FileError) as caught:
        parse(text, "x")
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("text", ["0", "0,1", "0|1|2|3", "0,0|1,2", "a|b", "", "0,1,2,"])
def test_components_name_everybody_once(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"name each of 0 to 2 once, for example 0,1\|2"):
        start_of(text, 3)


def test_components_are_read() -> None:
    assert start_of("2,0|1", 3) == ((0, 2), (1,))
