"""Notices of members: numbered, kept until acknowledged, the same after a restart."""

from __future__ import annotations

import random

from phalanx.mserver.notice_outbox import KEY, NOTICE, NOTICES_MAX, NoticeOutbox
from phalanx.service.effects import Notify
from phalanx.service.values import GroupView, Vid


def vid(number: int) -> Vid:
    return Vid(number, number.to_bytes(8, "big"))


def view(number: int, *members: str, member: str = "h/1") -> Notify:
    previous = vid(number - 1) if number > 1 else None
    content = GroupView(vid(number), (), members or (member,), {}, "join")
    return Notify(member, "u", content, previous)


def excluded(member: str = "h/1") -> Notify:
    return Notify(member, "u", None, vid(9))


def numbers(outbox: NoticeOutbox, member: str = "h/1", after: int = 0) -> list[int]:
    return [notice.number for notice in outbox.waiting(member, after)]


def test_a_view_that_comes_before_the_answer_to_the_join_is_kept() -> None:
    outbox = NoticeOutbox()
    outbox.add(view(1, "h/1", "x/2"))
    assert outbox.members == {"h/1": ""}
    outbox.open("h/1", "client-a", "u")
    assert outbox.members_of("client-a") == ("h/1",)
    [notice] = outbox.waiting("h/1")
    assert (notice.number, notice.kind, notice.members) == (1, "view", ("h/1", "x/2"))
    assert notice.vid == str(vid(1))
    assert notice.previous == ""


def test_notices_wait_until_they_are_acknowledged() -> None:
    outbox = NoticeOutbox()
    outbox.open("h/1", "client-a", "u")
    for number in (1, 2, 3):
        outbox.add(view(number))
    assert numbers(outbox, after=1) == [2, 3]
    assert outbox.acknowledge("client-b", "h/1", 3) == {}
    outbox.acknowledge("client-a", "h/1", 2)
    assert numbers(outbox) == [3]
    assert outbox.acknowledge("client-a", "h/1", 1) == {}


def test_nothing_follows_the_end_of_a_membership_and_its_queue_goes() -> None:
    outbox = NoticeOutbox()
    outbox.open("h/1", "client-a", "u")
    outbox.add(excluded())
    assert outbox.add(view(2)) == {}
    assert [notice.kind for notice in outbox.waiting("h/1")] == ["excluded"]
    assert outbox.is_over("h/1")
    gone = outbox.acknowledge("client-a", "h/1", 1)
    assert gone == {KEY + "h/1": None, f"{NOTICE}h/1/{1:012d}": None}
    assert outbox.members == {}


def test_a_member_whose_client_reads_nothing_is_found() -> None:
    outbox = NoticeOutbox()
    outbox.open("h/1", "client-a", "u")
    for number in range(1, NOTICES_MAX + 1):
        outbox.add(view(number))
    assert not outbox.is_overfull("h/1")
    outbox.add(view(NOTICES_MAX + 1))
    assert outbox.is_overfull("h/1")


def test_the_queues_of_a_client_that_is_gone_end_with_its_memberships() -> None:
    outbox = NoticeOutbox()
    for member in ("h/1", "h/2"):
        outbox.open(member, "client-a", "u")
        outbox.add(view(1, member=member))
    outbox.add(excluded("h/2"))
    rows = outbox.depart("client-a")
    assert rows[KEY + "h/2"] is None
    assert outbox.waiting("h/1") == []
    assert outbox.uid_of("h/1") == "u"
    outbox.add(view(2))
    assert outbox.waiting("h/1") == []
    assert outbox.add(excluded()) == {KEY + "h/1": None}


def one_step(
    outbox: NoticeOutbox, draw: random.Random, step: int, member: str, last: int
) -> dict[str, bytes | None]:
    match draw.randrange(16):
        case 0:
            return outbox.add(excluded(member))
        case 1 | 2 | 3:
            return outbox.open(member, "client-a", "u")
        case 4 | 5 | 6 | 7:
            return outbox.acknowledge("client-a", member, last)
        case _:
            return outbox.add(view(step + 1, member=member))


def test_rows_give_the_same_outbox_after_any_sequence_of_steps() -> None:
    """After each step the rows that were written are enough to go on: same notices, same
    numbers."""
    for seed in range(30):
        draw = random.Random(seed)
        outbox, rows = NoticeOutbox(), dict[str, bytes]()
        for step in range(40):
            member = draw.choice(["h/1", "h/2"])
            last = max((n.number for n in outbox.waiting(member)), default=0)
            changes = one_step(outbox, draw, step, member, last)
            for key, body in changes.items():
                if body is None:
                    del rows[key]
                else:
                    rows[key] = body
            again = NoticeOutbox(rows)
            assert again.members == outbox.members
            for each in outbox.members:
                assert again.waiting(each) == outbox.waiting(each)
                assert again.is_over(each) == outbox.is_over(each)
            outbox = again if draw.random() < 0.3 else outbox
