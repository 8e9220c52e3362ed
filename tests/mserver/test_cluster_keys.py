"""The key file of a cluster: what is in it, what is refused, and how it is read again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from phalanx.errors import NetworkError
from phalanx.mserver.cluster_keys import KEYS_MAX, REFRESH_NS, KeyRing

WAIT_SECONDS = 30
KEY = "0123456789abcdef" * 4


def ring(path: Path, text: str, cluster: str = "test") -> KeyRing:
    path.write_text(text)
    return KeyRing(path, cluster)


def test_the_same_file_gives_the_same_keys_and_another_cluster_others(tmp_path: Path) -> None:
    one = ring(tmp_path / "one", f"# ours\n{KEY}\n\n  {KEY[::-1]}  \n")
    two = ring(tmp_path / "two", f"{KEY}\n{KEY[::-1]}")
    assert list(one.keys.values()) == list(two.keys.values())
    assert one.first == next(iter(one.keys.values()))
    assert ring(tmp_path / "three", KEY, "other").first not in one.keys.values()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it holds no key"),
        ("# only a comment\n", "it holds no key"),
        ("short\n", "a key has 5 bytes, and 32 are the least"),
        ("\n".join(f"{n:064}" for n in range(KEYS_MAX + 1)), "it holds 9 keys"),
    ],
)
def test_a_file_without_good_keys_is_one_error(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=problem):
        ring(tmp_path / "key", text)


def test_a_file_that_is_missing_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="No such file"):
        KeyRing(tmp_path / "key", "test")


def test_a_file_that_becomes_bad_leaves_the_keys_as_they_were(tmp_path: Path) -> None:
    keys = ring(tmp_path / "key", KEY)
    before = keys.keys
    now = 0

    def changed() -> bool:
        """Look at the file at a later time, and wait until it has been read."""
        nonlocal now
        now += REFRESH_NS
        assert not keys.refresh(now)
        end = time.monotonic() + WAIT_SECONDS
        while keys._reading is not None:
            assert time.monotonic() < end
            if keys.refresh(now):
                return True
            time.sleep(0.001)
        return False

    assert not changed()
    (tmp_path / "key").write_text("short")
    assert not changed()
    assert "a key has 5 bytes" in keys.problem
    (tmp_path / "key").unlink()
    assert not changed()
    assert keys.keys == before
    (tmp_path / "key").write_text(KEY[::-1])
    assert not keys.refresh(now)  # looked a moment ago
    assert changed()
    assert (keys.problem, keys.keys.keys() & before.keys()) == ("", set())
