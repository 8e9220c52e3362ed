"""The detector: units with literal times, then a model network with loss and pauses."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise

import pytest

from phalanx.config import Config, lan
from phalanx.core.deadline import NEVER
from phalanx.core.failure_detector import FailureDetector, PeerVerdict, Probing
from phalanx.core.ids import MemberId
from phalanx.core.prng import Prng

MS = 1_000_000
A, B, C, D = (MemberId(name) for name in "abcd")
ME, PEER, OTHER = 0, 1, 2

Finding = Probing | PeerVerdict


def detector(
    *members: MemberId, config: Config | None = None, entropy: int = 1, at_ms: int = 0
) -> FailureDetector:
    made = FailureDetector(config or lan(), Prng(entropy))
    made.reset(at_ms * MS, members or (A, B, C), ME)
    return made


def hear(d: FailureDetector, ms: int, slot: int, via: int | None = None) -> None:
    """A sign of the slot, directly or through another."""
    d.heard_ns[slot] = ms * MS
    if via is None:
        d.direct_ns[slot] = ms * MS
    else:
        d.relay[slot] = via


def run(d: FailureDetector, start_ms: int, end_ms: int, *talkers: int) -> list[tuple[int, Finding]]:
    """Check whenever it is due, while the talkers give a sign each millisecond; when in
    milliseconds, and what, was found."""
    out = []
    for ms in range(start_ms, end_ms + 1):
        for slot in talkers:
            hear(d, ms, slot)
        if d.deadline() <= ms * MS:
            out += [(ms, found) for found in d.check(ms * MS)]
    return out


def judged(found: list[tuple[int, Finding]]) -> list[tuple[int, PeerVerdict]]:
    return [(ms, f) for ms, f in found if isinstance(f, PeerVerdict)]


def probed(found: list[tuple[int, Finding]], slot: int = PEER) -> list[int]:
    return [ms for ms, f in found if isinstance(f, Probing) and f.slot == slot]


def asked(found: list[tuple[int, Finding]]) -> list[int]:
    """The nonces of the probes."""
    return [f.nonce for _, f in found if isinstance(f, Probing)]


# ---------------------------------------------------------------------------- silence


def test_silence_is_suspected_at_half_the_time_out_and_a_verdict_at_the_whole() -> None:
    found = run(detector(), 0, 2_000, OTHER)
    (suspected_ms, suspected), (faulty_ms, faulty) = judged(found)
    assert suspected == PeerVerdict(PEER, "SUSPECTED", "OPERATIONAL", "SILENCE")
    assert faulty == PeerVerdict(PEER, "FAULTY", "SUSPECTED", "SILENCE")
    assert 425 <= suspected_ms <= 435
    assert 850 <= faulty_ms <= 850 + 53 + 10


def test_at_least_twelve_probes_go_unanswered_before_a_verdict() -> None:
    times = probed(run(detector(), 0, 2_000))
    assert len(times) >= 12
    assert times[0] <= 370
    assert len([ms for ms in times if ms <= 435]) >= 4, "who stops now was asked often enough"
    for a, b in pairwise(times):
        assert b - a in (range(20, 31) if a < 425 else range(40, 51))


def test_no_verdict_falls_without_probes_however_long_the_silence() -> None:
    d = detector(A, B, config=lan(probe_ns=500 * MS))
    found = run(d, 0, 3_000)
    (_, _), (faulty_ms, faulty) = judged(found)
    assert faulty.state == "FAULTY"
    assert len([ms for ms in probed(found) if ms <= faulty_ms]) == 4
    assert faulty_ms >= 319 + 250 + 2 * 500


def test_a_verdict_falls_once_and_nothing_is_said_or_asked_of_the_peer_after_it() -> None:
    d = detector(A, B)
    found = run(d, 0, 2_000)
    assert [f.state for _, f in judged(found)] == ["SUSPECTED", "FAULTY"]
    assert d.state(PEER) == "FAULTY"
    assert max(probed(found)) < judged(found)[-1][0]
    assert d.deadline() == NEVER
    hear(d, 2_000, PEER)
    assert d.check(2_000 * MS) == []


def test_an_answer_to_a_probe_clears_the_suspicion_at_once() -> None:
    d = detector(A, B)
    nonces = asked(run(d, 0, 500))
    d.alive(501 * MS, PEER, nonces[-1])
    assert d.deadline() == 501 * MS
    assert d.check(501 * MS) == [PeerVerdict(PEER, "OPERATIONAL", "SUSPECTED", "DIRECT")]
    assert d.heard_ns[PEER] == d.direct_ns[PEER] == 501 * MS


def test_who_answers_a_first_probe_is_not_even_suspected() -> None:
    d = detector(A, B)
    nonces = asked(run(d, 0, 400))
    assert nonces
    d.alive(401 * MS, PEER, nonces[0])
    assert run(d, 401, 700) == []


def test_a_probe_names_a_helper_by_turns_and_its_word_is_a_sign_but_not_a_direct_one() -> None:
    d = detector(A, B, C, D)
    found = run(d, 0, 600, OTHER, 3)
    probes = [f for _, f in found if isinstance(f, Probing)]
    assert {probe.helper for probe in probes} == {OTHER, 3}
    d.alive(601 * MS, PEER, probes[-1].nonce, OTHER)
    assert d.check(601 * MS) == [PeerVerdict(PEER, "SEMI", "SUSPECTED", "RELAY", OTHER)]


def test_between_two_there_is_no_helper() -> None:
    assert all(f.helper == -1 for _, f in run(detector(A, B), 0, 800) if isinstance(f, Probing))


def test_an_answer_to_no_present_probe_is_no_sign() -> None:
    d = detector(A, B)
    nonces = asked(run(d, 0, 500))
    d.alive(501 * MS, PEER, nonces[0] - 1)
    d.alive(501 * MS, PEER, nonces[-1] + 1)
    assert d.heard_ns[PEER] == 0
    d.alive(501 * MS, PEER, nonces[-1])
    run(d, 501, 1_000)
    assert d.state(PEER) == "SUSPECTED"
    d.alive(1_001 * MS, PEER, nonces[-1])
    assert d.heard_ns[PEER] == 501 * MS, "an answer to the suspicion before this one"


def test_a_peer_that_pauses_for_half_the_time_out_is_never_declared_faulty() -> None:
    """At every phase of its keep-alive, and again and again: the last of a pause is heard up to
    one interval before it."""
    for phase in range(0, 250, 5):
        d = detector(A, B, at_ms=0)
        found: list[tuple[int, Finding]] = []
        ms = 0
        while ms < 20_000:
            found += run(d, ms, ms + 250 - 1)
            ms += 250
            hear(d, ms, PEER)
            if (ms // 250) % 8 == 7:
                found += run(d, ms, ms + phase + 425 - 1)
                ms += phase + 425
                hear(d, ms, PEER)
        assert all(f.state != "FAULTY" for _, f in judged(found)), f"paused at phase {phase}"


def test_me_is_never_judged() -> None:
    d = detector(A, B)
    found = run(d, 0, 5_000, PEER)
    assert found == []
    assert d.state(ME) == "OPERATIONAL"


def test_alone_nothing_is_due() -> None:
    assert detector(A).deadline() == NEVER
    assert FailureDetector(lan(), Prng(1)).deadline() == NEVER


def test_when_all_is_quiet_and_well_the_owner_wakes_every_eighth_of_the_time_out() -> None:
    d = detector()
    wakes = 0
    for ms in range(20_000):
        if ms % 250 == 0:
            hear(d, ms, PEER)
            hear(d, ms, OTHER)
        if d.deadline() <= ms * MS:
            assert d.check(ms * MS) == []
            wakes += 1
    assert wakes <= 20_000 * 8 // 850 + 1


def test_many_suspects_are_probed_together() -> None:
    members = [MemberId(f"m{i:02}") for i in range(64)]
    d = detector(*members)
    for slot in range(1, 64):  # all fell silent, one a few milliseconds after the other
        hear(d, slot * 3, slot)
    found = run(d, 193, 900)
    wakes = {ms for ms, f in found if isinstance(f, Probing) and 700 < ms <= 800}
    assert len(wakes) <= 10
    assert all(len(probed(found, slot)) >= 5 for slot in range(1, 64))


# ---------------------------------------------------------------------------- the time-out


def gaps(d: FailureDetector, start_ms: int, *lengths_ms: int) -> int:
    """Signs of the peer so far apart; then it falls silent. How long until the verdict, from its
    last sign?"""
    ms = start_ms
    for length in lengths_ms:
        found = run(d, ms, ms + length - 1)
        assert all(f.state != "FAULTY" for _, f in judged(found))
        ms += length
        hear(d, ms, PEER)
    found = run(d, ms, ms + 5_000)
    return next(at for at, f in judged(found) if f.state == "FAULTY") - ms


@pytest.mark.parametrize(
    ("lengths_ms", "least_ms"),
    [
        ([250] * 8, 850),
        ([250, 500, 250], 850),  # a keep-alive was lost
        ([550], 850),
        ([700], 2 * 700 - 250),
        ([800, 1_300, 2_300], 4 * 850),
        ([700, *[250] * 8], 850),  # and it is forgotten
    ],
)
def test_the_time_out_grows_with_gaps_that_one_lost_keep_alive_does_not_explain(
    lengths_ms: list[int], least_ms: int
) -> None:
    took = gaps(detector(A, B), 0, *lengths_ms)
    assert least_ms <= took <= least_ms + 53 + 10


# ---------------------------------------------------------------------------- own absence


def test_time_that_i_was_not_there_is_nobodys_silence() -> None:
    d = detector()
    assert run(d, 0, 200, PEER, OTHER) == []
    found = d.check(60_200 * MS)
    assert found == [], "the peers are not even suspected"
    assert run(d, 60_201, 60_300) == []
    found_later = run(d, 60_301, 62_000, OTHER)
    (suspected_ms, _), (faulty_ms, faulty) = judged(found_later)
    assert suspected_ms > 60_300
    assert faulty == PeerVerdict(PEER, "FAULTY", "SUSPECTED", "SILENCE")
    assert faulty_ms >= suspected_ms + 425


def test_after_an_absence_a_suspect_has_time_for_new_probes_and_a_grace() -> None:
    d = detector(A, B)
    run(d, 0, 840)
    assert d.state(PEER) == "SUSPECTED"
    found = [(1_240, f) for f in d.check(1_240 * MS)] + run(d, 1_241, 3_000)
    ((faulty_ms, faulty),) = judged(found)
    assert faulty.state == "FAULTY"
    assert faulty_ms >= 1_240 + 850 // 4
    assert len(probed(found)) >= 4


@pytest.mark.parametrize("first", ["alive", "expect", "reset"])
def test_an_absence_is_noticed_whatever_step_comes_first_after_it(first: str) -> None:
    d = detector(A, B)
    run(d, 0, 840)
    now = 9_000 * MS
    steps: dict[str, Callable[[], object]] = {
        "alive": lambda: d.alive(now, PEER, 0),
        "expect": lambda: d.expect(now, PEER, True),
        "reset": lambda: d.reset(now, [A, B], ME),
    }
    steps[first]()
    found = run(d, 9_000, 9_000 + 850 // 4 - 1)
    assert judged(found) == []
    assert len(probed(found)) >= 4
    assert d.state(PEER) == "SUSPECTED"


def test_signs_that_were_not_seen_before_an_absence_count() -> None:
    d = detector(A, B)
    assert d.check(100 * MS) == []
    hear(d, 150, PEER)
    assert d.check(60_000 * MS) == []
    assert run(d, 60_001, 60_300) == []


def test_an_absence_does_not_stretch_the_time_out() -> None:
    d = detector(A, B)
    assert d.check(100 * MS) == []
    hear(d, 30_000, PEER)
    assert d.check(30_000 * MS) == []
    assert gaps(d, 30_001, 250, 250) <= 850 + 53 + 10


# ---------------------------------------------------------------------------- semi


def semi(d: FailureDetector, until_ms: int = 600) -> list[tuple[int, Finding]]:
    """The peer is heard through the other alone from 1 ms on; all others directly."""
    found = []
    for ms in range(1, until_ms + 1):
        hear(d, ms, PEER, via=OTHER)
        found += run(d, ms, ms, *range(OTHER, len(d.heard_ns)))
    return found


def test_a_peer_that_only_others_hear_is_semi_operational_and_has_a_relay() -> None:
    d = detector()
    found = semi(d)
    ((at, verdict),) = judged(found)
    assert verdict == PeerVerdict(PEER, "SEMI", "OPERATIONAL", "RELAY", OTHER)
    assert 425 <= at <= 435
    assert 0 < max(probed(found)) < at, "it is probed before and not after"
    assert d.relay_of(PEER) == OTHER
    assert d.check(601 * MS) == []


def test_a_direct_packet_makes_it_operational_again() -> None:
    d = detector()
    semi(d)
    hear(d, 601, PEER)
    assert d.check(601 * MS) == [PeerVerdict(PEER, "OPERATIONAL", "SEMI", "DIRECT")]
    assert d.relay_of(PEER) == -1


def test_a_suspect_that_others_turn_out_to_hear_is_semi_operational() -> None:
    d = detector()
    run(d, 0, 500, OTHER)
    assert d.state(PEER) == "SUSPECTED"
    hear(d, 501, PEER, via=OTHER)
    assert d.check(501 * MS) == [PeerVerdict(PEER, "SEMI", "SUSPECTED", "RELAY", OTHER)]


def test_a_semi_operational_peer_that_nobody_hears_any_more_is_suspected_then_faulty() -> None:
    d = detector()
    semi(d, 1_000)
    found = judged(run(d, 1_001, 3_000, OTHER))
    assert [f.state for _, f in found] == ["SUSPECTED", "FAULTY"]
    assert 1_000 + 850 <= found[1][0] <= 1_000 + 850 + 53 + 10


def test_what_others_say_of_a_peer_that_just_fell_silent_is_taken_for_a_keep_alive_older() -> None:
    d = detector()
    run(d, 0, 300, OTHER)
    hear(d, 301, PEER, via=OTHER)
    found = judged(run(d, 301, 2_000, OTHER))
    assert [f.state for _, f in found] == ["SEMI", "SUSPECTED", "FAULTY"]
    assert 51 + 850 <= found[2][0] <= 51 + 850 + 53 + 10


def test_a_relay_that_is_no_longer_operational_is_replaced() -> None:
    d = detector(A, B, C, D)
    semi(d)
    d.ignore(OTHER)
    hear(d, 601, PEER, via=3)
    hear(d, 601, 3)
    assert d.check(601 * MS) == [PeerVerdict(PEER, "SEMI", "SEMI", "RELAY", 3)]
    d.ignore(3)
    assert d.check(602 * MS) == [PeerVerdict(PEER, "SEMI", "SEMI", "RELAY", -1)]


def test_a_relay_stays_while_it_is_fit_though_another_was_of_use_since() -> None:
    d = detector(A, B, C, D)
    semi(d)
    hear(d, 601, 3)
    hear(d, 601, PEER, via=3)
    assert d.check(601 * MS) == []
    assert d.relay_of(PEER) == OTHER


# ---------------------------------------------------------------------------- stalled


def lagging(
    d: FailureDetector, start_ms: int, end_ms: int, every_ms: int
) -> list[tuple[int, Finding]]:
    """The peer is heard so often; at each check the owner says that it lags."""
    found: list[tuple[int, Finding]] = []
    for ms in range(start_ms, end_ms + 1):
        if ms % every_ms == 0:
            hear(d, ms, PEER)
        if d.deadline() <= ms * MS:
            d.expect(ms * MS, PEER, True)
            found += [(ms, f) for f in d.check(ms * MS)]
    return found


@pytest.mark.parametrize("every_ms", [1, 20, 250])
def test_a_peer_that_is_heard_but_does_not_acknowledge_has_stalled(every_ms: int) -> None:
    d = detector(A, B)
    ((at, found),) = lagging(d, 1, 5_000, every_ms)
    assert found == PeerVerdict(PEER, "FAULTY", "OPERATIONAL", "STALLED")
    assert 3_400 <= at <= 3_400 + 2 * 107 + every_ms


def test_a_peer_that_answers_probes_and_nothing_else_has_stalled() -> None:
    d = detector(A, B)
    verdicts = []
    for ms in range(1, 8_000):
        if d.deadline() <= ms * MS:
            d.expect(ms * MS, PEER, True)
            for found in d.check(ms * MS):
                if isinstance(found, Probing):
                    d.alive(ms * MS, PEER, found.nonce)
                elif found.state == "FAULTY":
                    verdicts.append((ms, found.evidence))
    ((at, evidence),) = verdicts
    assert evidence == "STALLED"
    assert at <= 5_200


def test_an_acknowledgement_starts_the_time_anew() -> None:
    d = detector(A, B)
    assert lagging(d, 1, 3_300, 20) == []
    d.expect(3_301 * MS, PEER, False)
    assert lagging(d, 3_302, 6_600, 20) == []
    assert len(lagging(d, 6_601, 7_100, 20)) == 1


def test_a_peer_that_was_stopped_is_not_held_for_stalled_at_its_first_sign() -> None:
    d = detector(A, B)
    assert gaps_survived(d, [800, 1_300]), "its time-out has grown to 2350 ms"
    start = 2_100
    for _ in range(2):
        found = lagging(d, start + 1, start + 400, 20)
        assert [f.state for _, f in judged(found)] == ["OPERATIONAL"]
        found = lagging(d, start + 401, start + 2_400, 10_000)  # silent for two seconds
        assert [f.state for _, f in judged(found)] == ["SUSPECTED"]
        hear(d, start + 2_401, PEER)
        start += 2_400
    found = lagging(d, start + 1, start + 400, 20)
    assert [f.state for _, f in judged(found)] == ["OPERATIONAL"]


def gaps_survived(d: FailureDetector, lengths_ms: list[int]) -> bool:
    ms = 0
    for length in lengths_ms:
        found = run(d, ms, ms + length - 1)
        ms += length
        hear(d, ms, PEER)
        if any(f.state == "FAULTY" for _, f in judged(found)):
            return False
    return True


def test_words_of_lag_that_are_not_repeated_do_not_ripen() -> None:
    d = detector(A, B)
    d.expect(1 * MS, PEER, True)
    d.expect(50 * MS, PEER, True)
    assert run(d, 51, 10_000, PEER) == []


def test_my_own_absence_is_not_the_peers_lag() -> None:
    d = detector(A, B)
    assert lagging(d, 1, 3_300, 20) == []
    assert lagging(d, 4_700, 7_900, 20) == []


# ---------------------------------------------------------------------------- slots


def test_a_reset_keeps_what_is_known_under_new_slots() -> None:
    d = detector(A, B, C, D)
    run(d, 0, 699, PEER, OTHER)
    hear(d, 700, 3)  # a gap of 700 ms, so a time-out of 1150 ms
    run(d, 700, 800, OTHER)
    d.relay[3] = OTHER
    heard = d.heard_ns
    d.reset(801 * MS, [A, C, D], ME)
    assert d.heard_ns is heard, "whoever holds the list goes on writing it"
    assert (d.heard_ns, d.direct_ns, d.relay) == (
        [801 * MS, 800 * MS, 700 * MS],
        [801 * MS, 800 * MS, 700 * MS],
        [-1, -1, 1],
    )
    found = judged(run(d, 802, 3_000, 1))
    assert [(f.slot, f.state) for _, f in found] == [(2, "SUSPECTED"), (2, "FAULTY")]
    assert 700 + 1_150 <= found[1][0] <= 700 + 1_150 + 53 + 10


def test_a_suspect_stays_one_through_a_reset_and_is_not_judged_twice() -> None:
    d = detector()
    assert len(judged(run(d, 0, 600, OTHER))) == 1
    d.reset(601 * MS, [A, B], ME)
    assert d.state(1) == "SUSPECTED"
    found = judged(run(d, 602, 2_000))
    assert [f.state for _, f in found] == ["FAULTY"]
    assert found[0][0] <= 850 + 53 + 10


def test_who_is_new_or_was_held_for_failed_has_a_full_time_out_from_the_reset() -> None:
    d = detector()
    run(d, 0, 2_000, OTHER)
    d.ignore(OTHER)
    d.reset(2_001 * MS, [A, B, C, D], ME)
    assert [d.state(slot) for slot in range(4)] == ["OPERATIONAL"] * 4
    found = judged(run(d, 2_002, 4_000))
    faulty = [at for at, f in found if f.state == "FAULTY"]
    assert len(faulty) == 3
    assert min(faulty) >= 2_001 + 850


def test_a_suspect_is_still_one_in_the_next_view_at_its_new_slot() -> None:
    d = detector(A, B, C)
    run(d, 0, 800, PEER)
    assert d.state(OTHER) == "SUSPECTED"
    d.reset(801 * MS, [A, C], ME)
    assert d.state(1) == "SUSPECTED"


def test_an_ignored_slot_is_faulty_without_a_word() -> None:
    d = detector()
    d.ignore(PEER)
    assert d.state(PEER) == "FAULTY"
    assert run(d, 0, 3_000, OTHER) == []


def test_the_story_has_a_line_for_each_peer() -> None:
    d = detector()
    run(d, 0, 500, OTHER)
    assert len(d.story()) == 2
    assert d.story()[0].startswith("  b.1: SUSPECTED, silent 4")
    assert d.story()[1].startswith("  c.1: OPERATIONAL")


# ---------------------------------------------------------------------------- a model network


@dataclass
class Seat:
    """One process: a detector, its keep-alives, and what it has heard of whom."""

    detector: FailureDetector
    have: list[int]
    spoke_ns: int = 0
    asleep_until_ns: int = 0
    crashed_ns: int = NEVER
    inbox: list[tuple[str, int, object]] = field(default_factory=list)


class Network:
    """Detectors that send each other keep-alives, probes and answers.

    A keep-alive says what its sender has heard of the others, so it is a sign of them too. A
    process that sleeps does nothing; when it wakes it reads what has come, or looks at its
    timer first.
    """

    def __init__(
        self,
        seed: int,
        n: int,
        loss: int,
        config: Config | None = None,
        make: type[FailureDetector] = FailureDetector,
    ) -> None:
        self.rng = random.Random(seed)
        self.config = config or lan()
        self.loss = loss
        self.help = True
        self.cut: set[tuple[int, int]] = set()
        self.now = 0
        self.events: list[tuple[int, int, int, tuple[str, int, object] | None]] = []
        self.count = 0
        self.found: list[tuple[int, int, PeerVerdict]] = []
        members = [MemberId(f"m{i}") for i in range(n)]
        self.seats = []
        for i in range(n):
            made = make(self.config, Prng(seed * 64 + i))
            made.reset(0, members, i)
            seat = Seat(made, [0] * n, spoke_ns=-self.rng.randrange(250) * MS)
            self.seats.append(seat)
            self.post(0, i, None)

    def post(self, at: int, to: int, packet: tuple[str, int, object] | None) -> None:
        self.count += 1
        heappush(self.events, (at, self.count, to, packet))

    def send(self, source: int, targets: list[int], kind: str, body: object) -> None:
        for to in targets:
            if to not in (source, -1) and (source, to) not in self.cut:
                if self.rng.randrange(100) >= self.loss:
                    self.post(
                        self.now + self.rng.randrange(50_000, 1 * MS), to, (kind, source, body)
                    )

    def run(self, until: int) -> None:
        while self.events and self.events[0][0] <= until:
            at, _, i, packet = heappop(self.events)
            seat, self.now = self.seats[i], at
            if at >= seat.crashed_ns:
                continue
            if at < seat.asleep_until_ns:
                self.post(seat.asleep_until_ns + self.rng.randrange(2 * MS), i, packet)
            elif packet is None:
                self.timer(i, seat)
            else:
                self.receive(i, seat, *packet)
        self.now = until

    def timer(self, i: int, seat: Seat) -> None:
        everybody = list(range(len(self.seats)))
        if self.now >= seat.spoke_ns + self.config.alive_idle_ns:
            seat.spoke_ns = self.now
            seat.have[i] += 1
            self.send(i, everybody, "keep-alive", tuple(seat.have))
        if self.now >= seat.detector.deadline():
            for found in seat.detector.check(self.now):
                if isinstance(found, Probing):
                    targets = [found.slot, found.helper] if self.help else [found.slot]
                    self.send(i, targets, "probe", (found.nonce, i, found.slot))
                else:
                    self.found.append((self.now, i, found))
        due = min(seat.detector.deadline(), seat.spoke_ns + self.config.alive_idle_ns)
        self.post(max(due, self.now + 1) + self.rng.randrange(300_000), i, None)

    def receive(self, i: int, seat: Seat, kind: str, source: int, body: object) -> None:
        d = seat.detector
        assert isinstance(body, tuple)
        if kind == "probe":
            _, _, slot = body
            self.send(i, [source if i == slot else slot], "alive" if i == slot else kind, body)
        elif kind == "alive":
            nonce, asker, slot = body
            if i == asker:
                d.alive(self.now, slot, nonce, -1 if source == slot else source)
            else:
                self.send(i, [asker], kind, body)
        else:
            d.heard_ns[source] = d.direct_ns[source] = self.now
            for slot, number in enumerate(body):
                if number > seat.have[slot]:
                    seat.have[slot] = number
                    if slot not in (i, source):
                        d.heard_ns[slot], d.relay[slot] = self.now, source

    def faulty(self) -> list[tuple[int, int, int]]:
        """When, who and about whom: the verdicts."""
        return [(at, i, f.slot) for at, i, f in self.found if f.state == "FAULTY"]


def lives(seed: int, make: type[FailureDetector] = FailureDetector, loss: int = 5) -> Network:
    """Half a minute among two to four that all live. Now one stops for up to half the time-out,
    now all stop for seconds, as if their host was suspended, and wake one after the other."""
    rng = random.Random(seed)
    net = Network(seed, 2 + seed % 3, loss, make=make)
    at = 0
    while at < 20_000:
        at += rng.randrange(1_500, 4_000)
        net.run(at * MS)
        if rng.randrange(3):
            seat = net.seats[rng.randrange(len(net.seats))]
            seat.asleep_until_ns = net.now + rng.randrange(10, 425) * MS
        else:
            length = rng.randrange(1_000, 5_000)
            for seat in net.seats:
                seat.asleep_until_ns = net.now + (length + rng.randrange(400)) * MS
            at += length
    net.run(30_000 * MS)
    return net


def crash(seed: int, loss: int = 5) -> tuple[Network, int, int]:
    """One of two to four crashes after some seconds: the network, when, and who."""
    net = Network(seed, 2 + seed % 3, loss)
    crashed = net.rng.randrange(3_000, 8_000) * MS + net.rng.randrange(MS)
    victim = net.rng.randrange(len(net.seats))
    net.seats[victim].crashed_ns = crashed
    net.run(crashed + 3_000 * MS)
    return net, crashed, victim


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_the_living_are_not_declared_faulty_by_loss_and_pauses(first: int) -> None:
    suspicions = 0
    for seed in range(first, first + 30):
        net = lives(seed)
        assert net.faulty() == [], f"replay: lives({seed})"
        suspicions += len(net.found)
    assert suspicions > 30, "they show nothing if nobody was ever suspected"


@pytest.mark.parametrize("loss", [0, 5])
def test_everybody_finds_a_crash_within_a_second_and_blames_nobody_else(loss: int) -> None:
    for seed in range(60):
        net, crashed, victim = crash(seed, loss)
        others = [i for i in range(len(net.seats)) if i != victim]
        assert sorted(i for _, i, _ in net.faulty()) == others, f"replay: crash({seed}, {loss})"
        for at, _, slot in net.faulty():
            assert slot == victim
            assert 0 < at - crashed < 1_000 * MS, f"replay: crash({seed}, {loss})"


def test_a_cut_link_with_a_third_between_makes_both_ends_semi_operational() -> None:
    for seed in range(20):
        net = Network(seed, 3, 5)
        net.run(2_000 * MS)
        net.cut = {(0, 1), (1, 0)}
        net.run(12_000 * MS)
        assert net.faulty() == [], f"seed {seed}"
        for i, peer in ((0, 1), (1, 0)):
            mine = [f for _, who, f in net.found if who == i and f.slot == peer]
            semi = [f for f in mine if f.state == "SEMI"]
            assert semi, f"seed {seed}"
            assert all(f.relay in (2, -1) for f in semi)
        net.cut = set()
        net.run(14_000 * MS)
        net.loss = 0
        net.run(15_000 * MS)
        assert all(seat.detector.state(s) == "OPERATIONAL" for seat in net.seats for s in range(3))


def test_without_helpers_a_cut_link_and_some_loss_end_in_a_wrong_verdict() -> None:
    """Why probes have helpers: what others say of a peer in passing is not enough."""
    wrong = 0
    for seed in range(60):
        net = Network(seed, 3, 5)
        net.help = False
        net.cut = {(0, 1), (1, 0)}
        net.run(12_000 * MS)
        wrong += len(net.faulty())
    assert wrong > 0


def test_the_same_seed_gives_the_same_findings() -> None:
    assert lives(7).found == lives(7).found
    assert lives(7).found != lives(10).found


class BlamesOthers(FailureDetector):
    """A mutant that never thinks it was away itself."""

    def _turn(self, now: int) -> None:
        self._stepped_ns = now


class AsksNobody(FailureDetector):
    """A mutant that holds silence alone for proof."""

    def check(self, now: int) -> list[Probing | PeerVerdict]:
        found = super().check(now)
        for peer in self._peers:
            peer.probes = 99
        return [f for f in found if isinstance(f, PeerVerdict)]


@pytest.mark.parametrize(("mutant", "loss"), [(BlamesOthers, 5), (AsksNobody, 40)])
def test_the_model_finds_wrong_verdicts_of_mutants_that_the_detector_does_not_give(
    mutant: type[FailureDetector], loss: int
) -> None:
    assert any(lives(seed, mutant, loss).faulty() for seed in range(30))
