"""A member that hears another only through a third gets its frames from there, without asking."""

from __future__ import annotations

import pytest

from phalanx.core.member.control_plane import ControlPlane
from phalanx.journal.schema import LinkStats as LinkRow
from phalanx.sim.run import run
from phalanx.sim.scenario.model import MS, LinkSettings, Network, Scenario, Traffic

DEAD_ONE_WAY = Scenario(
    name="dead one way",
    members=("ada", "bea", "cyd"),
    seed=1,
    changes_max=0,
    network=Network(delay_ns=100_000),
    link=(LinkSettings(from_=("ada",), to=("bea",), loss_ppm=1_000_000),),
    traffic=tuple(
        Traffic(from_=name, at_ns=10 * MS, count=500, every_ns=5 * MS, service="safe")
        for name in ("ada", "bea")
    ),
)


def missed() -> float:
    """The share of ada's frames that bea knew of before they came."""
    result = run(DEAD_ONE_WAY)
    assert result.signature == ()
    rows = [row for row in result.rows if isinstance(row, LinkRow) and row.member == "bea"]
    last = [row for row in rows if row.peer == "ada"][-1]
    assert last.frames >= 500
    return last.missed / last.frames


def test_frames_of_a_member_that_is_not_heard_are_relayed() -> None:
    assert missed() < 0.5


def test_without_relays_every_frame_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControlPlane, "forwards", lambda self, now, member: False)
    assert missed() > 0.95
