"""Hypothesis chooses who speaks, which packets travel, are lost or come twice, and the time.

After every step, at every member:
1. no message is delivered twice;
2. a position holds one message, the same everywhere;
3. messages of one sender that are not basic leave in order;
4. what is not addressed to a member is not shown to it;
5. a safe message is delivered only when every member has its frame.
At the end the network heals, and everybody has delivered everything addressed to it.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from phalanx.config import lan
from phalanx.core.effects import (
    Datagrams,
    DeadlinePassed,
    Deliver,
    Effect,
    Sent,
    Service,
    Submit,
    Transmit,
)
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member import Member

members = st.integers(0, 2)


class Group(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.members: list[Member] = []
        self.links: dict[tuple[int, int], list[bytes]] = {}
        self.delivered: list[list[Deliver]] = [[], [], []]
        self.sent: list[tuple[int, int, Service, tuple[MemberId, ...] | None]] = []
        self.early_safe: list[str] = []

    @initialize(order=st.sampled_from(["toto", "all-ack"]), small=st.booleans())
    def start(self, order: str, small: bool) -> None:
        self.view = boot_view([MemberId(name) for name in "abc"])
        config = lan(order=order, frame_bytes_max=100 if small else 16_000)
        self.members = [
            Member(m, self.view, "g", config, i) for i, m in enumerate(self.view.members)
        ]
        for i, member in enumerate(self.members):
            self.perform(i, member.start(0))

    def perform(self, i: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Transmit):
                for j in range(3):
                    if j != i:
                        self.links.setdefault((i, j), []).extend(effect.packets)
            elif isinstance(effect, Sent):
                for number in range(effect.first, effect.last + 1):
                    self.sent.append((i, number, effect.service, effect.to))
            elif isinstance(effect, Deliver):
                self.delivered[i].append(effect)
                sender = self.view.rank(effect.sender)
                if effect.service is Service.SAFE:
                    late = [m.me.name for m in self.members if m.have[sender] < effect.frame]
                    self.early_safe += late

    @rule(
        i=members,
        sizes=st.lists(st.integers(0, 150), min_size=1, max_size=4),
        service=st.sampled_from(Service),
        to=st.none() | st.sets(members, min_size=1),
    )
    def submit(self, i: int, sizes: list[int], service: Service, to: set[int] | None) -> None:
        receivers = None if to is None else tuple(self.view.members[r] for r in sorted(to))
        bodies = [bytes(size) for size in sizes]
        self.perform(i, self.members[i].step(self.now, Submit(bodies, service, receivers)))

    @rule(a=members, b=members, count=st.integers(1, 5))
    def carry(self, a: int, b: int, count: int) -> None:
        packets = self.links.get((a, b), [])
        now, self.links[a, b] = packets[:count], packets[count:]
        if now:
            self.perform(b, self.members[b].step(self.now, Datagrams(now)))

    @rule(a=members, b=members)
    def lose_first(self, a: int, b: int) -> None:
        del self.links.get((a, b), [])[:1]

    @rule(a=members, b=members)
    def send_first_twice_and_last(self, a: int, b: int) -> None:
        packets = self.links.get((a, b), [])
        packets.extend(packets[:1])

    @rule(us=st.sampled_from([50, 500, 5_000, 50_000]))
    def wait(self, us: int) -> None:
        end = self.now + us * 1000
        while self.members:
            dues = [m.deadline() for m in self.members]
            due, i = min((end + 1 if d is None else d, i) for i, d in enumerate(dues))
            if due > end:
                break
            self.now = max(self.now, due)
            self.perform(i, self.members[i].step(self.now, DeadlinePassed()))
        self.now = end

    @invariant()
    def all_is_well(self) -> None:
        assert not self.early_safe
        at: dict[int, tuple[str, int]] = {}
        for i, deliveries in enumerate(self.delivered):
            seen: set[tuple[str, int]] = set()
            last: dict[str, int] = {}
            for d in deliveries:
                assert d.to is None or self.view.members[i] in d.to
                for k in range(d.last - d.first + 1):
                    mid = (d.sender.name, d.first + k)
                    assert mid not in seen
                    seen.add(mid)
                    if d.pos is not None:
                        assert at.setdefault(d.pos + k, mid) == mid
                    if d.service is not Service.BASIC:
                        assert last.get(mid[0], 0) < mid[1]
                        last[mid[0]] = mid[1]

    def teardown(self) -> None:
        for _ in range(400):
            if self.members and all(m.settled for m in self.members):
                break
            for a, b in sorted(self.links):
                self.carry(a, b, 1 << 20)
            self.wait(2_000)
        self.all_is_well()
        for i, deliveries in enumerate(self.delivered):
            got = {
                (self.view.rank(d.sender), number)
                for d in deliveries
                for number in range(d.first, d.last + 1)
            }
            me = self.view.members[i]
            due = {(s, number) for s, number, _, to in self.sent if to is None or me in to}
            assert got == due


Group.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestGroup = Group.TestCase
