"""Processes that come and go, machines that lose sight of each other, and how such runs end."""

from __future__ import annotations

from typing import Any

from phalanx.core.effects import (
    Datagrams,
    DeadlinePassed,
    Effect,
    Input,
    LeaveRequest,
    ReaderLag,
    Stopped,
    Submit,
    SuspectMember,
)
from phalanx.core.ids import MemberId
from phalanx.journal.schema import Life, Topology, ViewInstalled
from phalanx.sim.run_outcome import RunOutcome
from phalanx.sim.scenario import model as sc
from phalanx.sim.scenario.model import MS, Network, Scenario, Traffic
from phalanx.sim.world import World

ABC = ("a", "b", "c")


def play(make: Any, **settings: Any) -> RunOutcome:
    plain: dict[str, Any] = {
        "members": ABC,
        "network": Network(delay_ns=100),
        "config": {"hello_ns": 20 * MS},
        "patience_ns": 500 * MS,
    }
    return World(Scenario(**(plain | settings)), make).run()


def process(make: Any, name: str, incarnation: int = 1) -> Any:
    return next(m for m in make.made if m.me == MemberId(name, incarnation))


def reached(outcome: RunOutcome, name: str, incarnation: int = 1) -> list[tuple[int | None, str]]:
    """What the topology rows of a process say, each with its time in milliseconds."""
    return [
        ((row.sim_ns or 0) // MS, "".join(row.component))
        for row in outcome.rows
        if isinstance(row, Topology) and (row.member, row.incarnation) == (name, incarnation)
    ]


def life(outcome: RunOutcome, name: str, incarnation: int = 1) -> list[str]:
    return [
        row.op
        for row in outcome.rows
        if isinstance(row, Life) and (row.member, row.incarnation) == (name, incarnation)
    ]


def inputs(member: Any, kind: type[Input]) -> list[int]:
    return [now for now, given in member.given if isinstance(given, kind)]


# ---------------------------------------------------------------------------- the end of a run


def test_members_that_start_alone_begin_in_views_of_their_own(gossip: Any) -> None:
    outcome = play(gossip, start="alone")
    boots = [r for r in outcome.rows if isinstance(r, ViewInstalled) and r.cause == "boot"]
    assert [boot.members for boot in boots] == [["a"], ["b"], ["c"]]
    assert [len(m.view.members) for m in gossip.made] == [3, 3, 3]
    assert outcome.stuck is None
    assert outcome.exception is None


def test_a_run_goes_on_until_all_was_calm_for_long_enough(gossip: Any) -> None:
    short = play(gossip, start="alone", calm_ns=0).sim_ns
    assert 140 * MS <= play(gossip, start="alone").sim_ns - short <= 180 * MS
    assert 300 * MS <= play(gossip, start="alone", calm_ns=300 * MS).sim_ns - short <= 340 * MS


def test_a_run_in_which_views_do_not_agree_is_stuck_and_says_who(gossip: Any) -> None:
    class Deaf(gossip):  # type: ignore[misc]
        def hear(self, now: int, packet: bytes) -> None:
            if self.me.name != "c":
                super().hear(now, packet)

    outcome = play(Deaf, start="alone")
    assert outcome.stuck is not None
    assert outcome.stuck.startswith("not settled 500000000 ns after the last planned event: ")
    assert "c in 0.0 of c.1" in outcome.stuck


def test_views_must_hold_exactly_those_who_reach_each_other(gossip: Any) -> None:
    class Faithful(gossip):  # type: ignore[misc]
        fail_ns = 1 << 60

    crash = sc.Crash(member="c", at_ns=50 * MS)
    assert "a in 0.0 of a.1 b.1 c.1" in str(play(Faithful, crash=(crash,)).stuck)


def test_a_link_that_never_works_counts_as_cut(gossip: Any) -> None:
    dead = sc.LinkSettings(from_=("a",), loss_ppm=1_000_000)
    outcome = play(gossip, link=(dead,), start="alone", members=("a", "b", "c"))
    assert reached(outcome, "a") == [(0, "a")]
    assert reached(outcome, "b") == [(0, "bc")]


# ---------------------------------------------------------------------------- cuts


def test_a_partition_splits_and_a_heal_unites(gossip: Any) -> None:
    split = sc.Partition(at_ns=100 * MS, groups=(("a", "b"),))
    outcome = play(gossip, partition=(split,), heal=(sc.Heal(at_ns=300 * MS),))
    assert reached(outcome, "a") == [(0, "abc"), (100, "ab"), (300, "abc")]
    assert reached(outcome, "c") == [(0, "abc"), (100, "c"), (300, "abc")]
    assert outcome.faults["partition"] == outcome.faults["heal"] == 1
    assert outcome.faults["cut_off"] > 0
    assert outcome.stuck is None


def test_a_partition_that_is_never_healed_is_where_the_run_ends(gossip: Any) -> None:
    split = sc.Partition(at_ns=100 * MS, groups=(("a",), ("b",)))
    outcome = play(gossip, partition=(split,))
    assert [[m.name for m in p.view.members] for p in gossip.made] == [["a"], ["b"], ["c"]]
    assert outcome.stuck is None


def test_what_is_cut_from_the_start_is_cut_before_the_first_packet(gossip: Any) -> None:
    play(gossip, start="alone", partition=(sc.Partition(at_ns=0, groups=(("a",),)),))
    assert inputs(process(gossip, "a"), Datagrams) == []


def test_a_one_way_cut_leaves_those_connected_who_have_a_way_round(gossip: Any) -> None:
    cut = sc.Cut(at_ns=100 * MS, for_ns=60 * MS, from_=("a",), to=("b",))
    outcome = play(gossip, cut=(cut,))
    assert reached(outcome, "a") == [(0, "abc")]
    assert outcome.faults["cut"] == 1
    assert 2 <= outcome.faults["cut_off"] <= 4


def test_a_cut_of_all_one_says_isolates_it_until_it_ends(gossip: Any) -> None:
    outcome = play(gossip, cut=(sc.Cut(at_ns=100 * MS, for_ns=60 * MS, from_=("a",)),))
    assert reached(outcome, "a") == [(0, "abc"), (100, "a"), (160, "abc")]
    assert reached(outcome, "b") == [(0, "abc"), (100, "bc"), (160, "abc")]


# ---------------------------------------------------------------------------- crashes, restarts


def test_a_crashed_process_takes_no_step_more_and_its_packets_still_arrive(gossip: Any) -> None:
    crash = sc.Crash(member="a", at_ns=40 * MS + 50)
    outcome = play(gossip, crash=(crash,))
    a, b = process(gossip, "a"), process(gossip, "b")
    assert max(now for now, _ in a.given) == 40 * MS
    assert b.frames[MemberId("a")] == 3
    assert life(outcome, "a") == ["START", "CRASH"]
    assert reached(outcome, "b")[-1] == (40, "bc")
    assert outcome.faults["crash"] == 1
    assert outcome.stuck is None


def test_a_crash_may_take_packets_along_that_were_on_their_way(gossip: Any) -> None:
    heard = []
    for seed in range(16):
        crash = sc.Crash(member="a", at_ns=40 * MS + 50, lose=True)
        outcome = play(gossip, crash=(crash,), seed=seed)
        lost = outcome.faults.get("crash_loss", 0)
        last = tuple(m.frames[MemberId("a")] - 2 for m in gossip.made[-2:])
        assert lost == 2 - sum(last)
        heard.append(last)
    assert len(set(heard)) == 4  # both, either, none


def test_a_restarted_process_is_alone_with_the_next_incarnation(gossip: Any) -> None:
    said = Traffic(from_="a", at_ns=0, count=30, every_ns=10 * MS)
    outcome = play(
        gossip,
        crash=(sc.Crash(member="a", at_ns=100 * MS),),
        restart=(sc.Restart(member="a", at_ns=205 * MS),),
        traffic=(said,),
    )
    again = process(gossip, "a", 2)
    assert life(outcome, "a") == ["START", "CRASH"]
    assert life(outcome, "a", 2) == ["START", "STOP"]
    assert reached(outcome, "a", 2) == [(205, "abc")]
    boot = next(r for r in outcome.rows if r.incarnation == 2 and isinstance(r, ViewInstalled))
    assert (boot.members, boot.member_incarnations) == (["a"], [2])
    assert MemberId("a", 2) in process(gossip, "b").view.members
    assert outcome.faults["unsaid"] == 11
    assert inputs(again, Submit)[0] == 210 * MS
    assert outcome.library.next_number(MemberId("a", 2)) == 10
    assert outcome.stuck is None


def test_a_restart_waits_until_the_old_process_is_gone(gossip: Any) -> None:
    outcome = play(
        gossip,
        leave=(sc.PlannedLeave(member="a", at_ns=100 * MS),),
        restart=(sc.Restart(member="a", at_ns=101 * MS),),
    )
    stop = next(
        r for r in outcome.rows if isinstance(r, Life) and (r.member, r.op) == ("a", "STOP")
    )
    start = next(r for r in outcome.rows if r.member == "a" and r.incarnation == 2)
    assert stop.sim_ns == start.sim_ns == 120 * MS
    assert outcome.faults["restart"] == 1


def test_a_leaving_member_is_told_and_says_no_more(gossip: Any) -> None:
    outcome = play(
        gossip,
        leave=(sc.PlannedLeave(member="a", at_ns=100 * MS),),
        traffic=(Traffic(from_="a", at_ns=95 * MS, count=4, every_ns=4 * MS),),
    )
    a = process(gossip, "a")
    assert inputs(a, LeaveRequest) == [100 * MS]
    assert len(inputs(a, Submit)) == 2
    assert outcome.faults["unsaid"] == 2
    assert life(outcome, "a") == ["START", "STOP"]
    assert "a" not in outcome.stories
    assert outcome.cases["stopped_left"] == 1


def test_a_paused_member_leaves_when_it_wakes(gossip: Any) -> None:
    pause = sc.Pause(member="a", at_ns=90 * MS, for_ns=40 * MS)
    play(gossip, pause=(pause,), leave=(sc.PlannedLeave(member="a", at_ns=100 * MS),))
    assert inputs(process(gossip, "a"), LeaveRequest) == [130 * MS]


def test_an_imposter_hears_what_its_machine_hears_and_ends(gossip: Any) -> None:
    split = sc.Partition(at_ns=0, groups=(("a",),))
    fake = sc.Imposter(member="a", at_ns=100 * MS, beside="b")
    outcome = play(
        gossip,
        start="alone",
        partition=(split,),
        imposter=(fake,),
        heal=(sc.Heal(at_ns=200 * MS),),
    )
    double = process(gossip, "a", 100_001)
    assert reached(outcome, "a", 100_001) == [(100, "abc"), (200, "aabc")]
    assert [m.name for m in double.view.members] == ["a", "b", "c"]
    assert life(outcome, "a", 100_001) == ["START", "STOP"]
    assert process(gossip, "a").due is not None
    assert outcome.cases["stopped_name_in_use"] == 1
    assert outcome.faults["imposter"] == 1
    assert outcome.stuck is None


def test_a_process_that_stops_for_a_name_that_nobody_bears_is_noticed(gossip: Any) -> None:
    class Nervous(gossip):  # type: ignore[misc]
        def step(self, now: int, given: Input) -> list[Effect]:
            if self.me.incarnation == 2 and isinstance(given, DeadlinePassed):
                self.due = None
                return [Stopped("name-in-use")]
            effects: list[Effect] = super().step(now, given)
            return effects

    outcome = play(
        Nervous,
        crash=(sc.Crash(member="a", at_ns=50 * MS),),
        restart=(sc.Restart(member="a", at_ns=200 * MS),),
    )
    assert outcome.cases["stopped_for_nothing"] == 1
    fake = sc.Imposter(member="a", at_ns=100 * MS, beside="b")
    assert "stopped_for_nothing" not in play(gossip, imposter=(fake,)).cases


def test_processes_on_one_machine_hear_each_other_even_when_it_is_cut_off(gossip: Any) -> None:
    play(
        gossip,
        partition=(sc.Partition(at_ns=0, groups=(("a",),)),),
        imposter=(sc.Imposter(member="b", at_ns=10 * MS, beside="a"),),
        start="alone",
    )
    assert [m.name for m in process(gossip, "b", 100_001).view.members] == ["a", "b"]
    assert MemberId("b", 100_001) in process(gossip, "a").view.members


def test_an_imposter_may_be_older_or_between_two_others(gossip: Any) -> None:
    """Of three that meet the oldest stays, whoever came first."""
    young = sc.Imposter(member="a", at_ns=10 * MS, beside="b")
    between = sc.Imposter(member="a", at_ns=20 * MS, beside="c", incarnation=7)
    old = sc.Imposter(member="a", at_ns=30 * MS, beside="c", incarnation=0)
    outcome = play(
        gossip,
        start="alone",
        partition=(sc.Partition(at_ns=0, groups=(("a",), ("b",))),),
        imposter=(young, between, old),
        heal=(sc.Heal(at_ns=200 * MS),),
    )
    ended = [
        incarnation
        for incarnation in (0, 1, 7, 100_001)
        if process(gossip, "a", incarnation).due is None
    ]
    assert ended == [1, 7, 100_001]
    assert outcome.cases["lower_namesake"] == 2
    assert outcome.cases["third_namesake"] == 1
    assert outcome.stuck is None


def test_an_operator_breaks_with_whoever_bears_the_name_in_the_view(gossip: Any) -> None:
    breaks = (
        sc.OperatorBreak(member="a", target="b", at_ns=100 * MS),
        sc.OperatorBreak(member="a", target="c", at_ns=100 * MS),
        sc.OperatorBreak(member="c", target="b", at_ns=100 * MS),
    )
    outcome = play(gossip, break_=breaks, crash=(sc.Crash(member="c", at_ns=10 * MS),))
    given = [g for now, g in process(gossip, "a").given if isinstance(g, SuspectMember)]
    assert given == [SuspectMember(MemberId("b"))]  # c had been given up, and says nothing itself
    assert (outcome.faults["break"], outcome.cases["operator_break"]) == (1, 1)


# ---------------------------------------------------------------------------- clocks, cost


def test_a_reader_is_behind_as_far_as_the_worst_of_its_tables_says(gossip: Any) -> None:
    readers = (
        sc.Reader(member="a", at_ns=50 * MS, for_ns=100 * MS),
        sc.Reader(member="a", at_ns=90 * MS, for_ns=20 * MS, level=2),
        sc.Reader(member="b", at_ns=50 * MS, for_ns=10 * MS),
    )
    traffic = (Traffic(from_="b", at_ns=55 * MS), Traffic(from_="a", at_ns=55 * MS))
    outcome = play(gossip, reader=readers, traffic=traffic, calm_ns=0)
    given = [(now // MS, g) for now, g in process(gossip, "a").given if isinstance(g, ReaderLag)]
    assert given == [
        (50, ReaderLag(1)),
        (90, ReaderLag(2)),
        (110, ReaderLag(1)),
        (150, ReaderLag(0)),
    ]
    assert outcome.faults["reader"] == 4
    assert outcome.cases["slow_reader"] == 2  # a while b speaks, b while a speaks


def test_a_process_that_starts_again_keeps_up_with_reading(gossip: Any) -> None:
    play(
        gossip,
        reader=(sc.Reader(member="a", at_ns=10 * MS, for_ns=300 * MS, level=2),),
        crash=(sc.Crash(member="a", at_ns=50 * MS),),
        restart=(sc.Restart(member="a", at_ns=100 * MS),),
    )
    assert inputs(process(gossip, "a"), ReaderLag) == [10 * MS]
    assert inputs(process(gossip, "a", 2), ReaderLag) == []


def test_a_member_that_is_removed_in_a_long_pause_is_counted_once(gossip: Any) -> None:
    long, short = (sc.Pause(member="a", at_ns=90 * MS, for_ns=n * MS) for n in (2000, 1900))
    late = (Traffic(from_="b", at_ns=2500 * MS),)
    assert play(gossip, pause=(long,), traffic=late).cases["long_pause"] == 1
    assert "long_pause" not in play(gossip, pause=(short,), traffic=late).cases


def test_a_clock_that_jumps_brings_deadlines_closer(gossip: Any) -> None:
    jump = sc.ClockJump(member="a", at_ns=45 * MS, by_ns=10 * MS)
    outcome = play(gossip, clock=(jump,))
    ticks = inputs(process(gossip, "a"), DeadlinePassed)
    assert ticks[:4] == [20 * MS, 40 * MS, 60 * MS, 80 * MS]
    times = [(r.t_ns, r.sim_ns) for r in outcome.rows if r.member == "a"]
    assert times[-1][0] - (times[-1][1] or 0) == 10 * MS
    assert outcome.faults["clock"] == 1


def test_a_busy_member_is_slow_for_a_while(gossip: Any) -> None:
    busy = sc.Busy(member="a", at_ns=41 * MS, for_ns=40 * MS, cpu_ns=5 * MS)
    outcome = play(gossip, busy=(busy,), traffic=(Traffic(from_="a", at_ns=60 * MS, count=3),))
    assert inputs(process(gossip, "a"), Submit) == [60 * MS, 65 * MS, 65 * MS]
    assert outcome.faults["busy"] == 1
    assert outcome.faults["slow"] > 0


# ---------------------------------------------------------------------------- what is watched


def test_receivers_are_those_who_bear_the_names_in_the_present_view(gossip: Any) -> None:
    outcome = play(
        gossip,
        crash=(sc.Crash(member="b", at_ns=10 * MS),),
        restart=(sc.Restart(member="b", at_ns=200 * MS),),
        traffic=(
            Traffic(from_="a", at_ns=5 * MS, to=("b", "c")),
            Traffic(from_="a", at_ns=150 * MS, to=("b", "c")),
            Traffic(from_="a", at_ns=151 * MS, to=("b",)),
            Traffic(from_="a", at_ns=250 * MS, to=("b",)),
        ),
    )
    submitted = [g.to for _, g in process(gossip, "a").given if isinstance(g, Submit)]
    b, c = MemberId("b"), MemberId("c")
    assert submitted == [(b, c), (c,), (MemberId("b", 2),)]
    assert outcome.faults["no_receiver"] == 1


def test_frames_are_seen_under_the_process_that_sent_them(gossip: Any) -> None:
    outcome = play(
        gossip,
        crash=(sc.Crash(member="b", at_ns=50 * MS),),
        restart=(sc.Restart(member="b", at_ns=200 * MS),),
    )
    seen = [key for key in outcome.inserted if key[:3] == ("a", 1, "b")]
    assert [number for *_, incarnation, number in seen if incarnation == 1] == [1, 2, 3]
    assert [number for *_, incarnation, number in seen if incarnation == 2][:3] == [1, 2, 3]
    assert outcome.inserted["a", 1, "b", 2, 1] == 200 * MS + 100


def test_old_packets_from_any_time_and_forged_ones_are_counted(gossip: Any) -> None:
    kinds: tuple[sc.Nonsense, ...] = ("replayed", "forged")
    garbage = tuple(sc.Garbage(to="b", at_ns=90 * MS, count=9, kind=kind) for kind in kinds)
    outcome = play(gossip, garbage=garbage)
    assert outcome.faults["replayed"] == outcome.faults["forged"] == 9
    assert outcome.faults["garbage"] == 18
    assert outcome.exception is None


def test_the_same_turmoil_gives_the_same_rows_twice(gossip: Any) -> None:
    settings: dict[str, Any] = {
        "start": "alone",
        "network": Network(delay_ns=100, jitter_ns=MS, loss_ppm=50_000),
        "partition": (sc.Partition(at_ns=50 * MS, groups=(("a",),)),),
        "heal": (sc.Heal(at_ns=150 * MS),),
        "crash": (sc.Crash(member="c", at_ns=120 * MS, lose=True),),
        "restart": (sc.Restart(member="c", at_ns=260 * MS),),
        "garbage": (sc.Garbage(to="a", at_ns=9 * MS, count=20, kind="forged"),),
        "patience_ns": 5000 * MS,
    }
    assert play(gossip, **settings).rows == play(gossip, **settings).rows


# ---------------------------------------------------------------------------- crashes in a change


def changing(after: int | None, for_ns: int | None = None) -> RunOutcome:
    """Three members, of which a sets its role and is to crash."""
    role = sc.PlannedRole(member="a", at_ns=200 * MS, operations=("index",))
    crash = sc.Crash(member="a", at_ns=100 * MS, after_proposal=after, for_ns=for_ns)
    return World(Scenario(members=ABC, role=(role,), crash=(crash,), seed=1)).run()


def test_a_member_crashes_so_many_steps_after_it_has_proposed() -> None:
    for after, installed in ((0, False), (8, True)):
        outcome = changing(after, for_ns=500 * MS)
        assert outcome.faults["crash_proposing"] == outcome.faults["crash"] == 1
        assert ("initiator_crashed" in outcome.cases) == (not installed)
        assert life(outcome, "a") == ["START", "CRASH"]
        assert outcome.stuck is None


def test_a_member_that_does_not_propose_in_time_does_not_crash() -> None:
    outcome = changing(0, for_ns=50 * MS)
    assert "crash" not in outcome.faults
    assert outcome.cases["views_role"] == 3


def test_a_crash_that_waits_for_nothing_comes_at_its_time() -> None:
    outcome = changing(None)
    assert outcome.faults["crash"] == 1
    assert "crash_proposing" not in outcome.faults
    assert outcome.cases.get("views_role", 0) == 0
