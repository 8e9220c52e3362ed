"""Loss and repeats by link: by hand, and against the loss that a simulator made."""

from __future__ import annotations

import pytest
from tests.pipeline.made import Hand, of_rows, rows_of

from phalanx.journal import schema as ev
from phalanx.pipeline.group_tables import groups_of_rows
from phalanx.pipeline.measures.links import links
from phalanx.sim.run import run
from phalanx.sim.scenario.model import MS, LinkSettings, Scenario, Traffic


def counted(hand: Hand, at: int, view: str, peer: str, *numbers: int) -> None:
    names = ("frames", "missed", "asked", "repeated")
    hand.put(
        at,
        ev.LinkStats,
        peer=peer,
        peer_incarnation=1,
        view=view,
        **dict(zip(names, numbers, strict=True)),
    )


def test_a_link_is_the_sum_of_its_views_and_knows_what_the_peer_repeated() -> None:
    ada, bea = Hand("ada.1", "made"), Hand("bea.1", "made", boot="two")
    counted(ada, 1, "v1", "bea", 10, 1, 1, 0)
    counted(ada, 2, "v1", "bea", 30, 2, 3, 5)
    counted(ada, 3, "v2", "bea", 10, 2, 2, 1)
    counted(ada, 4, "v2", "cyd", 0, 0, 0, 0)
    counted(ada, 5, "v2", "dov", 25, 57, 0, 0)
    counted(ada, 6, "v2", "eli", 0, 3, 0, 0)
    counted(bea, 9, "v1", "ada", 50, 0, 0, 4)
    (group,) = groups_of_rows([ada.journal, bea.journal])
    found = links(group)
    assert rows_of(found, "peer", "member", "frames", "missed", "asked", "repeated", "loss") == [
        ("ada", "bea", 50, 0, 0, 6, 0.0),
        ("bea", "ada", 40, 4, 5, 4, 0.1),
        ("cyd", "ada", 0, 0, 0, None, None),
        ("dov", "ada", 25, 57, 0, None, 1.0),
        ("eli", "ada", 0, 3, 0, None, 1.0),
    ]


def test_the_loss_of_a_link_is_about_what_the_network_lost() -> None:
    names = ("ada", "bea", "cyd")
    scenario = Scenario(
        name="lossy",
        members=names,
        link=(LinkSettings(from_=("ada",), to=("bea",), loss_ppm=200_000),),
        traffic=tuple(Traffic(from_=name, count=300, every_ns=2 * MS) for name in names),
    )
    played = run(scenario)
    assert not played.failed
    (group,) = groups_of_rows(of_rows(played.rows))
    found = links(group)
    loss = {(row.peer, row.member): row.loss for row in found}
    assert len(loss) == 6
    assert loss.pop(("ada", "bea")) == pytest.approx(0.2, abs=0.06)
    assert set(loss.values()) == {0}
    repeated = {(row.peer, row.member): row.repeated for row in found}
    assert (repeated["ada", "bea"] or 0) > 30
