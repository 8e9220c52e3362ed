"""Names and incarnations, with and without a state directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.core.ids import INCARNATION_MAX
from phalanx.errors import ConfigurationError, NameInUse, StateError
from phalanx.runtime.identity import default_name, identify

NOW_MS = 1_800_000_000_000
"""What the wall clock shows in these tests, in milliseconds."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the wall clock, which then stands still."""

    def set_to(ms: int) -> None:
        monkeypatch.setattr("phalanx.runtime.identity.time.time_ns", lambda: ms * 1_000_000 + 7)

    return set_to


def life(state: Path | None, above: int = 0) -> int:
    """The incarnation of the next life of ada."""
    identity = identify("c", "g", "ada", None if state is None else str(state), above)
    identity.close()
    assert identity.member.name == "ada"
    return identity.member.incarnation


def test_each_life_in_a_state_directory_has_a_later_incarnation(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    clock(NOW_MS)
    assert [life(tmp_path) for _ in range(3)] == [NOW_MS, NOW_MS + 1, NOW_MS + 2]
    clock(NOW_MS + 500)
    assert life(tmp_path) == NOW_MS + 500


def test_a_clock_that_was_set_back_repeats_no_incarnation_of_a_state_directory(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    clock(NOW_MS)
    first = life(tmp_path)
    for ms in (NOW_MS - 3_600_000, 0, -5):
        clock(ms)
        first, before = life(tmp_path), first
        assert first == before + 1


def test_a_state_directory_that_was_lost_repeats_no_incarnation(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    clock(NOW_MS)
    used = {life(tmp_path / "one") for _ in range(3)}
    clock(NOW_MS + 60_000)
    assert life(tmp_path / "another") > max(used)


def test_lives_with_and_without_a_state_directory_can_be_compared(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    clock(NOW_MS)
    first = life(None)
    clock(NOW_MS + 1)
    second = life(tmp_path)
    clock(NOW_MS + 2)
    assert first < second < life(None)


def test_an_incarnation_that_was_used_is_passed_over_and_remembered(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    clock(NOW_MS)
    assert life(None, above=NOW_MS + 9) == NOW_MS + 10
    assert life(tmp_path, above=NOW_MS + 9) == NOW_MS + 10
    assert life(tmp_path) == NOW_MS + 11
    assert life(tmp_path, above=5) == NOW_MS + 12


def test_a_counter_of_earlier_releases_is_passed(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    clock(NOW_MS)
    life(tmp_path)
    _edit(tmp_path, incarnation=41)
    assert life(tmp_path) == NOW_MS


def test_a_counter_that_is_used_up_is_refused(tmp_path: Path) -> None:
    life(tmp_path)
    _edit(tmp_path, incarnation=INCARNATION_MAX)
    with pytest.raises(StateError, match="used up"):
        life(tmp_path)


def _edit(state: Path, **facts: object) -> None:
    (kept,) = state.glob("*.json")
    kept.write_text(json.dumps({**json.loads(kept.read_text()), **facts}))


def test_names_groups_and_clusters_are_counted_apart(tmp_path: Path) -> None:
    opened = [
        identify("c", "g", "ada", str(tmp_path)),
        identify("c", "g", "bob", str(tmp_path)),
        identify("c", "h", "ada", str(tmp_path)),
        identify("d", "g", "ada", str(tmp_path)),
    ]
    assert len(list(tmp_path.glob("*.json"))) == 4
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
    (kept,) = tmp_path.glob("*.json")
    assert json.loads(kept.read_text())["incarnation"] == first.member.incarnation


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
    with pytest.raises(StateError, match="of another member"):
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
