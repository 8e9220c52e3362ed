"""The names in front of a message: who takes it, and bytes that are no message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.mserver.addressed_message import NAMES_MAX, addressed, for_me


def test_a_message_is_taken_by_those_that_it_names_and_by_all_if_it_names_nobody() -> None:
    whole = addressed(("top-1", "züri"), b"body")
    assert [for_me(name, whole) for name in ("top-1", "züri", "")] == [b"body"] * 3
    assert [for_me(name, whole) for name in ("top", "top-11")] == ["other-recipient"] * 2
    assert for_me("anyone", addressed((), b"body")) == b"body"
    many = tuple(f"m{n}" for n in range(NAMES_MAX + 1))
    assert for_me("anyone", addressed(many, b"body")) == b"body"


@pytest.mark.parametrize("data", [b"", b"\x41", b"\x01", b"\x01\x05abcd", b"\x02\x01a", b"\xff"])
def test_bytes_that_name_nobody_properly_are_malformed(data: bytes) -> None:
    assert for_me("a", data) == "malformed"


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    assert isinstance(for_me("a", data), bytes | str)
