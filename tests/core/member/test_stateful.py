"""Hypothesis chooses who speaks, which packets travel, are lost or come twice, who crashes, leaves
or is held for failed, where the network parts, and the time.

After every step, at every member:
 1. no message is delivered twice;
 2. in a view a position holds one message, the same at all that are in it or went on together;
 3. messages of one sender that are not basic leave in order;
 4. what is not addressed to a member is not shown to it;
 5. a safe message is delivered as such only when every member of the view has its frame;
 6. the epochs of a member's views grow, it is in each of them, and one id is one view;
 7. whoever goes on together has delivered the same messages, with the marker in one place;
 8. with mode hold every message is delivered in the view that it was sent in.
At the end the network heals. All that are left come together in one view, have delivered what
they sent, and deliver once more.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from phalanx.config import lan
from phalanx.core.effects import (
    Datagrams,
    DeadlinePassed,
    Deliver,
    Effect,
    Input,
    LeaveRequest,
    NotSent,
    Region,
    Sent,
    Service,
    Stopped,
    Submit,
    SuspectMember,
    Transitional,
    Transmit,
    ViewInstalled,
)
from phalanx.core.ids import MemberId, View, ViewId, boot_view
from phalanx.core.member.member import Member

NAMES = "abcd"
members = st.integers(0, len(NAMES) - 1)
Told = tuple[str, int, int | None, Region]
"""Sender, number, position and region of a message."""


class Life:
    """What one member has been told."""

    def __init__(self) -> None:
        self.views: list[View] = []
        self.delivered: list[Deliver] = []
        self.sent: list[tuple[int, tuple[MemberId, ...] | None]] = []
        self.inside: list[Told] = []
        """What is not basic, delivered in the present view."""
        self.marker: int | None = None
        self.moves: dict[tuple[ViewId, ViewId], tuple[list[Told], int | None]] = {}

    def take(self, effect: Effect) -> None:
        if isinstance(effect, ViewInstalled):
            if self.views:
                self.moves[self.views[-1].id, effect.view.id] = (self.inside, self.marker)
            self.views.append(effect.view)
            self.inside, self.marker = [], None
        elif isinstance(effect, Transitional):
            self.marker = effect.pos
        elif isinstance(effect, Deliver):
            self.delivered.append(effect)
            if effect.service is not Service.BASIC:
                for k in range(effect.last - effect.first + 1):
                    pos = None if effect.pos is None else effect.pos + k
                    told = (effect.sender.name, effect.first + k, pos, effect.region)
                    self.inside.append(told)
        elif isinstance(effect, Sent):
            self.sent += [(n, effect.to) for n in range(effect.first, effect.last + 1)]
        elif isinstance(effect, NotSent) and not effect.rest:
            gone = range(effect.first, effect.last + 1)
            self.sent = [(n, to) for n, to in self.sent if n not in gone]


class Group(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.members: list[Member] = []
        self.lives = [Life() for _ in NAMES]
        self.links: dict[tuple[int, int], list[bytes]] = {}
        self.gone: set[int] = set()
        """Crashed, or about to leave."""
        self.stopped: set[int] = set()
        self.sides: list[set[int]] = []
        self.mode = "hold"
        self.early_safe: list[str] = []

    @initialize(
        order=st.sampled_from(["toto", "all-ack"]),
        mode=st.sampled_from(["hold", "flow"]),
        small=st.booleans(),
        alone=st.booleans(),
    )
    def start(self, order: str, mode: str, small: bool, alone: bool) -> None:
        everybody = boot_view([MemberId(name) for name in NAMES])
        config = lan(order=order, mode=mode, frame_bytes_max=100 if small else 16_000)
        self.mode = mode
        self.members = [
            Member(m, boot_view([m]) if alone else everybody, "g", config, i)
            for i, m in enumerate(everybody.members)
        ]
        for i, member in enumerate(self.members):
            self.perform(i, member.start(0))

    # -------------------------------------------------------------- the world

    def perform(self, i: int, effects: list[Effect]) -> None:
        self.members[i].validate()
        for effect in effects:
            self.lives[i].take(effect)
            if isinstance(effect, Transmit):
                for j in range(len(NAMES)):
                    if j != i:
                        self.links.setdefault((i, j), []).extend(effect.packets)
            elif isinstance(effect, Stopped):
                self.stopped.add(i)
            elif isinstance(effect, Deliver) and effect.service is Service.SAFE:
                if effect.region is Region.REGULAR:
                    self.early_safe += self.lacking(effect)

    def lacking(self, safe: Deliver) -> list[str]:
        """Live members that are still in the view of a safe message and lack its frame."""
        inside = [m for i, m in enumerate(self.members) if m.view.id == safe.view]
        return [m.me.name for m in inside if m.have[m.view.rank(safe.sender)] < safe.frame]

    def step(self, i: int, given: Input) -> None:
        if i not in self.stopped:
            self.perform(i, self.members[i].step(self.now, given))

    def due(self, end: int) -> tuple[int, int]:
        dues = [(m.deadline(), i) for i, m in enumerate(self.members) if i not in self.stopped]
        return min(((d, i) for d, i in dues if d is not None), default=(end + 1, 0))

    def hears(self, a: int, b: int) -> bool:
        return not self.sides or any({a, b} <= side for side in self.sides)

    # -------------------------------------------------------------- what may happen

    @rule(
        i=members,
        sizes=st.lists(st.integers(0, 150), min_size=1, max_size=4),
        service=st.sampled_from(Service),
        to=st.none() | st.sets(members, min_size=1),
    )
    def submit(self, i: int, sizes: list[int], service: Service, to: set[int] | None) -> None:
        assume(i not in self.gone)
        receivers = None
        if to is not None:
            present = self.members[i].view.members
            receivers = tuple(self.members[r].me for r in sorted(to))
            receivers = tuple(m for m in receivers if m in present) or None
        self.step(i, Submit([bytes(size) for size in sizes], service, receivers))

    @rule(a=members, b=members, count=st.integers(1, 5))
    def carry(self, a: int, b: int, count: int) -> None:
        packets = self.links.get((a, b), [])
        now, self.links[a, b] = packets[:count], packets[count:]
        if now and self.hears(a, b):
            self.step(b, Datagrams(now))

    @rule(a=members, b=members)
    def lose_first(self, a: int, b: int) -> None:
        del self.links.get((a, b), [])[:1]

    @rule(a=members, b=members)
    def send_first_twice_and_last(self, a: int, b: int) -> None:
        packets = self.links.get((a, b), [])
        packets.extend(packets[:1])

    @rule(us=st.sampled_from([50, 500, 5_000, 50_000]))
    def wait(self, us: int) -> None:
        """Time passes, and packets stay where they are."""
        end = self.now + us * 1000
        while (due := self.due(end))[0] <= end:
            self.now = max(self.now, due[0])
            self.step(due[1], DeadlinePassed())
        self.now = end

    @rule(ms=st.sampled_from([5, 50, 200, 1_000]))
    def run(self, ms: int) -> None:
        """Time passes, and packets travel at once."""
        end = self.now + ms * 1_000_000
        while True:
            while any(self.links.values()):
                for a, b in sorted(self.links):
                    self.carry(a, b, 1 << 20)
            due, i = self.due(end)
            if due > end:
                break
            self.now = max(self.now, due)
            self.step(i, DeadlinePassed())
        self.now = end

    @rule(side=st.sets(members, min_size=1, max_size=3))
    def part(self, side: set[int]) -> None:
        self.sides = [side, set(range(len(NAMES))) - side]

    @rule()
    def heal(self) -> None:
        self.sides = []

    @rule(i=members, j=members)
    def accuse(self, i: int, j: int) -> None:
        self.step(i, SuspectMember(self.members[j].me))

    @rule(who=st.permutations(range(len(NAMES))), service=st.sampled_from(Service))
    def accuse_while_all_talk(self, who: list[int], service: Service) -> None:
        """What is sent between the first word about a change and its end is hardest to place."""
        i, j, k, m = who
        assume(not {i, k} & self.gone)
        self.accuse(i, j)
        self.submit(i, [3, 120], service, None)
        self.carry(i, k, 9)
        self.submit(k, [4], service, None)
        self.carry(k, m, 9)
        self.accuse(i, m)
        self.carry(i, k, 9)

    @precondition(lambda self: len(self.gone) < 2)
    @rule(i=members)
    def crash(self, i: int) -> None:
        self.gone.add(i)
        self.stopped.add(i)

    @precondition(lambda self: len(self.gone) < 2)
    @rule(i=members)
    def leave(self, i: int) -> None:
        self.gone.add(i)
        self.step(i, LeaveRequest())

    # -------------------------------------------------------------- what must hold

    @invariant()
    def nothing_comes_twice_or_out_of_order_or_to_the_wrong_one(self) -> None:
        for i, life in enumerate(self.lives):
            seen: set[tuple[str, int]] = set()
            last: dict[str, int] = {}
            for d in life.delivered:
                assert d.to is None or self.members[i].me in d.to
                assert self.mode == "flow" or (d.origin, d.phase) == (d.view, 0)
                for number in range(d.first, d.last + 1):
                    assert (d.sender.name, number) not in seen
                    seen.add((d.sender.name, number))
                    if d.service is not Service.BASIC:
                        assert last.get(d.sender.name, 0) < number
                        last[d.sender.name] = number

    @invariant()
    def nobody_calls_a_message_safe_too_early(self) -> None:
        assert not self.early_safe

    @invariant()
    def those_in_a_view_agree_on_positions(self) -> None:
        at: dict[tuple[ViewId, int], tuple[str, int]] = {}
        for i, life in enumerate(self.lives):
            if i not in self.stopped:
                for name, number, pos, _ in life.inside:
                    if pos is not None:
                        place = (life.views[-1].id, pos)
                        assert at.setdefault(place, (name, number)) == (name, number)

    @invariant()
    def views_are_the_same_everywhere_and_epochs_grow(self) -> None:
        known: dict[ViewId, View] = {}
        for i, life in enumerate(self.lives):
            epochs = [(v.id.joins, v.id.removals) for v in life.views]
            assert epochs == sorted(set(epochs))
            for view in life.views:
                assert self.members[i].me in view.members
                assert known.setdefault(view.id, view) == view

    @invariant()
    def whoever_goes_on_together_has_delivered_the_same(self) -> None:
        moves: dict[tuple[ViewId, ViewId], tuple[list[Told], int | None]] = {}
        for life in self.lives:
            for move, (inside, marker) in life.moves.items():
                told, place = moves.setdefault(move, (inside, marker))
                assert visible(told, self.to_all) == visible(inside, self.to_all)
                assert place == marker

    @property
    def to_all(self) -> set[tuple[str, int]]:
        """Messages that are addressed to everybody."""
        return {
            (NAMES[i], number)
            for i, life in enumerate(self.lives)
            for number, to in life.sent
            if to is None
        }

    def teardown(self) -> None:
        if not self.members:
            return
        self.heal()
        left = [i for i in range(len(NAMES)) if i not in self.gone]
        together = tuple(self.members[i].me for i in left)
        for _ in range(60):
            self.run(500)
            views = {self.members[i].view for i in left}
            settled = all(self.members[i].settled for i in left)
            if settled and len(views) == 1 and views.pop().members == together:
                break
        assert {self.members[i].view.members for i in left} == {together}
        self.submit(left[0], [1], Service.SAFE, None)
        self.run(1_000)
        for i in left:
            assert self.lives[i].delivered[-1].sender == self.members[left[0]].me
            self.has_delivered_its_own(i)
        self.check_invariants_once_more()

    def has_delivered_its_own(self, i: int) -> None:
        life, me = self.lives[i], self.members[i].me
        own = {n for d in life.delivered if d.sender == me for n in range(d.first, d.last + 1)}
        assert own == {number for number, to in life.sent if to is None or me in to}

    def check_invariants_once_more(self) -> None:
        self.nothing_comes_twice_or_out_of_order_or_to_the_wrong_one()
        self.nobody_calls_a_message_safe_too_early()
        self.those_in_a_view_agree_on_positions()
        self.views_are_the_same_everywhere_and_epochs_grow()
        self.whoever_goes_on_together_has_delivered_the_same()


def visible(told: Iterable[Told], to_all: set[tuple[str, int]]) -> list[Told]:
    """What everybody is shown, in an order that does not depend on who looks: causal messages may
    leave in different orders."""
    return sorted((t for t in told if t[:2] in to_all), key=str)


Group.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestGroup = Group.TestCase
