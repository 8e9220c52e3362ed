"""Whom a member was in a view with."""

from __future__ import annotations

import pytest

from phalanx.core.ids import MemberId
from phalanx.core.membership import members_met
from phalanx.core.membership.members_met import MembersMet

ANN, BOB, EVE = (MemberId(name) for name in ("ann", "bob", "eve"))


def test_members_of_any_view_are_met_but_not_oneself() -> None:
    met = MembersMet(ANN)
    met.add((ANN, BOB))
    met.add((ANN, EVE))
    assert BOB in met
    assert EVE in met
    assert ANN not in met


def test_another_incarnation_is_another_member() -> None:
    met = MembersMet(ANN)
    met.add((ANN, BOB))
    assert MemberId("bob", 2) not in met


def test_those_met_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members_met, "MEMBERS_MET_MAX", 2)
    met = MembersMet(ANN)
    met.add((BOB, EVE))
    met.add((BOB,))
    met.add((MemberId("zoe"),))
    assert [m in met for m in (BOB, EVE, MemberId("zoe"))] == [True, False, True]
