"""`kill -9` of processes of the membership service while clients call groups without faults."""

from __future__ import annotations

from typing import Any

import pytest
from bench.service_kills import killed

pytestmark = pytest.mark.xdist_group("mserver-processes")
NEW_VIEW_SECONDS = 3.0


def checked(found: dict[str, Any]) -> dict[str, Any]:
    assert (found["refused"], found["violations"]) == ([], [])
    assert found["notices"] > 0
    return found


def test_a_machine_that_dies_is_out_of_its_groups_and_no_other_call_is_refused() -> None:
    """A LAN mserver and the interface of its host."""
    pytest.importorskip("cryptography")
    [fault] = checked(killed("host", (2, 1)))["faults"]
    assert fault["calls"] > 0
    assert fault["new_view_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["each", "level", "lans", "host"])
def test_calls_of_groups_without_faults_are_never_refused(scenario: str) -> None:
    """The bound on a new view is monitor, replies, grace and two rounds for each level."""
    pytest.importorskip("cryptography")
    found = checked(killed(scenario))
    if scenario == "lans":  # what the others may lose: docs/results/2026-11-20-service-real.md
        assert found["ended"] == []
    for fault in found["faults"]:
        assert fault["calls"] > 0
        assert fault.get("new_view_s", 0.0) < NEW_VIEW_SECONDS, fault


@pytest.mark.slow
def test_a_restart_of_every_process_loses_no_name_view_or_directive() -> None:
    pytest.importorskip("cryptography")
    found = checked(killed("restart"))
    assert len(found["faults"]) == 15
