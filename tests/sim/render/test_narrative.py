"""Stories of failures: readable, bounded, and pointing at the rows that matter."""

from __future__ import annotations

from phalanx.core.effects import Deliver, Effect, Input
from phalanx.core.member.member import Member
from phalanx.sim.render.narrative import LINES_MAX, story
from phalanx.sim.run import run
from phalanx.sim.scenario.model import MS, Crash, Scenario, Traffic

SCENARIO = Scenario(
    members=("a", "b", "c"),
    traffic=tuple(Traffic(from_=m, count=40, every_ns=MS) for m in ("a", "b")),
)


class Repeating(Member):
    """Delivers every agreed message twice at c."""

    def step(self, now: int, given: Input) -> list[Effect]:
        effects = super().step(now, given)
        if self.me.name != "c":
            return effects
        return [*effects, *(e for e in effects if isinstance(e, Deliver))]


class Deaf(Member):
    """Never settles."""

    @property
    def settled(self) -> bool:
        return False


def test_a_run_without_failure_has_no_story() -> None:
    assert story(run(SCENARIO)) == []


def test_a_violation_is_told_with_the_rows_around_it() -> None:
    lines = story(run(SCENARIO, Repeating))
    assert lines[0].startswith("no-duplication: ") or "no-duplication" in "\n".join(lines)
    assert any(line.startswith(" >") and "delivers" in line for line in lines)
    assert any(" ms  c  delivers a#" in line for line in lines)
    assert len(lines) <= LINES_MAX


def test_a_stuck_run_is_told_by_its_members() -> None:
    scenario = Scenario(members=("a", "b"), patience_ns=50 * MS, traffic=(Traffic(from_="a"),))
    lines = story(run(scenario, Deaf))
    assert lines[0].startswith("stuck: not settled")
    assert any("a.1" in line for line in lines)


def test_an_exception_is_told_with_the_last_rows() -> None:
    class Fragile(Member):
        def step(self, now: int, given: Input) -> list[Effect]:
            assert now < 5 * MS, "broke on purpose"
            return super().step(now, given)

    lines = story(run(SCENARIO, Fragile))
    assert lines[0].startswith("exception")
    assert any("broke on purpose" in line for line in lines)
    assert any("delivers" in line for line in lines)


def test_a_stuck_run_with_changes_tells_the_last_of_them() -> None:
    crash = (Crash(member="b", at_ns=50 * MS),)
    scenario = Scenario(members=("a", "b"), start="alone", patience_ns=50 * MS, crash=crash)
    lines = story(run(scenario, Deaf))
    assert lines[0].startswith("stuck: not settled")
    assert "what changed last:" in lines
    assert any("life     CRASH" in line for line in lines)
