"""Shrinking: smaller, still failing, within its budget."""

from __future__ import annotations

import msgspec

from phalanx.core.effects import Deliver, Effect, Input
from phalanx.core.member.member import Member
from phalanx.sim.generators.fixed_view import random_scenario
from phalanx.sim.run import run
from phalanx.sim.scenario import model as sc
from phalanx.sim.scenario.model import Burst, LinkSettings, Pause, Scenario, Traffic
from phalanx.sim.scenario.toml_file import parse, to_toml
from phalanx.sim.scenario.validation import flaw_of
from phalanx.sim.shrink import fails_like, shrink, without_member


def needs_two_speakers_and_loss(scenario: Scenario) -> bool:
    speakers = {t.from_ for t in scenario.traffic if t.service in ("any", "safe")}
    return len(speakers) >= 2 and scenario.network.loss_ppm > 0


def test_everything_that_does_not_matter_is_dropped() -> None:
    seed = next(s for s in range(99) if needs_two_speakers_and_loss(random_scenario(s, 4, 8)))
    small = shrink(random_scenario(seed, 4, 8), needs_two_speakers_and_loss).scenario
    assert needs_two_speakers_and_loss(small)
    assert len(small.members) == 2
    assert [t.count for t in small.traffic] == [1, 1]
    assert (small.link, small.pause, small.burst, small.garbage, small.member) == ((),) * 5
    assert small.config == {}
    assert small.network.jitter_ns == 0
    assert parse(to_toml(small)) == small


def test_shrinking_stops_when_its_runs_are_used_up() -> None:
    calls: list[Scenario] = []

    def fails(scenario: Scenario) -> bool:
        calls.append(scenario)
        return True

    assert shrink(random_scenario(5), fails, runs_max=7).runs == 7
    assert len(calls) == 7


def test_what_cannot_shrink_comes_back_as_it_was() -> None:
    scenario = random_scenario(5)
    assert shrink(scenario, lambda _: False).scenario == scenario


def test_a_member_leaves_no_trace_when_it_is_dropped() -> None:
    scenario = Scenario(
        members=("a", "b", "c"),
        traffic=(
            Traffic(from_="a", to=("b", "c")),
            Traffic(from_="c"),
            Traffic(from_="b", to=("c",)),
        ),
        pause=(Pause(member="c", at_ns=1, for_ns=1),),
        link=(LinkSettings(from_=("a", "c")), LinkSettings(to=("c",)), LinkSettings()),
        burst=(Burst(at_ns=1, for_ns=1, to=("c",)),),
    )
    left = without_member(scenario, "c")
    assert flaw_of(left) is None
    assert left == Scenario(
        members=("a", "b"),
        traffic=(Traffic(from_="a", to=("b",)),),
        link=(LinkSettings(from_=("a",)), LinkSettings()),
    )


def test_a_member_leaves_no_trace_in_what_changes_views() -> None:
    scenario = Scenario(
        members=("a", "b", "c"),
        partition=(
            sc.Partition(at_ns=1, groups=(("a", "c"),)),
            sc.Partition(at_ns=2, groups=(("b",), ("c",))),
            sc.Partition(at_ns=3, groups=(("c",),)),
        ),
        cut=(sc.Cut(at_ns=1, from_=("c",)), sc.Cut(at_ns=2, to=("b", "c"))),
        crash=(sc.Crash(member="c", at_ns=1), sc.Crash(member="a", at_ns=1)),
        restart=(sc.Restart(member="c", at_ns=2),),
        leave=(sc.PlannedLeave(member="c", at_ns=3),),
        imposter=(
            sc.Imposter(member="c", at_ns=1, beside="a"),
            sc.Imposter(member="a", at_ns=1, beside="c"),
            sc.Imposter(member="a", at_ns=1, beside="b"),
        ),
        break_=(
            sc.OperatorBreak(member="c", target="a", at_ns=1),
            sc.OperatorBreak(member="a", target="c", at_ns=1),
            sc.OperatorBreak(member="a", target="b", at_ns=1),
        ),
        reader=(
            sc.Reader(member="c", at_ns=1, for_ns=1),
            sc.Reader(member="b", at_ns=1, for_ns=1),
        ),
        clock=(sc.ClockJump(member="c", at_ns=1, by_ns=1),),
        busy=(sc.Busy(member="c", at_ns=1, for_ns=1, cpu_ns=1),),
    )
    assert flaw_of(scenario) is None
    left = without_member(scenario, "c")
    assert flaw_of(left) is None
    assert left == Scenario(
        members=("a", "b"),
        partition=(
            sc.Partition(at_ns=1, groups=(("a",),)),
            sc.Partition(at_ns=2, groups=(("b",),)),
        ),
        cut=(sc.Cut(at_ns=2, to=("b",)),),
        crash=(sc.Crash(member="a", at_ns=1),),
        imposter=(sc.Imposter(member="a", at_ns=1, beside="b"),),
        break_=(sc.OperatorBreak(member="a", target="b", at_ns=1),),
        reader=(sc.Reader(member="b", at_ns=1, for_ns=1),),
    )


def test_what_lasts_a_while_becomes_shorter_and_what_is_odd_plainer() -> None:
    scenario = Scenario(
        members=("a", "b"),
        pause=(Pause(member="a", at_ns=1, for_ns=900 * sc.MS),),
        reader=tuple(sc.Reader(member="a", at_ns=t, for_ns=40 * sc.MS, level=2) for t in (1, 2)),
        cut=(sc.Cut(at_ns=1, for_ns=400 * sc.MS), sc.Cut(at_ns=2)),
        imposter=(sc.Imposter(member="a", at_ns=1, beside="b", incarnation=7),),
        break_=tuple(sc.OperatorBreak(member="a", target="b", at_ns=t) for t in (1, 2)),
    )

    def all_there(s: Scenario) -> bool:
        tables = (s.pause, s.reader, s.imposter, s.break_, s.cut[1:])
        return all(tables) and s.pause[0].for_ns >= 100 * sc.MS

    small = shrink(scenario, all_there).scenario
    assert small.pause == (Pause(member="a", at_ns=1, for_ns=900 * sc.MS // 8),)
    (reader,) = small.reader
    assert (reader.level, reader.for_ns < sc.MS) == (1, True)
    assert small.imposter == (sc.Imposter(member="a", at_ns=1, beside="b"),)
    assert len(small.break_) == 1
    assert [cut.for_ns is None or cut.for_ns < sc.MS for cut in small.cut] == [True, True]


def test_lives_shrink_though_their_ends_and_beginnings_need_each_other() -> None:
    def crashed_twice(scenario: Scenario) -> bool:
        return len([c for c in scenario.crash if c.member == "b"]) == 2

    scenario = Scenario(
        members=("a", "b", "c"),
        start="alone",
        crash=tuple(sc.Crash(member=m, at_ns=t) for m in ("a", "b") for t in (1, 3, 5)),
        restart=tuple(sc.Restart(member=m, at_ns=t) for m in ("a", "b") for t in (2, 4)),
        leave=(sc.PlannedLeave(member="c", at_ns=2),),
        heal=(sc.Heal(at_ns=9),),
    )
    assert flaw_of(scenario) is None
    two = Scenario(**{**msgspec.structs.asdict(scenario), "crash": scenario.crash[:5]})
    small = shrink(two, crashed_twice).scenario
    assert [(c.member, c.at_ns) for c in small.crash] == [("b", 1), ("b", 3)]
    assert [(r.member, r.at_ns) for r in small.restart] == [("b", 2)]
    assert (small.leave, small.heal, small.members, small.start) == ((), (), ("b",), "together")


def test_cuts_shrink_to_the_one_that_matters() -> None:
    cuts = tuple(sc.Cut(at_ns=t, from_=("a",)) for t in range(8))
    scenario = Scenario(
        members=("a", "b"),
        cut=cuts,
        partition=(sc.Partition(at_ns=1, groups=(("a",),)),),
        heal=(sc.Heal(at_ns=5), sc.Heal(at_ns=9)),
    )
    small = shrink(scenario, lambda s: cuts[5] in s.cut and bool(s.heal)).scenario
    assert (small.cut, small.partition, len(small.heal)) == ((cuts[5],), (), 1)


def test_a_real_failure_shrinks_to_one_with_the_same_property() -> None:
    class Repeating(Member):
        """Delivers every safe message twice."""

        def step(self, now: int, given: Input) -> list[Effect]:
            effects = super().step(now, given)
            again = [e for e in effects if isinstance(e, Deliver) and e.service == 3]
            return [*effects, *again]

    scenario = random_scenario(3, 3, 4)
    scenario = parse(to_toml(scenario).replace('service = "causal"', 'service = "safe"'))
    result = run(scenario, Repeating)
    assert "no-duplication" in result.violated
    fails = fails_like(result, lambda smaller: run(smaller, Repeating))
    small = shrink(scenario, fails, runs_max=60).scenario
    assert "no-duplication" in run(small, Repeating).violated
    assert len(small.members) < len(scenario.members)
