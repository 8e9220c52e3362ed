"""The recorder: literal effects in, literal rows out."""

from __future__ import annotations

import zlib

from phalanx.core import effects as fx
from phalanx.core.ids import MemberId, ViewId, boot_view
from phalanx.journal import schema as ev
from phalanx.journal.recorder import Recorder

A, B, C = MemberId("a", 1), MemberId("b", 4), MemberId("c", 1)
VIEW = boot_view([A, B, C])
VID = str(VIEW.id)


def recorder(digests: bool = False) -> Recorder:
    return Recorder("run", "group", A, digests=digests)


def sent(first: int, last: int, to: tuple[MemberId, ...] | None = None) -> fx.Sent:
    return fx.Sent(first, last, first, fx.Service.AGREED, to, VIEW.id, 0)


def delivered(
    sender: MemberId,
    first: int,
    last: int,
    service: fx.Service = fx.Service.AGREED,
    to: tuple[MemberId, ...] | None = None,
    origin: ViewId = VIEW.id,
) -> fx.Deliver:
    return fx.Deliver(
        sender=sender,
        first=first,
        last=last,
        service=service,
        to=to,
        view=VIEW.id,
        origin=origin,
        phase=0,
        region=fx.Region.REGULAR,
        pos=7,
        batch=3,
        frame=5,
        payload=b"..onetwo.",
        offset=2,
        lengths=(3, 3),
    )


def deps(rows: list[ev.Event]) -> list[tuple[str, int, int]]:
    (row,) = [r for r in rows if isinstance(r, ev.Sent)]
    return list(zip(row.dep_senders, row.dep_incarnations, row.dep_numbers, strict=True))


def test_every_effect_gives_its_row_and_transmit_and_stopped_give_none() -> None:
    common = {"run": "run", "profile": "T", "group": "group", "member": "a", "incarnation": 1}
    step = {**common, "step": 1, "t_ns": 50, "sim_ns": 9}
    rows = recorder().record(
        50,
        [
            fx.ViewInstalled(VIEW, None, (), "boot"),
            fx.Accepted(1, 2, fx.Service.SAFE, (A, B), 6),
            fx.Transmit([b"x"]),
            fx.Sent(1, 2, 4, fx.Service.SAFE, (A, B), VIEW.id, 0),
            fx.Stable(2, VIEW.id),
            fx.WindowClosed(10, 1),
            fx.WindowOpened(0, 0),
            fx.Refused("magic", 3),
            fx.NotSent(3, 4, (C,), 1),
            fx.Transitional(VIEW.id, 6, (A, B)),
            fx.PeerSuspicion(B, "SEMI", "SUSPECTED", "RELAY", C),
            fx.PeerSuspicion(C, "FAULTY", "SUSPECTED", "SILENCE"),
            fx.ViewChangeStep(b"\x0a\x0b", "COMMIT", "COMMIT", (VIEW.id,), (C,), (B,)),
            fx.LinkStats(B, VIEW.id, frames=9, upto=12, missed=3, asked=2, repeated=1),
            fx.Stopped("left"),
        ],
        9,
    )
    assert rows == [
        ev.ViewInstalled(
            view=VID,
            joins=0,
            removals=0,
            members=["a", "b", "c"],
            member_incarnations=[1, 4, 1],
            context=VIEW.context.hex(),
            cause="boot",
            joined=[],
            joined_incarnations=[],
            left=[],
            left_incarnations=[],
            lseq=1,
            **step,  # type: ignore[arg-type]
        ),
        ev.Accepted(
            first=1,
            last=2,
            service="SAFE",
            size=6,
            to=["a", "b"],
            to_incarnations=[1, 4],
            lseq=2,
            **step,  # type: ignore[arg-type]
        ),
        ev.Sent(
            first=1,
            last=2,
            service="SAFE",
            view=VID,
            phase=0,
            frame=4,
            to=["a", "b"],
            to_incarnations=[1, 4],
            lseq=3,
            **step,  # type: ignore[arg-type]
        ),
        ev.Stable(sender="a", sender_incarnation=1, upto=2, view=VID, lseq=4, **step),  # type: ignore[arg-type]
        ev.Window(op="CLOSED", bytes=10, frames=1, lseq=5, **step),  # type: ignore[arg-type]
        ev.Window(op="OPENED", bytes=0, frames=0, lseq=6, **step),  # type: ignore[arg-type]
        ev.Refused(reason="magic", count=3, lseq=7, **step),  # type: ignore[arg-type]
        ev.NotSent(first=3, last=4, members=["c"], member_incarnations=[1], rest=1, lseq=8, **step),  # type: ignore[arg-type]
        ev.Transitional(
            view=VID,
            pos=6,
            members=["a", "b"],
            member_incarnations=[1, 4],
            lseq=9,
            **step,  # type: ignore[arg-type]
        ),
        ev.PeerSuspicion(
            target="b",
            target_incarnation=4,
            state="SEMI",
            previous="SUSPECTED",
            evidence="RELAY",
            relay="c",
            lseq=10,
            **step,  # type: ignore[arg-type]
        ),
        ev.PeerSuspicion(
            target="c",
            target_incarnation=1,
            state="FAULTY",
            previous="SUSPECTED",
            evidence="SILENCE",
            lseq=11,
            **step,  # type: ignore[arg-type]
        ),
        ev.ViewChangeStep(
            context="0a0b",
            stage="COMMIT",
            action="COMMIT",
            components=[VID],
            failed_before=["c.1"],
            failed_after=["b.4"],
            lseq=12,
            **step,  # type: ignore[arg-type]
        ),
        ev.LinkStats(
            peer="b",
            peer_incarnation=4,
            view=VID,
            frames=9,
            missed=3,
            asked=2,
            repeated=1,
            lseq=13,
            **step,  # type: ignore[arg-type]
        ),
    ]


def test_a_delivery_keeps_every_column() -> None:
    (row,) = recorder().record(50, [delivered(B, 2, 3)])
    assert row == ev.Deliver(
        run="run",
        profile="T",
        group="group",
        member="a",
        incarnation=1,
        lseq=1,
        step=1,
        t_ns=50,
        sim_ns=None,
        sender="b",
        sender_incarnation=4,
        first=2,
        last=3,
        service="AGREED",
        view=VID,
        phase=0,
        region="REGULAR",
        frame=5,
        origin=VID,
        pos=7,
        batch=3,
        to=None,
        digest=None,
    )


BEFORE = ViewId(0, 0, b"12345678")


def test_a_later_view_names_its_predecessor_and_its_transitional_set() -> None:
    (row,) = recorder().record(1, [fx.ViewInstalled(VIEW, BEFORE, (A, B), "removal")])
    assert isinstance(row, ev.ViewInstalled)
    assert (row.previous, row.transitional, row.transitional_incarnations) == (
        str(BEFORE),
        ["a", "b"],
        [1, 4],
    )
    assert (row.cause, row.components) == ("removal", [])


def test_a_merged_view_names_its_components() -> None:
    alone = (fx.MessageRange(A, 2, 3),)
    merged = (
        fx.MergedComponent(BEFORE, (A,), ((A, 3),), alone),
        fx.MergedComponent(VIEW.id, (B, C), ((A, 1),), ()),
    )
    r = recorder()
    row, one, two = r.record(1, [fx.ViewInstalled(VIEW, BEFORE, (A,), "join", (B, C), (), merged)])
    assert isinstance(row, ev.ViewInstalled)
    assert (row.cause, row.components) == ("join", [str(BEFORE), VID])
    assert (row.joined, row.joined_incarnations, row.left, row.left_incarnations) == (
        ["b", "c"],
        [4, 1],
        [],
        [],
    )
    assert isinstance(one, ev.MergedComponent)
    assert isinstance(two, ev.MergedComponent)
    assert (one.view, one.component, one.members, one.member_incarnations) == (
        VID,
        str(BEFORE),
        ["a"],
        [1],
    )
    assert (one.delivered, one.delivered_incarnations, one.delivered_upto) == (["a"], [1], [3])
    assert (one.alone, one.alone_incarnations, one.alone_first, one.alone_last) == (
        ["a"],
        [1],
        [2],
        [3],
    )
    assert (two.component, two.members, two.delivered_upto, two.alone) == (VID, ["b", "c"], [1], [])
    assert [row.lseq, one.lseq, two.lseq, r.stop(2).lseq] == [1, 2, 3, 4]


def test_a_message_for_some_names_each_life_and_a_carried_one_the_view_it_was_sent_in() -> None:
    (row,) = recorder().record(1, [delivered(B, 1, 2, to=(A, B), origin=BEFORE)])
    assert isinstance(row, ev.Deliver)
    assert (row.to, row.to_incarnations) == (["a", "b"], [1, 4])
    assert (row.view, row.origin) == (VID, str(BEFORE))


def test_a_receipt_of_stability_names_the_view_that_it_is_about() -> None:
    stable = fx.Stable(2, BEFORE)
    (_, row) = recorder().record(1, [fx.ViewInstalled(VIEW, BEFORE, (A,), "removal"), stable])
    assert isinstance(row, ev.Stable)
    assert row.view == str(BEFORE)


def test_a_receipt_at_the_end_of_a_view_names_the_members_that_move_on() -> None:
    (_, row) = recorder().record(1, [fx.Ordered(2, BEFORE), fx.Stable(2, BEFORE, (A, B))])
    assert isinstance(row, ev.Stable)
    assert (row.members, row.member_incarnations) == (["a", "b"], [1, 4])


def test_rows_are_numbered_without_gaps_and_each_call_with_rows_is_a_step() -> None:
    r = recorder()
    rows: list[ev.Event] = [r.start(0, 0)]
    rows += r.record(1, [sent(1, 1), fx.Transmit([b"x"]), delivered(B, 1, 1)])
    assert r.record(2, [fx.Transmit([b"x"])]) == []
    rows += r.record(3, [delivered(B, 2, 2)])
    rows.append(r.topology(4, {"b", "a"}))
    rows.append(r.stop(5))
    assert [row.lseq for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row.step for row in rows] == [1, 2, 2, 3, 4, 5]
    assert [row.t_ns for row in rows] == [0, 1, 1, 3, 4, 5]
    assert rows[-2:] == [
        ev.Topology(
            **_common(rows[-2]),  # type: ignore[arg-type]
            component=["a", "b"],
        ),
        ev.Life(**_common(rows[-1]), op="STOP", reason="ended"),  # type: ignore[arg-type]
    ]


def _common(row: ev.Event) -> dict[str, object]:
    return {f: getattr(row, f) for f in ev.Row.__struct_fields__}


def test_life_rows_say_how_a_life_began_and_ended() -> None:
    r = recorder()
    assert [r.start(0).op, r.crash(1).op, r.stop(2).op] == ["START", "CRASH", "STOP"]


def test_a_send_depends_on_the_last_message_of_each_other_sender_since_the_send_before() -> None:
    r = recorder()
    assert deps(r.record(1, [sent(1, 1)])) == []
    r.record(2, [delivered(B, 1, 2), delivered(C, 1, 2), delivered(B, 3, 4)])
    assert deps(r.record(3, [sent(2, 3)])) == [("b", 4, 4), ("c", 1, 2)]
    assert deps(r.record(4, [sent(4, 4)])) == []
    assert deps(r.record(5, [delivered(C, 3, 4), sent(5, 5), delivered(B, 5, 6)])) == [("c", 1, 4)]


def test_basic_and_own_messages_are_no_dependencies() -> None:
    r = recorder()
    r.record(1, [delivered(B, 1, 2, fx.Service.BASIC), delivered(A, 1, 2)])
    assert deps(r.record(2, [sent(3, 3)])) == []


def test_an_earlier_life_of_my_name_is_another_sender() -> None:
    r = recorder()
    r.record(1, [delivered(MemberId("a", 0), 8, 9)])
    assert deps(r.record(2, [sent(1, 1)])) == [("a", 0, 9)]


def test_the_digest_is_of_the_bodies_alone_and_only_on_demand() -> None:
    effect = delivered(B, 1, 2)
    (row,) = recorder(digests=True).record(1, [effect])
    assert isinstance(row, ev.Deliver)
    assert row.digest == zlib.crc32(b"onetwo") == zlib.crc32(b"".join(effect.bodies()))
    (plain,) = recorder().record(1, [effect])
    assert isinstance(plain, ev.Deliver)
    assert plain.digest is None
    taken = fx.Accepted(1, 2, fx.Service.SAFE, None, 6, [b"one", b"two"])
    (submit,) = recorder(digests=True).record(1, [taken])
    assert isinstance(submit, ev.Accepted)
    assert submit.digest == row.digest
    (plain_submit,) = recorder().record(1, [taken])
    assert isinstance(plain_submit, ev.Accepted)
    assert plain_submit.digest is None
