"""Rows of the records of sets: a start finds the record that was written last."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from msgspec.structs import fields, replace

from phalanx.core.ids import MemberId, digest_of
from phalanx.mserver import set_rows
from phalanx.mserver.durable_rows import DurableRows
from phalanx.mserver.record_store import MemoryRecords
from phalanx.mserver.set_rows import SetHead, SetRows
from phalanx.service.commit_chain import CommitChain
from phalanx.service.effects import (
    DurableRecord,
    HeldHistory,
    RecordRemoved,
    SetForgotten,
    SetRecord,
)
from phalanx.service.entries import (
    AddSeen,
    ChangeId,
    Entry,
    FreeName,
    PutGroup,
    RegisterName,
    SetChange,
)
from phalanx.service.group_views import created, next_view
from phalanx.service.messages import Commit
from phalanx.service.promises import AckedChange, Promises
from phalanx.service.set_state import founded, vid_after
from phalanx.service.state_draft import shortened
from phalanx.service.values import NO_RECORD, GroupRecord, SetState
from phalanx.sim.service.service_run import ServicePlan, run_service
from phalanx.sim.service.simulated_hosts import SimServer

A, B = MemberId("a", 1), MemberId("b", 1)


def next_commit(state: SetState, number: int, draw: random.Random) -> Commit:
    """A commit with a few entries about groups."""
    entries: list[Entry] = [AddSeen(f"h{number}"), RegisterName(f"n{number}", f"u{number}")]
    for _ in range(draw.randrange(1, 4)):
        uid = f"u/{draw.randrange(6)}"
        before = state.groups.get(uid, NO_RECORD)
        own = before.own or created(uid, uid, "s", b"")
        members = [f"h/{draw.randrange(1, 20)}" for _ in range(3)]
        after = GroupRecord(next_view(own, sorted(set(members)), "join", b"x"))
        entries.append(shortened(uid, before, after, "join"))
    if draw.random() < 0.2:
        entries.append(PutGroup(f"u/{draw.randrange(6)}", NO_RECORD, "forget"))
    if draw.random() < 0.2:
        entries.append(FreeName(f"n{number - 1}"))
    id_, view = ChangeId(A, number), (A, B)
    vid = vid_after((state.vid,), id_, entries, view)
    return Commit("s", (state.vid,), id_, tuple(entries), view, vid)


def histories(draw: random.Random, length: int) -> Iterator[SetRecord]:
    """The records of one member, one after the other."""
    state = founded("s", (A, B), A)
    chain = CommitChain(state, state)
    yield SetRecord(chain.state, chain.stable, chain.commits)
    for number in range(1, length):
        change = SetChange(ChangeId(B, number), 5, ())
        acked = AckedChange(change, B) if draw.random() < 0.5 else None
        promises = Promises(acked, number, (B,) if draw.random() < 0.2 else None)
        yield SetRecord(chain.state, chain.stable, chain.commits, promises)
        for _ in range(draw.choice((1, 1, 1, 2, 20))):
            after = chain.followed_by(next_commit(chain.state, number, draw))
            assert after is not None
            chain = after
        yield SetRecord(chain.state, chain.stable, chain.commits)
        if draw.random() < 0.8:
            chain = CommitChain(chain.state, chain.state, chain.commits)
            yield SetRecord(chain.state, chain.stable, chain.commits)


@pytest.mark.parametrize("room", [0, 3_000, 1 << 30])
@pytest.mark.parametrize("seed", range(4))
def test_a_start_finds_the_record_that_was_written_last(
    seed: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_rows, "LOG_BYTES_MIN", room)
    draw = random.Random(seed)
    store, rows = MemoryRecords(), DurableRows({})
    for record in histories(draw, 40):
        store.write(rows.rows(record))
        found = DurableRows(store.load())
        assert found.records == [record]
        if draw.random() < 0.2:
            rows = found  # a restart
    store.write(rows.rows(SetForgotten("s")))
    assert store.load() == {}


def test_a_change_writes_what_has_changed_whatever_else_the_set_holds() -> None:
    """The bytes of one change in a set with 10 groups and in one with 2,000 are the same."""
    sizes = []
    for count in (10, 2_000):
        state = founded("s", (A,), A)
        groups = {f"u{n:06}": GroupRecord(created(f"u{n:06}", "g", "s", b"")) for n in range(count)}
        state = replace(state, groups=groups)
        chain = CommitChain(state, state)
        rows = SetRows("s")
        rows.rows(SetRecord(chain.state, chain.stable, ()))
        group = chain.state.groups["u000003"]
        assert group.own is not None
        after = GroupRecord(next_view(group.own, ("h/1",), "join", b""))
        entries = (shortened("u000003", group, after, "join"),)
        id_ = ChangeId(A, 1)
        vid = vid_after((state.vid,), id_, entries, (A,))
        grown = chain.followed_by(Commit("s", (state.vid,), id_, entries, (A,), vid))
        assert grown is not None
        out = rows.rows(SetRecord(grown.state, grown.stable, grown.commits))
        sizes.append(sum(len(body) for body in out.values() if body is not None))
    assert sizes[0] == sizes[1] < 1_000


def test_every_field_of_a_record_is_in_its_rows() -> None:
    """A field that is new in `SetRecord` has to be new in `SetHead` too."""
    in_head = {field.name for field in fields(SetHead)}
    assert {field.name for field in fields(SetRecord)} == in_head | {"state", "commits"}


@pytest.mark.parametrize("seed", [3])
def test_records_of_servers_in_storms_come_back_from_their_rows(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forks, unions, joins of servers and lost disks, as the simulator has them."""
    monkeypatch.setattr(set_rows, "LOG_BYTES_MIN", 2_000)
    stored: dict[tuple[int, int], tuple[MemoryRecords, DurableRows]] = {}
    plain, checked = SimServer.write, 0

    def write(server: SimServer, record: DurableRecord) -> None:
        nonlocal checked
        plain(server, record)
        disk = (id(server), server.incarnation)
        if disk not in stored:
            stored[disk] = (MemoryRecords(), DurableRows({}))
            for known in list(server.disk.values()):
                stored[disk][0].write(stored[disk][1].rows(known))
        store, rows = stored[disk]
        store.write(rows.rows(record))
        checked += 1
        if checked % 7 == 0:
            found = DurableRows(store.load())
            assert {r.state.set: r for r in found.records if isinstance(r, SetRecord)} == (
                server.disk
            )
            stored[disk] = (store, found)

    monkeypatch.setattr(SimServer, "write", write)
    run_service(seed, ServicePlan(faults=16, seconds=24))
    assert checked > 300


def test_the_history_of_a_group_comes_back_view_by_view() -> None:
    store, rows = MemoryRecords(), DurableRows({})
    group = created("h/1/9", "g", "s", b"")
    for number in range(1, 20):
        group = next_view(group, (f"h/{number}",), "join", digest_of(b"x"))
        kept = group.history[-5:]
        group = replace(group, history=kept)
        changes = rows.rows(HeldHistory(group))
        store.write(changes)
        assert len(changes) <= 3
        found = DurableRows(store.load())
        assert found.records == [HeldHistory(group)]
    store.write(found.rows(RecordRemoved("history", group.uid)))
    assert store.load() == {}
