"""Lines of the log: units with made-up time, and one real run that must read like a story."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live_groups import until

import phalanx
from phalanx.core import effects as fx
from phalanx.core.ids import MemberId, boot_view
from phalanx.harness.controller import MemberProcess
from phalanx.runtime.event_log import BLOCKED_NS, REPEAT_NS, VIEWS_MAX, EventLog

MS = 1_000_000
ADA, BEA, CYD = MemberId("ada", 1763355123456), MemberId("bea", 1), MemberId("cyd", 7)
LOCAL = {"interface": "127.0.0.1", "hops": 0}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What is logged, as `LEVEL text`; grows as the test goes."""
    found: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(f"{record.levelname} {record.getMessage()}")

    keeper = Keeper()
    log = logging.getLogger("phalanx")
    before = log.level
    log.addHandler(keeper)
    log.setLevel(logging.INFO)
    yield found
    log.removeHandler(keeper)
    log.setLevel(before)


def installed(
    members: list[MemberId], joined: tuple[MemberId, ...] = (), left: tuple[MemberId, ...] = ()
) -> fx.ViewInstalled:
    view = boot_view(members)
    return fx.ViewInstalled(view, None, (), "removal" if left else "join", joined, left)


def test_a_view_tells_who_joined_who_left_and_why_and_how_long_it_took(lines: list[str]) -> None:
    log = EventLog("orders", ADA, phalanx.lan())
    log.effect(0, fx.PeerSuspicion(BEA, "FAULTY", "SUSPECTED", "SILENCE"))
    log.effect(5 * MS, fx.ViewChangeStep(b"", "IDLE", "FA", (), (), (BEA,)))
    view = installed([ADA], left=(BEA, CYD))
    log.effect(17 * MS, view)
    (line,) = lines
    assert line.startswith(f"INFO orders/ada: view {view.view.id} of ada; left: bea (silent, and ")
    assert line.endswith("no answer to probes), cyd (it left); removal, took 12 ms")


def test_two_lives_of_a_name_are_told_apart(lines: list[str]) -> None:
    log = EventLog("orders", BEA, phalanx.lan())
    log.effect(0, installed([ADA, BEA], joined=(ADA,)))
    log.effect(0, installed([MemberId("ada", 1763355199999), BEA], left=(ADA,)))
    assert "of ada, bea; joined: ada; join" in lines[0]
    assert "of ada.9999, bea; left: ada.3456 (it left)" in lines[1]


def test_refused_packets_are_counted_and_not_logged_one_by_one(lines: list[str]) -> None:
    log = EventLog("orders", ADA, phalanx.lan())
    for ms in range(0, 9_000, 10):
        log.effect(ms * MS, fx.Refused("checksum", 2))
    log.effect(REPEAT_NS, fx.Refused("checksum", 2))
    assert lines == [
        "WARNING orders/ada: 2 packets refused as 'checksum'",
        "WARNING orders/ada: 1800 packets refused as 'checksum'",
    ]


def test_a_storm_of_views_does_not_flood_the_log(lines: list[str]) -> None:
    log = EventLog("orders", ADA, phalanx.lan())
    for ms in range(VIEWS_MAX + 100):
        log.effect(ms * MS, installed([ADA, BEA], joined=(BEA,)))
    assert len(lines) == VIEWS_MAX
    log.effect(REPEAT_NS, installed([ADA, BEA], joined=(BEA,)))
    assert "100 views not shown; view" in lines[-1]


def test_a_member_that_cannot_send_names_the_members_that_it_waits_for(lines: list[str]) -> None:
    log = EventLog("orders", ADA, phalanx.lan())
    log.sending(0, 5, 900, {CYD: "unacknowledged"})
    log.sending(BLOCKED_NS // 2, 6, 900, {CYD: "unacknowledged"})  # one has left: not stuck
    log.sending(BLOCKED_NS, 6, 900, {CYD: "unacknowledged"})
    assert lines == []
    for ns in range(2 * BLOCKED_NS, 3 * BLOCKED_NS, 250 * MS):
        log.sending(ns, 6, 900, {CYD: "unacknowledged", BEA: "unread"})
    (line,) = lines
    assert line.startswith("WARNING orders/ada: nothing sent for 1.5 s, 900 bytes wait for cyd (it")
    assert line.endswith("has not acknowledged), bea (its application reads events too slowly)")
    log.sending(3 * BLOCKED_NS, 7, 0, {})
    assert lines[1:] == ["INFO orders/ada: sends again after 2.5 s"]


def test_the_first_message_that_waits_counts_although_none_was_sent_since(
    lines: list[str],
) -> None:
    log = EventLog("orders", ADA, phalanx.lan())
    log.sending(0, 16, 0, {})
    log.sending(250 * MS, 16, 5, {BEA: "unread"})  # accepted after the last sample, not sent
    log.sending(500 * MS, 16, 5, {BEA: "unread"})
    assert lines == []
    log.sending(250 * MS + BLOCKED_NS, 16, 5, {BEA: "unread"})
    (line,) = lines
    assert line.startswith("WARNING orders/ada: nothing sent for 1.0 s, 5 bytes wait for bea (its")


def test_what_a_link_could_not_send_is_logged_once_a_period(lines: list[str]) -> None:
    log = EventLog("orders", ADA, phalanx.lan())
    for ms in range(0, 5_000, 250):
        log.counted(ms * MS, "10.0.0.1:5", {"unreachable": ms, "own": 7})
    assert len(lines) == 1
    assert lines[0].startswith(
        "WARNING orders/ada: 250 lost here, unreachable: the network refused"
    )


def test_an_address_that_is_gone_and_one_that_is_new_are_logged(lines: list[str]) -> None:
    log = EventLog("orders", ADA, phalanx.lan())
    log.counted(0, "10.0.0.1:5", {"address-lost": 1})
    log.counted(9 * MS, "10.0.0.1:5", {"address-lost": 1})
    log.counted(9 * MS, "10.0.0.9:6", {"address-lost": 1, "address-changed": 1})
    gone = "WARNING orders/ada: the address of its interface is gone, sends"
    assert lines == [f"{gone} nothing until it has one", f"{gone} from 10.0.0.9:6 now"]


def test_nothing_is_spelled_out_when_the_level_is_off() -> None:
    logging.getLogger("phalanx").setLevel(logging.ERROR)
    try:
        log = EventLog("orders", ADA, phalanx.lan())
        log._members = None  # type: ignore[assignment, method-assign]
        log.effect(0, installed([ADA, BEA], joined=(BEA,)))
        log.effect(0, fx.ViewChangeStep(b"", "IDLE", "FA", (), (), (BEA,)))
    finally:
        logging.getLogger("phalanx").setLevel(logging.NOTSET)


def index(lines: list[str], *parts: str, since: int = 0) -> int:
    """Where the first line stands that has all parts; waits for it."""

    def find() -> int:
        return next(
            (i for i in range(since, len(lines)) if all(part in lines[i] for part in parts)), -1
        )

    assert until(lambda: find() >= 0, 20), f"no line with {parts} in:\n" + "\n".join(lines[since:])
    return find()


def test_the_log_of_a_partition_a_merge_a_kill_and_a_restart_reads_like_a_story(
    group_name: str, lines: list[str]
) -> None:
    config = phalanx.local()
    parts = [{"group": group_name, "name": name, "config": LOCAL} for name in ("bea", "cyd", "dov")]
    members = [MemberProcess(part) for part in parts]
    try:
        with phalanx.blocking.join(group_name, name="ada", config=config) as ada:
            bea, cyd, dov = members
            for member in members:
                member.joined()
            ada.wait_for(4, timeout=20)
            at = index(lines, "INFO", "of ada, bea, cyd, dov; joined")

            # a partition: ada and bea here, cyd and dov there
            here, there = [ada.address, bea.address], [cyd.address, dov.address]
            ada.faults.cut(*there)
            bea.run("cut", addresses=there)
            for member in (cyd, dov):
                member.run("cut", addresses=here)
            at = index(lines, "of ada, bea; left: cyd (", "removal, took", since=at + 1)
            cyd.in_view(["cyd", "dov"])

            # a merge
            ada.faults.heal()
            for member in members:
                member.run("heal")
            at = index(lines, "merged: ada, bea | cyd, dov; join, took", since=at + 1)

            # a kill and a restart
            dov.kill()
            at = index(lines, "of ada, bea, cyd; left: dov (", since=at + 1)
            members.append(MemberProcess(parts[2]))
            members[3].joined()
            at = index(lines, "of ada, bea, cyd, dov.", "; joined: dov.", since=at + 1)

            # a leave
            bea.leave()
            at = index(lines, "left: bea (it left); removal", since=at + 1)
    finally:
        for member in members:
            member.close()
    assert lines[0].startswith(f"INFO {group_name}/ada: joins as ada.")
    assert f"INFO {group_name}/ada: leaves" in lines
    assert lines[-1].startswith(f"INFO {group_name}/ada: left, took ")
    assert not [line for line in lines if line.startswith("ERROR")]
    assert sum(" view " in line for line in lines) < 20, "a storm of views"


def test_a_process_that_was_suspended_says_that_it_ran_late(
    group_name: str, tmp_path: Path
) -> None:
    errors = tmp_path / "errors"
    with errors.open("w") as out:
        member = MemberProcess({"group": group_name, "name": "ada", "config": LOCAL}, errors=out)
        try:
            member.joined()
            member.freeze()
            time.sleep(0.6)  # this is the fault itself
            member.thaw()
            assert until(lambda: "this process ran late, by " in errors.read_text())
            member.leave()
        finally:
            member.close()


def test_a_sender_sees_whose_application_it_waits_for(group_name: str, lines: list[str]) -> None:
    config = phalanx.local(buffer_bytes_max=64 << 10, outbox_bytes_max=64 << 10)
    with (
        phalanx.blocking.join(group_name, name="ada", config=phalanx.local()) as ada,
        phalanx.blocking.join(group_name, name="bea", config=config) as bea,
    ):
        ada.wait_for(2, timeout=20)
        assert ada.blocked_by == {}
        ada.send_many([bytes(50_000)] * 15)  # bea reads nothing
        index(lines, "bea: the application reads events too slowly")
        sent = 15

        def waits() -> bool:
            """Whether a message waits. Messages leave until bea is heard to be behind, and again at
            the start of a new view, which a crowded machine may bring."""
            nonlocal sent
            ada.send(b"waits")
            sent += 1
            return ada.blocked_by == {bea.me: "unread"}

        def waits_and_says_so() -> bool:
            said = ("ada: nothing sent for", "bea (its application reads events too slowly)")
            return waits() and any(all(part in line for part in said) for line in lines)

        assert until(waits)
        assert until(waits_and_says_so, 20), "\n".join(lines)
        for event in bea:
            if isinstance(event, phalanx.Message) and event.number == sent:
                break
        assert until(lambda: ada.blocked_by == {})
        index(lines, "ada: sends again after")
