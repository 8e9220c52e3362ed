"""Names and incarnations, with and without a state directory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from phalanx.engine.identity import default_name, identify
from phalanx.errors import ConfigurationError, NameInUse, StateError


def test_each_life_in_a_state_directory_has_the_next_incarnation(tmp_path: Path) -> None:
    for life in (1, 2, 3):
        identity = identify("c", "g", "ada", str(tmp_path))
        assert (identity.member.name, identity.member.incarnation) == ("ada", life)
        identity.close()


def test_names_groups_and_clusters_are_counted_apart(tmp_path: Path) -> None:
    opened = [
        identify("c", "g", "ada", str(tmp_path)),
        identify("c", "g", "bob", str(tmp_path)),
        identify("c", "h", "ada", str(tmp_path)),
        identify("d", "g", "ada", str(tmp_path)),
    ]
    assert {identity.member.incarnation for identity in opened} == {1}
    for identity in opened:
        identity.close()


def test_a_name_that_is_held_cannot_be_taken_twice(tmp_path: Path) -> None:
    first = identify("c", "g", "ada", str(tmp_path))
    with pytest.raises(NameInUse, match=rf"'ada'.*pid {os.getpid()}"):
        identify("c", "g", "ada", str(tmp_path))
    first.close()
    first.close()
    identify("c", "g", "ada", str(tmp_path)).close()


def test_a_name_that_was_refused_costs_no_incarnation_and_no_descriptor(tmp_path: Path) -> None:
    first = identify("c", "g", "ada", str(tmp_path))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(NameInUse):
            identify("c", "g", "ada", str(tmp_path))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    first.close()
    second = identify("c", "g", "ada", str(tmp_path))
    assert second.member.incarnation == 2
    second.close()


def test_a_damaged_state_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    identify("c", "g", "ada", str(tmp_path)).close()
    (kept,) = tmp_path.glob("*.json")
    kept.write_bytes(kept.read_bytes()[:-4])
    with pytest.raises(StateError, match=r"damaged.*restore"):
        identify("c", "g", "ada", str(tmp_path))


def test_a_state_file_of_another_member_is_refused(tmp_path: Path) -> None:
    identify("c", "g", "ada", str(tmp_path)).close()
    (kept,) = tmp_path.glob("*.json")
    facts = json.loads(kept.read_text())
    kept.write_text(json.dumps({**facts, "name": "bob"}))
    with pytest.raises(StateError, match="another member's"):
        identify("c", "g", "ada", str(tmp_path))


def test_a_state_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StateError, match="give a directory"):
        identify("c", "g", "ada", str(file))
    with pytest.raises(StateError, match="give a directory"):
        identify("c", "g", "ada", str(file / "below"))


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 200])
def test_a_name_that_cannot_travel_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="name ="):
        identify("c", "g", name, None)


def test_without_a_state_directory_a_later_life_has_a_higher_incarnation() -> None:
    first = identify("c", "g", "ada", None).member
    assert first.incarnation > 1_700_000_000_000
    assert identify("c", "g", "ada", None).member.incarnation >= first.incarnation


def test_a_name_is_made_of_host_and_process() -> None:
    assert default_name().endswith(f"-{os.getpid()}")
