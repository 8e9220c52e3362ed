"""The blocking face, on real sockets and from several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import phalanx
from phalanx import blocking
from phalanx.api import blocking_group
from phalanx.errors import ConfigurationError, MemberClosed, NameInUse, TimedOut
from phalanx.runtime.receipt_tracker import State

LOCAL = phalanx.local()
SECONDS = 20.0


def bodies(group: blocking.Group, count: int) -> list[bytes]:
    out: list[bytes] = []
    for batch in group.batches(timeout=SECONDS):
        out += batch.bodies()
        if len(out) >= count:
            break
    return out


def test_members_in_one_process_deliver_in_one_order(group_name: str) -> None:
    with (
        blocking.join(group_name, name="ada", config=LOCAL) as ada,
        blocking.join(group_name, name="bob", config=LOCAL) as bob,
    ):
        ada.wait_for(2, SECONDS)
        bob.wait_for(2, SECONDS)

        def speak(group: blocking.Group, word: bytes) -> None:
            for i in range(200):
                group.send(word + b"%d" % i)

        speakers = [
            threading.Thread(target=speak, args=args)
            for args in ((ada, b"a"), (bob, b"b"), (ada, b"c"))
        ]
        for speaker in speakers:
            speaker.start()
        seen = bodies(ada, 600)
        assert seen == bodies(bob, 600)
        for word in (b"a", b"b", b"c"):
            said = [body for body in seen if body.startswith(word)]
            assert said == [word + b"%d" % i for i in range(200)]
        for speaker in speakers:
            speaker.join()


def test_receipts_can_be_waited_for(group_name: str) -> None:
    with blocking.join(group_name, name="ada", config=LOCAL) as ada:
        receipt = ada.send_many([b"1", b"2", b"3"], phalanx.SAFE)
        receipt.ordered(SECONDS)
        receipt.stable(SECONDS)
        assert receipt.numbers == (1, 3)


def test_a_receipt_of_a_message_that_waits_times_out(group_name: str) -> None:
    with (
        blocking.join(group_name, name="ada", config=LOCAL) as ada,
        blocking.join(group_name, name="bob", config=LOCAL) as bob,
    ):
        ada.wait_for(2, SECONDS)
        bob.wait_for(2, SECONDS)
        ada.faults.cut(bob.address)
        bob.faults.cut(ada.address)
        receipt = ada.send(b"to somebody who hears nothing", phalanx.SAFE)
        with pytest.raises(TimedOut, match="stable"):
            receipt.stable(0.05)
        with pytest.raises(phalanx.NotEverywhere, match="bob"):
            receipt.stable(SECONDS)  # in the next view, alone


def test_an_event_that_does_not_come_times_out(group_name: str) -> None:
    with blocking.join(group_name, name="ada", config=LOCAL) as ada:
        assert isinstance(ada.receive(SECONDS), phalanx.View)
        with pytest.raises(TimedOut, match="an event"):
            ada.receive(0.02)


def test_after_leaving_the_rest_is_read_and_then_the_end_comes(group_name: str) -> None:
    ada = blocking.join(group_name, name="ada", config=LOCAL)
    ada.send(b"last words")
    ada.leave()
    ada.leave()
    events = list(ada)
    assert [e.body for e in events if isinstance(e, phalanx.Message)] == [b"last words"]
    assert ada.receive() is None
    with pytest.raises(MemberClosed):
        ada.send(b"too late")


def test_a_name_that_lives_is_refused_by_the_network_and_by_the_state_directory(
    group_name: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    with blocking.join(group_name, name="ada", config=LOCAL, state=state):
        with pytest.raises(NameInUse, match="on this machine"):
            blocking.join(group_name, name="ada", config=LOCAL, state=state)
        with pytest.raises(NameInUse, match="on the network"):
            blocking.join(group_name, name="ada", config=LOCAL)


def test_what_was_seen_is_in_the_journal(group_name: str, tmp_path: Path) -> None:
    from phalanx.journal import reader
    from phalanx.journal.schema import Accepted, Clock, Deliver, Life, ViewInstalled

    with blocking.join(group_name, name="ada", config=LOCAL, journal=tmp_path) as ada:
        ada.send_many([b"x"] * 10).stable(SECONDS)
    rows = reader.read_all([tmp_path]).rows
    assert [row.op for row in rows if isinstance(row, Life)] == ["START", "STOP"]
    assert {Clock, Accepted, ViewInstalled} <= {type(row) for row in rows}
    assert sum(row.last - row.first + 1 for row in rows if isinstance(row, Deliver)) == 10
    assert [row.lseq for row in rows] == list(range(1, len(rows) + 1))


def test_bodies_are_kept_if_that_is_asked_for(group_name: str, tmp_path: Path) -> None:
    from phalanx.journal import reader

    keep = phalanx.JournalSettings(bodies=True, digests=True)
    with blocking.join(
        group_name, name="ada", config=LOCAL, journal=tmp_path, journal_settings=keep
    ) as ada:
        ada.send_many([b"one", b"two"]).stable(SECONDS)
    (segment,) = tmp_path.glob("*.phj")
    kept = [body for run in reader.read(segment, bodies=True).bodies for body in run]
    assert kept == [b"one", b"two"]


def test_a_state_directory_that_was_lost_and_a_clock_that_was_set_back_do_no_harm(
    group_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others tell the member that its incarnation was used; the next one is remembered."""
    boot_ms = 1_800_000_000_000
    monkeypatch.setattr("phalanx.runtime.identity.time.time_ns", lambda: boot_ms * 1_000_000)
    lives: list[int] = []
    with blocking.join(group_name, name="bob", config=LOCAL) as bob:
        for state in ("one", "two", "two"):
            with blocking.join(
                group_name,
                name="ada",
                config=LOCAL,
                state=tmp_path / state,
                journal=tmp_path / f"journal-{len(lives)}",
            ) as ada:
                lives.append(ada.me.incarnation)
                bob.wait_for(["ada", "bob"], SECONDS)
            bob.send(b"x").stable(SECONDS, allow_missing=True)
    assert lives == [boot_ms, boot_ms + 1, boot_ms + 2]


class Clock:
    """Time that passes only while somebody waits: three seconds until the first event."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waited: list[float | None] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float | None) -> bool:
        self.waited.append(seconds)
        self.now += 3.0
        return len(self.waited) == 1


class Slow:
    """A receipt whose messages are stable after the first wait, and delivered never."""

    error = None
    state = State.ACCEPTED

    def when(self, state: State, call: Callable[[], None]) -> None:
        self.state = state


def test_a_timeout_limits_a_call_that_waits_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(blocking_group, "time", clock)
    monkeypatch.setattr(threading, "Event", lambda: _Event(clock))
    receipt = blocking_group.Receipt(cast(Any, Slow()), cast(Any, None), cast(Any, None))
    monkeypatch.setattr(receipt, "_ask_for_delivery", lambda: None)
    monkeypatch.setattr(Slow, "checked", lambda *_: None, raising=False)
    with pytest.raises(TimedOut) as raised:
        receipt.delivered(timeout=10.0)
    assert clock.waited == [10.0, 7.0]
    assert raised.value.seconds == 10.0


class _Event:
    def __init__(self, clock: Clock) -> None:
        self.wait = clock.wait

    def set(self) -> None:
        pass


@pytest.mark.parametrize("timeout", ["5", -1])
def test_a_wrong_timeout_is_refused_though_nothing_is_waited_for(
    group_name: str, timeout: Any
) -> None:
    with blocking.join(group_name, name="ada", config=LOCAL) as ada:
        receipt = ada.send(b"x")
        receipt.stable(SECONDS)
        for call in (receipt.ordered, receipt.stable, receipt.delivered):
            with pytest.raises(ConfigurationError, match="timeout = "):
                call(timeout)
