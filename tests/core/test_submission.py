"""The check of a submission that the runtime and the core share."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.core.ids import MemberId
from phalanx.core.submission import check_submission
from phalanx.errors import (
    MessageTooLarge,
    NoReceiver,
    NotBytes,
    SubmissionError,
    UnknownMember,
)

ADA, BEA, CYD = MemberId("ada"), MemberId("bea"), MemberId("cyd")


@pytest.mark.parametrize("to", [None, (ADA,), (ADA, BEA), [BEA, BEA]])
def test_a_submission_that_can_be_sent_gives_its_lengths(to: Any) -> None:
    assert check_submission([b"", b"abc", b"x" * 10], to, (ADA, BEA), 10) == [0, 3, 10]


def test_no_messages_are_a_submission_too() -> None:
    assert check_submission([], None, (ADA,), 10) == []


@pytest.mark.parametrize(
    ("bodies", "to", "error"),
    [
        ([b"a", "b"], None, NotBytes),
        ([bytearray(b"a")], None, NotBytes),
        ([b"x" * 11], None, MessageTooLarge),
        ([b"x"], (), NoReceiver),
        ([b"x"], (ADA, CYD), UnknownMember),
    ],
)
def test_each_mistake_has_its_error(bodies: Any, to: Any, error: type[SubmissionError]) -> None:
    with pytest.raises(error):
        check_submission(bodies, to, (ADA, BEA), 10)


def test_an_unknown_member_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UnknownMember) as raised:
        check_submission([b"x"], (CYD,), (ADA, BEA), 10)
    assert (raised.value.name, raised.value.known) == (str(CYD), (str(ADA), str(BEA)))
