"""Packets and frames that lie about views, epochs, proposals, members and names.

Messages are not authenticated, so a forger can cost a member an attempt to join, or a view more
with the same members. It must not make a view with members that did not agree, raise an exception,
fill the memory, or keep a member from merging and delivering afterwards. What cannot be true is
counted by kind and dropped.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.core.forged_packets import body, forged, made_up, ranked

from phalanx.config import lan
from phalanx.core.broadcast.foreign_frames import KEPT_MAX
from phalanx.core.effects import (
    Datagrams,
    DeadlinePassed,
    Refused,
    Service,
    Stopped,
    SuspectMember,
    Transmit,
    ViewInstalled,
)
from phalanx.core.ids import MEMBERS_MAX, NUMBER_MAX, MemberId, View, ViewId, boot_view
from phalanx.core.member.member import Member
from phalanx.core.membership.announcement import ANNOUNCED_MAX
from phalanx.core.membership.proposals import EPOCH_MAX, component_of, proposal_of
from phalanx.core.membership.statements import MEMBERS_KNOWN_MAX
from phalanx.core.wire.frame_codec import encode_frame, encode_tag
from phalanx.core.wire.frames import (
    Announce,
    Component,
    ControlMessage,
    DeliveredVector,
    FrameKind,
    LeaveAnnounced,
    MessageRun,
    Propose,
)
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import (
    REASONS,
    Alive,
    ControlPacket,
    Fragment,
    Hello,
    JoinAttempt,
    Nack,
    NameClaimed,
    NameHeld,
    Probe,
    Relay,
    Want,
)

MS = 1_000_000
CODEC = PacketCodec("phalanx", "g")
Build = Callable[..., Any]
A, B, C = (MemberId(name) for name in "abc")
MALLORY = MemberId("mallory")
STAGES = ("STEADY", "COLLECTING", "PROPOSED")


# ---------------------------------------------------------------------------- making things up


def pieces(
    sender: MemberId,
    number: int,
    components: tuple[Component, ...],
    said: ControlMessage | None = None,
    **more: Any,
) -> list[bytes]:
    """A frame of a change, from the first of the components, with a proposal of all of them; by
    default one that could be."""
    order = sorted(components, key=lambda c: c.view)
    proposal = more.pop("proposal", None) or body(order, more.pop("left_out", ()))
    if said is None or isinstance(said, LeaveAnnounced):
        more = {"issued": number - 1, "start": 0} | more
    return forged(CODEC, sender, number, components[0], proposal, said, **more)


class Forger:
    """Random packets of every kind: no two alike, most of them consistent with themselves. They
    name members of the group, and never speak as one: that is for the tests of forged names."""

    def __init__(self, seed: int, group: tuple[MemberId, ...]) -> None:
        self.rng = random.Random(seed)
        self.group = group
        self.made = 0
        self.speakers: set[MemberId] = set()
        """Strangers in whose name a proposal was issued: nobody can know that they do not exist."""

    def stranger(self) -> MemberId:
        self.made += 1
        if self.rng.randrange(4) == 0:  # the name of a member, in another life
            real = self.rng.choice(self.group)
            return MemberId(real.name, real.incarnation + self.made)
        return MemberId(f"s{self.made}" + "é" * self.rng.choice([0, 0, 60]))

    def anybody(self) -> MemberId:
        return self.rng.choice(self.group) if self.rng.randrange(2) else self.stranger()

    def some(self, most: int = 5) -> tuple[MemberId, ...]:
        return ranked({self.anybody() for _ in range(self.rng.randrange(most))})

    def number(self) -> int:
        return self.rng.choice([1, 2, self.rng.randrange(1, 50), 5_000, (1 << 63) - 1])

    def digest(self) -> bytes:
        return self.rng.randbytes(8)

    def component(self, *members: MemberId) -> Component:
        rng = self.rng
        joins = rng.choice([0, 1, rng.randrange(9), 1 << 19, 1 << 25, (1 << 32) - 1])
        names = {*members, *self.some(rng.choice([1, 3, 8]))} or {self.stranger()}
        made = made_up(names, joins, rng.choice([0, 1, (1 << 32) - 1]), self.digest())
        if rng.randrange(8) == 0:
            made = msgspec.structs.replace(made, view=ViewId(joins, 0, self.digest()))
        if rng.randrange(8) == 0:
            made = msgspec.structs.replace(made, members=made.members[::-1])
        return made

    def plain(self) -> ControlPacket:
        rng, anybody, number = self.rng, self.anybody, self.number
        sender = self.stranger()
        view = self.component().view
        wants = tuple(Want(rng.randrange(5), number(), number()) for _ in range(3))
        kinds: list[Callable[[], ControlPacket]] = [
            lambda: Hello(sender, number(), view, self.some(9)),
            lambda: JoinAttempt(sender, number(), self.component(sender), self.some(9)),
            lambda: JoinAttempt(sender, number(), self.component(), self.some(9)),
            lambda: NameClaimed(anybody(), number()),
            lambda: NameHeld(self.stranger(), number()),
            lambda: Probe(anybody(), anybody(), number(), anybody(), None),
            lambda: Probe(anybody(), anybody(), number(), anybody(), anybody()),
            lambda: Alive(anybody(), anybody(), number(), view, anybody(), anybody()),
            lambda: Relay(anybody(), anybody(), anybody()),
            lambda: Nack(self.digest(), rng.randrange(5), wants),
            lambda: Nack(self.digest(), rng.randrange(5), wants, self.some(5)),
        ]
        return rng.choice(kinds)()

    def said(self) -> ControlMessage | None:
        delivered = DeliveredVector(self.some(), (self.number(),))
        return self.rng.choice([None, Propose(delivered), Propose(), Propose(), LeaveAnnounced()])

    def frame(self, views: list[Component]) -> list[bytes]:
        """From a stranger; the components of its proposal may be those that members are in."""
        rng, sender, number = self.rng, self.stranger(), self.number()
        where = self.component(sender)
        components = [where, *rng.sample(views, rng.randrange(len(views) + 1))]
        if rng.randrange(2):
            components.append(self.component())
        order = list(components)
        if rng.randrange(4):
            order.sort(key=lambda c: c.view)
        places = [(i, k) for i, c in enumerate(order) for k in range(len(c.members))]
        out = sorted(rng.sample(places, rng.randrange(min(len(places), 4))))
        if rng.randrange(8) == 0:
            out.append((len(order), 0))
        said = self.said()
        if isinstance(said, Propose):
            self.speakers.add(sender)
        issued = number if isinstance(said, Propose) else max(1, number - 1)
        more: dict[str, Any] = {"proposal": body(order, out), "issued": issued, "start": issued}
        if rng.randrange(2):
            more["vector"] = tuple(number if m == sender else self.number() for m in where.members)
        if rng.randrange(2):
            left = sum(len(c.members) for c in order) - len(out)
            more["closings"] = tuple(self.number() for _ in range(left))
            more["openings"] = tuple(self.number() for _ in where.members)
        if rng.randrange(8) == 0:
            more["table"] = self.digest()
        if said is None and rng.randrange(2):
            service = rng.choice(list(Service))
            run = MessageRun(service, self.number(), 1, rng.choice([None, (0,)]), 0, (1,))
            more["runs"] = [(run, [b"!"])]
        if said is None and rng.randrange(4) == 0:  # a frame of a young view
            more |= {"phase": rng.choice([0, 0, 2]), "proposal": body([where]), "closings": ()}
            more |= {"issued": 0, "start": 0}
        return forged(CODEC, sender, number, where, said=said, **more)

    def packets(self, views: list[Component]) -> list[bytes]:
        kind = self.rng.randrange(4)
        if kind == 0:
            return [CODEC.encode(self.plain())]
        if kind == 1:  # a part of something large
            number, count = self.number(), self.rng.randrange(2, 9)
            table = self.rng.choice([self.digest(), boot_view(self.group).id.digest])
            index = self.rng.randrange(count)
            piece = Fragment(b"?" * 99, table, len(self.group), 0, number, index, count, 0)
            return [CODEC.encode_fragment(piece)]
        return self.frame(views)


def enter_stage(group: Any, i: int, stage: str) -> None:
    """Bring a member to a stage by lies alone: a stranger hears it, and has a component. To the
    steady one it comes back by itself."""
    protocol = group.members[i]._protocol
    me, ally = group.members[i].me, MemberId(f"ally{group.now}")
    group.step(i, Datagrams([]))
    if stage == "STEADY" and protocol.stage != "STEADY":
        group.pump(1_000)
    if stage != "STEADY" and protocol.stage == "STEADY":
        where = made_up([ally])
        lies: list[ControlPacket] = [
            Hello(ally, 1, where.view, (me,)),
            JoinAttempt(ally, 1, where, (me,)),
        ]
        group.step(i, Datagrams([CODEC.encode(lie) for lie in lies]))
    if stage == "PROPOSED" and protocol.stage == "COLLECTING":
        group.pump(lan().collect_ns // MS + 1)


def refusals(group: Any, i: int) -> Counter[str]:
    told: Counter[str] = Counter()
    for effect in group.seen[i]:
        if isinstance(effect, Refused):
            told[effect.reason] += effect.count
    return told


def members_seen(group: Any, i: int) -> set[MemberId]:
    """Everybody who ever was in a view of this member."""
    views = [e.view for e in group.seen[i] if isinstance(e, ViewInstalled)]
    return {member for view in views for member in view.members}


def merges_and_delivers(group: Any, names: str) -> None:
    """Left in peace, all of them come together and talk."""
    group.pump(20_000)
    assert {group.views(i)[-1] for i in range(len(names))} == {names}
    group.submit(0, b"after all", service=Service.SAFE)
    group.pump(200)
    assert [group.bodies(i)[-1] for i in range(len(names))] == [b"after all"] * len(names)


# ---------------------------------------------------------------------------- every kind at random


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("seed", range(3))
def test_forged_packets_stop_nobody_and_make_no_view_with_strangers_that_issued_nothing(
    mesh: Build, stage: str, seed: int
) -> None:
    """a and b are in a view, c is elsewhere and comes back; lies reach a, and some of them b."""
    group = mesh("abc")
    group.pump(300)
    group.cut({0, 1}, {2})
    group.pump(1_500)
    assert group.views(0)[-1] == "ab"
    forger = Forger(seed, (A, B, C))
    reached: Counter[str] = Counter()
    for _ in range(60):
        enter_stage(group, 0, stage)
        reached[group.members[0]._protocol.stage] += 1
        views = [component_of(group.members[i].view) for i in (0, 1)]
        lies = [lie for _ in range(20) for lie in forger.packets(views)]
        group.step(0, Datagrams(lies))
        group.step(1, Datagrams(forger.rng.sample(lies, len(lies) // 2)))
        group.pump(forger.rng.choice([0, 5, 50, 400]))
    assert reached[stage] >= 10
    for i in range(3):
        assert members_seen(group, i) <= {A, B, C} | forger.speakers
        assert set(refusals(group, i)) <= set(REASONS)
    assert refusals(group, 0)["impossible"] > 20
    group.cut()
    merges_and_delivers(group, "abc")


# ---------------------------------------------------------------------------- what cannot be


CROWD = tuple(MemberId(f"m{k:04}") for k in range(MEMBERS_MAX + 1))
NAMELESS = ViewId(1, 0, b"made up!")
HERE = boot_view([A, B])
HOME = component_of(HERE)
LONE = component_of(boot_view([C]))
ALONE = body([HOME])


def impossible(**more: Any) -> list[bytes]:
    """Frame 99 of b, which proposes to leave nobody out, but for what is changed."""
    return pieces(B, 99, (HOME,), more.pop("said", Propose()), **more)


@pytest.mark.parametrize(
    ("lies", "reason"),
    [
        ([CODEC.encode(JoinAttempt(MALLORY, 1, made_up([B]), (A,)))], "impossible"),
        (
            [CODEC.encode(JoinAttempt(MALLORY, 1, Component(NAMELESS, (MALLORY,)), (A,)))],
            "impossible",
        ),
        (
            [CODEC.encode(JoinAttempt(B, 1, Component(HERE.id, (B, A), HERE.context), (A,)))],
            "impossible",
        ),
        ([CODEC.encode(JoinAttempt(CROWD[0], 1, made_up(CROWD), (A,)))], "malformed"),
        ([CODEC.encode(Hello(MALLORY, 1, HERE.id, CROWD))], "malformed"),
        ([CODEC.encode(Nack(b"whatever", 7, (Want(0, 1, 1),), (A, B)))], "malformed"),
        ([CODEC.encode(Nack(b"whatever", 0, (Want(0, 1, 1),)))], "table"),
        (
            pieces(MALLORY, 3, (made_up([MALLORY]),), LeaveAnnounced(), table=b"whatever"),
            "impossible",
        ),
        (impossible(proposal=b"whatever"), "impossible"),
        (impossible(proposal=body([LONE])), "impossible"),
        (impossible(proposal=body([made_up([A, B])])), "impossible"),
        (impossible(left_out=[(0, 1)]), "impossible"),
        (impossible(left_out=[(0, 2)]), "impossible"),
        (impossible(left_out=[(1, 0)]), "impossible"),
        (impossible(left_out=[(0, 0), (0, 0)]), "impossible"),
        (impossible(proposal=body([HOME, Component(NAMELESS, (C,), b"context8")])), "impossible"),
        (
            impossible(proposal=body([HOME, Component(ViewId(EPOCH_MAX, 0, b"made up!"), (C,))])),
            "impossible",
        ),
        (impossible(proposal=body([HOME, made_up([A, C])])), "impossible"),
        (impossible(proposal=body([HOME, made_up([MemberId("a", 2)])])), "impossible"),
        (impossible(proposal=body([HOME, made_up(CROWD)])), "impossible"),
        (impossible(proposal=body([HOME, made_up(CROWD[:-1])])), "impossible"),
        (impossible(vector=(0, 98)), "impossible"),
        (impossible(vector=(0, 99, 1)), "impossible"),
        (impossible(vector=(99,)), "impossible"),
        (impossible(closings=(1,)), "impossible"),
        (impossible(closings=(1, 2, 3)), "impossible"),
        (impossible(openings=(1,)), "impossible"),
        (impossible(issued=98), "impossible"),
        (impossible(issued=NUMBER_MAX), "impossible"),
        (impossible(issued=NUMBER_MAX + 1), "malformed"),
        (impossible(start=100), "impossible"),
        (impossible(said=Propose(DeliveredVector((A,), ()))), "impossible"),
        (impossible(said=Propose(DeliveredVector((A,), (NUMBER_MAX,)))), "impossible"),
        (impossible(said=Propose(DeliveredVector((A,), (1,), (), (NUMBER_MAX,)))), "impossible"),
        (impossible(said=None, issued=0), "impossible"),
        (impossible(said=None, phase=2), "impossible"),
        (pieces(B, 9_999, (HOME,), Propose()), "ahead"),
        (pieces(B, ANNOUNCED_MAX, (HOME,), Propose()), "ahead"),
        (impossible(vector=(77, 99)), "vector"),
    ],
    ids=[
        "an attempt from somebody else's view",
        "an attempt from a view whose name is made up",
        "an attempt from a view out of order",
        "an attempt from a view too large",
        "a hello that hears too many",
        "a request of nobody",
        "a request about an unknown table",
        "a table that is another view's",
        "bytes that are no proposal",
        "a proposal without the sender's view",
        "a proposal of a view with another epoch",
        "a proposal without its sender",
        "an entry of nobody",
        "an entry of no component",
        "an entry left out twice",
        "a component with a wrong digest",
        "a component at the last epoch with a wrong digest",
        "a member twice",
        "a name twice",
        "a component too large",
        "a view too large",
        "a vector without itself",
        "a vector too long",
        "a vector too short",
        "closings too few",
        "closings too many",
        "openings too few",
        "an issue of an earlier frame",
        "an issue far ahead",
        "an issue beyond all numbers",
        "a start after the issue",
        "more names delivered than numbers",
        "a message delivered beyond all numbers",
        "a message known beyond all numbers",
        "a change without a proposal",
        "a phase that there is not",
        "a frame too far ahead",
        "a frame as far ahead as can be",
        "a frame that follows what was never sent",
    ],
)
def test_what_cannot_be_is_counted_by_kind_and_changes_nothing(
    mesh: Build, lies: list[bytes], reason: str
) -> None:
    """Rule M-2."""
    group = mesh("ab")
    group.pump(300)
    before = refusals(group, 0)
    group.step(0, Datagrams(lies))
    assert refusals(group, 0) - before == {reason: 1}
    protocol = group.members[0]._protocol
    assert (protocol.stage, protocol.phase, protocol.changing) == ("STEADY", 0, False)
    assert protocol._statements.newest(B) is None or protocol._statements.newest(B).number < 99
    assert group.members[0]._active.state.broadcast.waiting() == []


def test_frames_of_strangers_are_nobodys_business_and_leave_no_trace(mesh: Build) -> None:
    group = mesh("ab")
    group.pump(300)
    member = group.members[0]
    for k in range(200):
        sender = MemberId(f"s{k}")
        group.step(0, Datagrams(pieces(sender, 1, (made_up([sender]),), Propose())))
    assert member._resources.foreign.kept() == {}
    assert not member._active.state.broadcast.retransmission.missing
    assert not member._resources.foreign.retransmission.missing
    assert member._protocol.stage == "STEADY"


def test_a_component_that_lies_costs_an_attempt_and_no_more(mesh: Build) -> None:
    """Mallory says that it wants to join, with members that nobody ever heard."""
    group = mesh("ab")
    group.pump(300)
    lie = CODEC.encode(JoinAttempt(MALLORY, 1, made_up([MALLORY, *CROWD[:50]]), (A,)))
    for i in (0, 1):
        group.step(i, Datagrams([lie]))
    group.submit(0, b"meanwhile")
    group.pump(3_000)
    assert set(group.views(0)) == set(group.views(1)) == {"ab"}
    assert group.bodies(0) == group.bodies(1) == [b"meanwhile"]
    assert not group.members[0]._protocol.changing


def test_a_lie_about_a_members_newer_view_does_not_part_the_group_for_long(mesh: Build) -> None:
    group = mesh("ab")
    group.pump(300)
    lie = CODEC.encode(JoinAttempt(MALLORY, 1, made_up([MALLORY, B], joins=5), (A,)))
    group.step(0, Datagrams([lie]))
    group.pump(5_000)
    assert members_seen(group, 0) | members_seen(group, 1) == {A, B}
    assert group.views(0)[-1] == group.views(1)[-1] == "ab"


def test_a_proposal_of_a_view_with_strangers_is_not_installed_without_their_word(
    mesh: Build,
) -> None:
    group = mesh("a", alone=True)
    group.pump(200)
    there, here = made_up([MALLORY]), component_of(group.members[0].view)
    group.step(0, Datagrams([CODEC.encode(JoinAttempt(MALLORY, 1, there, (A,)))]))
    said = Propose(DeliveredVector((A,), (9,)))
    group.step(0, Datagrams(pieces(MALLORY, 4, (there, here), said)))
    group.step(0, Datagrams(pieces(MALLORY, 5, (there, here, made_up([B])), Propose())))
    group.pump(3_000)
    assert B not in members_seen(group, 0), "b never said a word"


@pytest.mark.parametrize(
    "lie",
    [
        [made_up(CROWD[: MEMBERS_MAX - 2])],
        [made_up([member]) for member in CROWD[:300]],
        [made_up([C], joins=EPOCH_MAX, removals=EPOCH_MAX)],
        [made_up([C], joins=1 << 20)],
        [boot_view([C])],
        [made_up([A, C], joins=3)],
    ],
    ids=["a crowd", "many views", "the last epoch", "an epoch ahead", "c", "a somewhere else"],
)
def test_a_forged_proposal_of_a_member_adds_nobody_to_a_view(
    mesh: Build, lie: list[Component | View]
) -> None:
    """It is in b's name, and could be b's: a answers it, and b does too."""
    group = mesh("ab")
    group.pump(300)
    number = group.members[0].have[1] + 1
    components = [component_of(c) if isinstance(c, View) else c for c in lie]
    order = sorted([HOME, *components], key=lambda c: c.view)
    out = [(order.index(c), c.members.index(A)) for c in components if A in c.members]
    packets = pieces(B, number, (HOME,), Propose(), proposal=body(order, out))
    group.step(0, Datagrams(packets))
    assert group.members[0]._protocol.phase == 1, "it is believed"
    group.pump(3_000)
    assert members_seen(group, 0) | members_seen(group, 1) == {A, B}
    merges_and_delivers(group, "ab")


# ---------------------------------------------------------------------------- memory


def weight(root: object) -> int:
    """Bytes of everything that can be reached, about."""
    seen: set[int] = set()
    todo: deque[object] = deque([root])
    total = 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type) or callable(one):
            continue
        seen.add(id(one))
        total += one.__sizeof__()
        if isinstance(one, dict):
            todo.extend(one)
            todo.extend(one.values())
        elif isinstance(one, list | tuple | set | frozenset | deque):
            todo.extend(one)
        else:
            slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            fields = getattr(type(one), "__struct_fields__", ())
            todo.extend(getattr(one, name, None) for name in (*slots, *fields))
            todo.extend(vars(one).values() if hasattr(one, "__dict__") else ())
    return total


def victim() -> Member:
    member = Member(A, boot_view([A]), "g", lan(), 1)
    member.start(0)
    return member


def flood(member: Member, forger: Forger, count: int, now: int, step_ns: int) -> int:
    """So many forged packets, one at a time, with timers in between. No stranger proposes to unite
    with the member: such a proposal is answered, as that of an honest stranger is."""
    sent = 0
    while sent < count:
        lies = forger.packets([])
        member.step(now, Datagrams(lies))
        sent += len(lies)
        now += step_ns
        due = member.deadline()
        while due is not None and due <= now:
            member.step(max(due, now), DeadlinePassed())
            due = member.deadline()
    return now


@pytest.mark.parametrize("step_ns", [100_000, MS, 20 * MS], ids=["fast", "steady", "slow"])
def test_ten_thousand_forged_packets_do_not_fill_the_memory(step_ns: int) -> None:
    """Random names, tables and views. What is kept is a statement of each of the last 4,096
    strangers: a few hundred bytes for each packet, until there are as many."""
    member = victim()
    forger = Forger(7, (A, B, C))
    now = flood(member, forger, 200, 200 * MS, step_ns)
    fresh = weight(member)
    flood(member, forger, 10_000, now, step_ns)
    assert weight(member) - fresh < 6 << 20


def test_stored_proposals_of_strangers_do_not_make_a_view_that_is_too_large(mesh: Build) -> None:
    """x and y are in one view. Each has proposed a view of 600 more, which did not count then."""
    group = mesh("a", alone=True)
    group.pump(200)
    x, y = MemberId("x"), MemberId("y")
    there = made_up([x, y])
    for sender, first in ((x, 0), (y, 1)):
        crowd = made_up(MemberId(f"{first}-{k:04}") for k in range(600))
        group.step(0, Datagrams(pieces(sender, 5, (there, crowd), Propose())))
    group.step(0, Datagrams([CODEC.encode(JoinAttempt(x, 1, there, (A,)))]))
    group.pump(lan().collect_ns // MS + 1)
    assert len(group.members[0]._protocol.current.entries) <= MEMBERS_MAX


def test_one_burst_of_forged_frames_while_collecting_does_not_fill_the_memory(mesh: Build) -> None:
    group = mesh("a", alone=True)
    group.pump(200)
    forger = Forger(8, (A, B, C))
    enter_stage(group, 0, "COLLECTING")
    member = group.members[0]
    for _ in range(3_000):
        member.step(group.now, Datagrams(forger.packets([component_of(member.view)])))
    assert weight(member) < 16 << 20
    group.pump(10_000)
    assert weight(member) < 4 << 20, "and it is forgotten soon"


def test_statements_of_strangers_are_kept_of_a_bounded_number(mesh: Build) -> None:
    """Rule M-3."""
    group = mesh("a", alone=True)
    group.pump(200)
    enter_stage(group, 0, "COLLECTING")
    member = group.members[0]
    strangers = [MemberId(f"s{k:05}") for k in range(MEMBERS_KNOWN_MAX + 500)]
    lies = [lie for s in strangers for lie in pieces(s, 1, (made_up([s]),), Propose())]
    for at in range(0, len(lies), 256):
        member.step(group.now, Datagrams(lies[at : at + 256]))
    kept = member._protocol._statements
    assert MEMBERS_MAX < len(kept._newest) <= MEMBERS_KNOWN_MAX
    assert len(kept._issues) <= MEMBERS_KNOWN_MAX
    assert member._resources.foreign.kept() == {}


@pytest.mark.parametrize(("size", "count"), [(1, 2 * KEPT_MAX), (1_000, 2_000)])
def test_frames_of_a_proposed_component_are_kept_within_limits(size: int, count: int) -> None:
    """They may be carried into the next view. Their sender is in the proposal of a, and talks
    (rule B-15)."""
    member = victim()
    home, there = component_of(member.view), made_up([MALLORY])
    group = (there, home)
    member.step(500 * MS, DeadlinePassed())
    while not member.named:
        member.step(member.deadline() or 0, DeadlinePassed())
    now = 2_000 * MS
    member.step(now, Datagrams([CODEC.encode(JoinAttempt(MALLORY, 1, there, (A,)))]))
    member.step(now + lan().collect_ns, DeadlinePassed())
    assert MALLORY in member._protocol.current.entries
    foreign = member._resources.foreign
    for number in range(2, count):
        run = MessageRun(Service.AGREED, number, 1, None, 0, (size,))
        packets = pieces(MALLORY, number, group, runs=[(run, [bytes(size)])], issued=1, start=1)
        member.step(now + lan().collect_ns, Datagrams(packets))
        assert foreign._bytes <= 4 * lan().window_bytes_min
        assert sum(map(len, foreign.kept().values())) <= KEPT_MAX
    assert foreign.kept()


@pytest.mark.parametrize(
    "size",
    [
        1_000,
        1,
    ],
)
def test_parts_of_frames_with_an_unknown_table_are_not_kept_without_limit(size: int) -> None:
    member = victim()
    for k in range(10_000):
        piece = Fragment(bytes(size), b"unknown!", 0, 0, k + 1, 0, 8_192, 0)
        member.step(MS, Datagrams([CODEC.encode_fragment(piece)]))
    assert member._resources.foreign._reassembler.bytes < 2 << 20
    assert weight(member) < 4 << 20


# ---------------------------------------------------------------------------- forged names


def test_a_forged_word_that_the_name_is_held_does_not_stop_its_holder(mesh: Build) -> None:
    """Nobody with that incarnation lives: it answers nothing."""
    group = mesh("ab")
    group.pump(300)
    group.step(0, Datagrams([CODEC.encode(NameHeld(MemberId("a", 0), 0))]))
    group.pump(3_000)
    assert not [e for e in group.seen[0] if isinstance(e, Stopped)]


@pytest.mark.parametrize("incarnation", [0, 9])
def test_a_stranger_that_answers_claims_does_not_stop_a_member_of_a_group(
    mesh: Build, incarnation: int
) -> None:
    """A forger says that the name is held, and answers each claim with its number."""
    group = mesh("ab")
    group.pump(300)
    rival = MemberId("a", incarnation)
    for _ in range(10):
        heard = len(group.seen[0])
        group.step(0, Datagrams([CODEC.encode(NameHeld(rival, 0))]))
        group.pump(1)
        for effect in list(group.seen[0])[heard:]:
            for packet in effect.packets if isinstance(effect, Transmit) else ():
                claim = CODEC.decode(packet)
                if isinstance(claim, NameClaimed):
                    group.step(0, Datagrams([CODEC.encode(NameHeld(rival, claim.nonce))]))
        group.pump(100)
    assert not [e for e in group.seen[0] if isinstance(e, Stopped)]
    assert members_seen(group, 0) == {A, B}


def test_a_forged_hello_from_the_future_does_not_make_a_member_deaf_for_ever(mesh: Build) -> None:
    """In b's name, with a number that b will never reach; b itself is heard only much later."""
    group = mesh("ab", alone=True)
    group.cut({0}, {1})
    group.pump(300)
    group.step(0, Datagrams([CODEC.encode(Hello(B, (1 << 63) - 1, boot_view([B]).id, ()))]))
    group.pump(3_000)
    group.cut()
    merges_and_delivers(group, "ab")


def test_lies_about_the_future_do_not_take_a_member_out_of_everybodys_sight(mesh: Build) -> None:
    """Two lies, each of which is just believed, and b will never believe where a has got to."""
    group = mesh("ab", alone=True)
    group.cut({0}, {1})
    group.pump(300)
    for k in (1, 2):
        ahead = group.members[0].view.id.joins + (1 << 20)
        liar = MemberId(f"liar{k}")
        lie = JoinAttempt(liar, 1, made_up([liar], joins=ahead), (A,))
        group.step(0, Datagrams([CODEC.encode(lie)]))
        group.pump(3_000)
    assert members_seen(group, 0) == {A}
    group.cut()
    merges_and_delivers(group, "ab")


def test_a_forged_future_of_a_member_does_not_keep_it_out_for_ever(mesh: Build) -> None:
    """While a collects, a frame in b's name claims to come from an epoch that b never saw."""
    group = mesh("ab", alone=True)
    group.cut({0}, {1})
    group.pump(300)
    enter_stage(group, 0, "COLLECTING")
    future = made_up([B], joins=1 << 31)
    group.step(0, Datagrams(pieces(B, 7, (future,), Propose())))
    group.cut()
    merges_and_delivers(group, "ab")


@pytest.mark.parametrize("number", [50, 1 << 40, (1 << 63) - 1])
def test_a_forged_frame_number_far_ahead_does_not_silence_a_member_for_ever(
    mesh: Build, number: int
) -> None:
    """In b's name, from a view that there is not: a leaves b out, and believes that for a while."""
    group = mesh("ab")
    group.pump(300)
    where = made_up([B], joins=3)
    group.step(0, Datagrams([CODEC.encode(JoinAttempt(B, number, where, (A,)))]))
    group.step(0, Datagrams(pieces(B, number, (where,), Propose())))
    group.pump(3_000)
    assert members_seen(group, 0) | members_seen(group, 1) == {A, B}
    merges_and_delivers(group, "ab")


def test_a_forged_frame_of_a_change_that_there_is_not_does_not_hold_messages_for_ever(
    mesh: Build,
) -> None:
    group = mesh("ab")
    group.pump(300)
    number = group.members[0].have[1] + 1
    group.step(0, Datagrams(pieces(B, number, (HOME,), issued=max(1, number - 1))))
    assert group.members[0]._protocol.phase == 1
    group.pump(3_000)
    group.submit(0, b"at last")
    group.pump(3_000)
    assert group.bodies(0) == [b"at last"]


def test_a_forged_proposal_without_strangers_makes_no_view_with_them(mesh: Build) -> None:
    """A frame in b's name proposes mallory's view, and leaves mallory out."""
    group = mesh("ab")
    group.pump(300)
    number = group.members[0].have[1] + 1
    there = made_up([MALLORY])
    packets = pieces(B, number, (HOME, there), Propose(), left_out=[(1, 0)])
    group.step(0, Datagrams(packets))
    group.pump(3_000)
    assert members_seen(group, 0) | members_seen(group, 1) == {A, B}
    merges_and_delivers(group, "ab")


def test_a_forged_proposal_that_leaves_its_receiver_out_parts_the_group_for_a_while_only(
    mesh: Build,
) -> None:
    group = mesh("ab")
    group.pump(300)
    number = group.members[0].have[1] + 1
    group.step(0, Datagrams(pieces(B, number, (HOME,), Propose(), left_out=[(0, 0)])))
    group.pump(100)
    merges_and_delivers(group, "ab")


def test_epochs_do_not_run_out() -> None:
    """Each lie about the future that is believed takes a member a million epochs further."""
    here = made_up([A], joins=EPOCH_MAX - 1)
    member = Member(A, View(here.view, here.members, here.context), "g", lan(), 1)
    member.start(0)
    now = 0
    while now < 200 * MS:
        now = member.deadline() or 0
        member.step(now, DeadlinePassed())
    future = made_up([MALLORY], joins=EPOCH_MAX)
    member.step(now, Datagrams([CODEC.encode(JoinAttempt(MALLORY, 1, future, (A,)))]))
    for _ in range(200):
        now = max(now, member.deadline() or 0)
        member.step(now, DeadlinePassed())
    assert member.view.id.joins <= EPOCH_MAX


# ---------------------------------------------------------------------------- a mad member


def steady_frame(
    member: Member, sender: int, number: int, service: Service | None = None, **acks: int
) -> bytes:
    """A frame of the view, as the member with this rank sends it; `m2=5` follows frame 5 of 2."""
    run = [] if service is None else [(MessageRun(service, number, 1, None, 0, (1,)), [b"x"])]
    kind = FrameKind.DATA if run else FrameKind.ACK
    ranks = [int(key[1:]) for key in acks]
    payload = encode_frame(
        kind, 0, member._active.state.tag, ranks, list(acks.values()), number, run
    )
    table = member._active.state.table
    return CODEC.encode_fragment(Fragment(payload, table, sender, sender, number, 0, 1, 0))


def test_a_view_can_end_whose_vectors_were_not_transitive() -> None:
    """m1 follows m3, m3 follows m2, m1 does not follow m2: nothing can leave in that order."""
    view = boot_view([MemberId(f"m{k}") for k in range(4)])
    member = Member(view.members[0], view, "g", lan(), 0)
    member.start(0)
    lies = [
        steady_frame(member, 2, 1, Service.AGREED),
        steady_frame(member, 3, 1, Service.CAUSAL, m2=1),
        steady_frame(member, 1, 1, Service.AGREED, m3=1),
    ]
    member.step(MS, Datagrams(lies))
    for other in view.members[1:]:
        member.step(2 * MS, SuspectMember(other))
    assert member.view.members == view.members[:1]


def test_a_member_that_goes_back_to_phase_0_after_its_proposal_stops_nobody() -> None:
    view = boot_view([MemberId(name) for name in "abcd"])
    a, b, c, d = view.members
    member = Member(a, view, "g", lan(), 0)
    member.start(0)
    member.step(MS, SuspectMember(c))
    here, out = component_of(view), [(0, 2)]
    assert member._protocol.current == proposal_of([here], [(c, view.id)])
    member.step(2 * MS, Datagrams(pieces(b, 1, (here,), Propose(), left_out=out)))
    member.step(3 * MS, Datagrams([steady_frame(member, 1, 2)]))
    for ms in range(4, 60):  # it acknowledges b's frame in one of its own
        member.step(ms * MS, DeadlinePassed())
    last = pieces(d, 1, (here,), Propose(), left_out=out, vector=(1, 1, 0, 1))
    member.step(60 * MS, Datagrams(last))
    assert member.view.members == (a, b, d)


# ---------------------------------------------------------------------------- packets out


def test_strangers_with_long_names_do_not_make_packets_that_no_datagram_holds(mesh: Build) -> None:
    group = mesh("a", alone=True)
    group.pump(200)
    for k in range(64):
        far = MemberId(f"{k:03}" + "é" * 125)
        group.step(0, Datagrams([CODEC.encode(Hello(far, 1, made_up([far]).view, ()))]))
    group.pump(500)
    sent = [p for e in group.seen[0] if isinstance(e, Transmit) for p in e.packets]
    assert max(map(len, sent)) <= lan().datagram_bytes_max


def test_a_large_group_attempts_to_join_in_packets_that_fit_a_datagram(mesh: Build) -> None:
    """Rule F-15."""
    group = mesh([f"member-{k:03}" for k in range(120)])
    group.step(0, Datagrams([CODEC.encode(Hello(C, 1, boot_view([C]).id, (group.members[0].me,)))]))
    sent = [p for e in group.seen[0] if isinstance(e, Transmit) for p in e.packets]
    assert sent
    assert max(map(len, sent)) <= lan().datagram_bytes_max


# ---------------------------------------------------------------------------- frames of one's own


def test_a_forged_farewell_of_phase_0_raises_nothing(mesh: Build) -> None:
    group = mesh("ab")
    group.pump(300)
    member = group.members[0]
    following = member.have[1] + 1
    lie = forged(CODEC, B, following, component_of(member.view), b"junk", LeaveAnnounced(), phase=0)
    group.step(0, Datagrams(lie))
    assert refusals(group, 0)["impossible"] == 1
    merges_and_delivers(group, "ab")


def test_acknowledgements_beyond_the_table_of_a_foreign_view_are_refused(mesh: Build) -> None:
    group = mesh("ab")
    group.pump(300)
    there = made_up([B, C])
    announce = Announce(body([there]), (9, 0), 0, 0)
    payload = encode_frame(FrameKind.ACK, 0, encode_tag(there.view), [900], [1], 1, [], announce)
    lie = CODEC.encode_fragment(Fragment(payload, there.view.digest, 0, 0, 9, 0, 1, 0))
    group.step(0, Datagrams([lie]))
    assert refusals(group, 0)["impossible"] == 1
    assert group.members[0]._resources.foreign.kept() == {}
