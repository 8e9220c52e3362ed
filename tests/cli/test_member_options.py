"""Events as lines of text and as JSON, as `phalanx node` prints them."""

from __future__ import annotations

import pytest

import phalanx
from phalanx.cli.member_options import as_row, as_text
from phalanx.core.ids import MemberId, ViewId

BEA = MemberId("bea", 7)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (phalanx.NotSent(1, 2, (BEA,), 3), "messages 1 to 2 do not go to bea"),
        (phalanx.NotSent(1, 2, (BEA,)), "messages 1 to 2 do not go to anybody: bea left the view"),
        (phalanx.NotSent(1, 2, (BEA,), 3, True), "messages 1 to 2 may not have reached bea"),
        (
            phalanx.NotSent(1, 2, (BEA,), sent=True),
            "messages 1 to 2 may not have reached anybody: bea left the view",
        ),
    ],
)
def test_messages_that_were_sent_may_have_reached_a_lost_receiver(
    event: phalanx.NotSent, text: str
) -> None:
    assert as_text(event) == text
    assert as_row(event)["sent"] is event.sent


def test_a_view_names_the_view_before_it() -> None:
    first, second = ViewId(0, 0, b"12345678"), ViewId(1, 0, b"12345679")
    assert as_row(phalanx.View(id=first, members=(BEA,)))["previous"] is None
    later = phalanx.View(id=second, members=(BEA,), previous=first)
    assert as_row(later)["previous"] == str(first)
