"""`phalanx history`: lines about views, from rows that are made up. The commands themselves are
tested in tests/pipeline/history."""

from __future__ import annotations

from typing import Any

from phalanx.cli.history import view_texts


def view(view: str, at_ns: int, members: dict[str, int], lost: list[str]) -> dict[str, Any]:
    return {
        "cluster": "c",
        "run": "r",
        "view": view,
        "from_sim_ns": at_ns,
        "from_wall_ns": None,
        "causes": ["removal" if lost else "join"],
        "members": list(members),
        "member_incarnations": list(members.values()),
        "lost": lost,
        "absent": [],
    }


def test_a_member_is_its_name_until_it_comes_back() -> None:
    first = view("1.0:aa", 0, {"ada": 1763355123456, "bea": 1763355123999}, [])
    gone = view("1.1:bb", 5, {"ada": 1763355123456}, ["bea.1763355123999"])
    assert [line.split()[2:] for line in view_texts([first])] == [["join", "ada", "bea"]]
    assert view_texts([first, gone])[-1] == "    without bea"
    back = view("2.0:cc", 9, {"ada": 1763355123456, "bea": 1763355200001}, [])
    texts = view_texts([first, gone, back])
    assert texts[0].endswith("ada bea.3999")
    assert texts[2] == "    without bea.3999"
    assert texts[3].endswith("ada bea.0001")
