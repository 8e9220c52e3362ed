"""docs/service/calls.md is what the table of calls gives now."""

from __future__ import annotations

import pytest
from tools import service_calls

from phalanx.service.calls.call_table import CALLS


def test_the_page_of_calls_is_up_to_date() -> None:
    written = (service_calls.ROOT / service_calls.PAGE).read_text(encoding="utf-8")
    assert written == service_calls.page()


@pytest.mark.parametrize("call", CALLS)
def test_the_page_shows_every_argument_and_error_of_a_call(call: str) -> None:
    spec = CALLS[call]
    shown = service_calls.section(spec)
    for word in (*(a.name for a in spec.arguments), *spec.errors, *spec.result, spec.right or ""):
        assert word in shown
