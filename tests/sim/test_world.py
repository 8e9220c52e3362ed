"""The world around a member: clocks, waiting, back-pressure, garbage, and how runs end."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.core.effects import DeadlinePassed, Effect, Input, Submit
from phalanx.journal.schema import Life, Topology
from phalanx.sim.run_outcome import RunOutcome
from phalanx.sim.scenario.model import (
    MS,
    Burst,
    Garbage,
    Network,
    Nonsense,
    Pause,
    Peculiarity,
    Scenario,
    Traffic,
)
from phalanx.sim.world import World

AB = ("a", "b")
ONE = Traffic(from_="a", at_ns=MS)


def play(parrot: Any, **settings: Any) -> RunOutcome:
    plain: dict[str, Any] = {"members": AB, "network": Network(delay_ns=100), "traffic": (ONE,)}
    return World(Scenario(**(plain | settings)), parrot).run()


def test_a_message_arrives_after_the_delay_and_the_run_ends(parrot: Any) -> None:
    outcome = play(parrot)
    a, b = parrot.made
    assert b.heard == [(MS + 100, 1)]
    assert a.heard == []
    assert outcome.stuck is None
    assert outcome.exception is None
    assert outcome.sim_ns == 6 * MS


def test_every_life_has_a_start_a_topology_and_a_stop(parrot: Any) -> None:
    rows = play(parrot).rows
    for name in AB:
        own = [row for row in rows if row.member == name]
        assert isinstance(own[0], Life)
        assert own[0].op == "START"
        assert isinstance(own[1], Topology)
        assert own[1].component == ["a", "b"]
        assert isinstance(own[-1], Life)
        assert own[-1].op == "STOP"
        assert [row.lseq for row in own] == list(range(1, len(own) + 1))


def test_a_member_sees_its_own_clock_and_its_deadline_in_it(parrot: Any) -> None:
    outcome = play(parrot, member=(Peculiarity(name="a", clock_ns=10**15),))
    a, b = parrot.made
    assert [now for now, _ in a.given] == [10**15 + MS, 10**15 + 6 * MS]
    assert b.heard == [(MS + 100, 1)]
    assert next(row.t_ns for row in outcome.rows if row.member == "a") == 10**15


def test_what_a_paused_member_is_sent_waits_and_comes_in_one_input(parrot: Any) -> None:
    traffic = tuple(Traffic(from_="a", at_ns=t * 6 * MS) for t in range(1, 4))
    outcome = play(parrot, traffic=traffic, pause=(Pause(member="b", at_ns=1, for_ns=50 * MS),))
    assert parrot.made[1].heard == [(50 * MS + 1, 3)]
    assert outcome.faults["pause"] == 1
    assert outcome.faults["batch"] == 1


def test_the_timers_and_submissions_of_a_paused_member_wait(parrot: Any) -> None:
    pause = Pause(member="a", at_ns=2 * MS, for_ns=20 * MS)
    traffic = (ONE, Traffic(from_="a", at_ns=3 * MS))
    play(parrot, pause=(pause,), traffic=traffic)
    a = parrot.made[0]
    kinds = [(now, type(given)) for now, given in a.given]
    assert kinds == [
        (MS, Submit),
        (22 * MS, DeadlinePassed),
        (22 * MS, Submit),
        (27 * MS, DeadlinePassed),
    ]


def test_a_full_inbox_loses_packets_and_counts_them(parrot: Any) -> None:
    outcome = play(
        parrot,
        traffic=(Traffic(from_="a", at_ns=MS, batch=10),),
        member=(Peculiarity(name="b", inbox_packets=4),),
        pause=(Pause(member="b", at_ns=0, for_ns=9 * MS),),
    )
    assert parrot.made[1].heard == [(9 * MS, 4)]
    assert outcome.faults["overflow"] == 6


def test_a_slow_member_takes_packets_in_batches(parrot: Any) -> None:
    outcome = play(
        parrot,
        traffic=(Traffic(from_="a", at_ns=0, batch=9),),
        network=Network(delay_ns=0, spacing_ns=100),
        member=(Peculiarity(name="b", cpu_ns=350),),
    )
    assert parrot.made[1].heard == [(0, 1), (350, 3), (700, 4), (1050, 1)]
    assert outcome.faults["slow"] == 8
    assert outcome.faults["batch"] == 2


def test_a_refused_submission_is_kept_until_the_window_opens(parrot: Any) -> None:
    outcome = play(parrot, traffic=(Traffic(from_="a", at_ns=MS, count=3, every_ns=10),))
    submitted = [now for now, given in parrot.made[0].given if isinstance(given, Submit)]
    assert submitted == [MS, 6 * MS, 11 * MS]
    assert outcome.faults["outbox_full"] == 2
    assert outcome.faults["window_closed"] == 3


def test_frames_that_enter_a_dag_are_seen_with_their_time(parrot: Any) -> None:
    outcome = play(parrot, traffic=(Traffic(from_="a", at_ns=MS, batch=2),))
    assert outcome.inserted == {("b", 1, "a", 1, n): MS + 100 for n in (1, 2)}


@pytest.mark.parametrize("kind", ["random", "truncated", "flipped", "foreign", "stale"])
def test_garbage_arrives_and_is_counted(parrot: Any, kind: Nonsense) -> None:
    garbage = Garbage(to="b", at_ns=2 * MS, count=5, every_ns=10, kind=kind)
    outcome = play(parrot, garbage=(garbage,))
    assert outcome.faults["garbage"] == 5
    assert [at for at, _ in parrot.made[1].heard[1:]] == [2 * MS + 10 * i for i in range(5)]


def test_a_burst_of_loss_is_counted_apart(parrot: Any) -> None:
    outcome = play(parrot, burst=(Burst(at_ns=0, for_ns=2 * MS),))
    assert parrot.made[1].heard == []
    assert outcome.faults == {"burst": 1, "window_closed": 1}


def test_large_messages_and_subsets_are_counted(parrot: Any) -> None:
    traffic = (Traffic(from_="a", size=200_000), Traffic(from_="a", to=("b",)))
    outcome = play(parrot, traffic=traffic)
    assert outcome.faults["large"] == 1
    assert outcome.faults["subset"] == 1


def test_an_exception_in_the_core_is_the_verdict_of_the_run(parrot: Any) -> None:
    class Broken(parrot):  # type: ignore[misc]
        def step(self, now: int, given: Input) -> list[Effect]:
            raise RuntimeError("the core broke")

        def validate(self, deep: bool) -> None:
            pass

        def story(self) -> list[str]:
            raise RuntimeError("and cannot speak of it")

    outcome = play(Broken)
    assert outcome.exception is not None
    assert "RuntimeError: the core broke" in outcome.exception
    assert outcome.stories["a"] == ["no story: RuntimeError: and cannot speak of it"]


def test_a_member_that_never_settles_is_stuck_at_the_limit(parrot: Any) -> None:
    class Restless(parrot):  # type: ignore[misc]
        def step(self, now: int, given: Input) -> list[Effect]:
            effects: list[Effect] = super().step(now, given)
            self.due = now + 1000
            return effects

    assert "not settled 5000000 ns" in str(play(Restless, patience_ns=5 * MS).stuck)
    assert play(Restless, steps_max=50).stuck == "not settled after 50 steps: a, b not settled"


def test_a_member_without_a_deadline_that_has_not_settled_is_stuck(parrot: Any) -> None:
    class Mute(parrot):  # type: ignore[misc]
        settled = False

        def deadline(self) -> int | None:
            return None

    assert "nothing is under way" in str(play(Mute).stuck)


def test_a_deadline_that_never_moves_on_is_found(parrot: Any) -> None:
    class Spinning(parrot):  # type: ignore[misc]
        settled = False

        def deadline(self) -> int | None:
            return 7

    assert "its deadline never moves on" in str(play(Spinning).exception)


def test_a_wrong_message_number_is_found(parrot: Any) -> None:
    class Miscounting(parrot):  # type: ignore[misc]
        def step(self, now: int, given: Input) -> list[Effect]:
            self.numbered += 1
            effects: list[Effect] = super().step(now, given)
            return effects

    assert "accepted as [(2, 2)], expected [(1, 1)]" in str(play(Miscounting).exception)
