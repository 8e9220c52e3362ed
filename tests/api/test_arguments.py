"""What the calls of a group accept, copy and refuse."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.api import arguments
from phalanx.core.ids import MemberId
from phalanx.errors import (
    ConfigurationError,
    InvalidSubmission,
    NoReceiver,
    NotBytes,
    PhalanxError,
    SubmissionError,
    UnknownMember,
)

SECONDS = 20.0


class Word(str):
    __slots__ = ()


class Names(enum.StrEnum):
    ADA = "ada"


class Blob(bytes):
    pass


def test_bodies_of_every_kind_become_plain_bytes() -> None:
    given = [b"a", bytearray(b"b"), memoryview(b"cxc")[::2], Blob(b"d"), b""]
    bodies = arguments.checked_bodies(body for body in given)
    assert bodies == (b"a", b"b", b"cc", b"d", b"")
    assert {type(body) for body in bodies} == {bytes}


@pytest.mark.parametrize("bodies", [b"abc", bytearray(b"abc"), memoryview(b"abc"), "abc", None, 5])
def test_bodies_that_are_no_messages_are_refused(bodies: Any) -> None:
    with pytest.raises(InvalidSubmission, match="bodies = "):
        arguments.checked_bodies(bodies)


@pytest.mark.parametrize("body", ["text", None, 5, [b"x"]])
def test_a_body_that_is_not_bytes_is_refused(body: Any) -> None:
    with pytest.raises(NotBytes, match="give bytes"):
        arguments.checked_bodies([b"x", body])


def test_a_view_that_was_released_is_refused() -> None:
    body = memoryview(b"x")
    body.release()
    with pytest.raises(InvalidSubmission, match="body = "):
        arguments.checked_bodies([body])


def test_a_service_goes_by_its_name_in_any_case() -> None:
    for service in phalanx.Service:
        for name in (service, service.name, service.name.lower(), service.name.title()):
            assert arguments.checked_service(name) is service


@pytest.mark.parametrize("service", ["bogus", "", None, 7, 2, True, 2.0, [], b"safe"])
def test_other_services_are_refused_by_name(service: Any) -> None:
    with pytest.raises(InvalidSubmission, match=r"service = .*basic, causal, agreed, safe"):
        arguments.checked_service(service)


def test_receivers_are_one_or_many() -> None:
    bea = MemberId("bea")
    for to, found in [
        (None, None),
        ("ada", ("ada",)),
        (bea, (bea,)),
        (["ada", bea], ("ada", bea)),
        ((name for name in ("ada", "bea")), ("ada", "bea")),
    ]:
        assert arguments.checked_receivers(to) == found
    with pytest.raises(NoReceiver):
        arguments.checked_receivers(iter(()))


@pytest.mark.parametrize("to", [5, b"ada", [None], [["ada"]], True])
def test_receivers_of_other_types_are_refused(to: Any) -> None:
    with pytest.raises(InvalidSubmission, match="to = "):
        arguments.checked_receivers(to)


def test_bytes_as_a_receiver_are_refused_as_they_were_given() -> None:
    with pytest.raises(InvalidSubmission, match="to = b'ada': "):
        arguments.checked_receivers(b"ada")


def test_a_message_shows_the_beginning_of_a_long_value() -> None:
    with pytest.raises(ConfigurationError, match="1 to 128 characters") as raised:
        arguments.checked_group("x" * 100_000)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"group": "a\nb"}, "group = 'a\\nb'"),
        ({"group": "a\x00b"}, "group = 'a\\x00b'"),
        ({"group": "\ud800"}, "group = '\\ud800'"),
        ({"group": b"orders"}, "group = b'orders'"),
        ({"group": None}, "group = None"),
        ({"group": "x" * 129}, "1 to 128 characters"),
        ({"name": b"ada"}, "name = b'ada': must be a str"),
        ({"name": 5}, "name = 5: must be a str"),
        ({"state": 5}, "state = 5"),
        ({"state": ""}, "state = ''"),
        ({"state": "a\x00b"}, "state = 'a\\x00b'"),
        ({"journal": object}, "journal = "),
        ({"journal": ""}, "journal = ''"),
        ({"journal_settings": {}}, "journal_settings = {}"),
        ({"journal_settings": 5}, "journal_settings = 5"),
        ({"journal_settings": phalanx.JournalSettings(flush_ns=0)}, "flush_ns = 0"),
        ({"timeout": "5"}, "timeout = '5'"),
    ],
)
def test_what_cannot_be_joined_is_refused_by_name(
    api: Any, group_name: str, given: dict[str, Any], text: str
) -> None:
    async def scene() -> None:
        whole = {"group": group_name} | given
        with pytest.raises(ConfigurationError) as raised:
            await api.join(whole.pop("group"), **whole)
        assert text in str(raised.value)
        assert "\n" not in str(raised.value)

    api.run(scene())


def test_a_cluster_is_printable() -> None:
    for cluster in ("a\nb", "\ud800"):
        with pytest.raises(ConfigurationError, match="cluster = "):
            phalanx.lan(cluster=cluster)


def test_strings_and_paths_of_every_kind_are_accepted(
    api: Any, group_name: str, tmp_path: Path
) -> None:
    async def scene() -> None:
        state, journal = bytes(tmp_path / "state"), str(tmp_path / "journal")
        member = await api.join(Word(group_name), name=Names.ADA, state=state, journal=journal)
        assert (member.name, member.me.name) == (group_name, "ada")
        assert {type(member.name), type(member.me.name)} == {str}
        await api.call(member.leave)
        assert list((tmp_path / "state").iterdir())
        assert list((tmp_path / "journal").iterdir())

    api.run(scene())


def _numbered() -> Iterator[bytes]:
    for i in range(3):
        yield b"%d" % i


def test_what_is_accepted_is_delivered(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            changed = bytearray(b"before")
            many = [b"3", b"4"]
            receipts = [
                await api.call(ada.send_many, _numbered(), "safe"),
                await api.call(ada.send_many, many, to=(name for name in ["ada"])),
                await api.call(ada.send, changed, "CAUSAL", to="ada"),
                await api.call(ada.send, memoryview(b"view"), to=ada.me),
                await api.call(ada.send, b"twice", to=["ada", ada.me, "ada"]),
            ]
            many.clear()
            changed[:] = b"after!"
            for receipt in receipts:
                await asyncio.wait_for(api.call(receipt.stable), SECONDS)
            await api.call(ada.leave)
            events = [event async for event in ada] if api.kind == "asyncio" else list(ada)
            bodies = [event.body for event in events if isinstance(event, phalanx.Message)]
            assert bodies == [b"0", b"1", b"2", b"3", b"4", b"before", b"view", b"twice"]

    api.run(scene())


def test_a_list_may_be_cleared_before_the_engine_looks_at_it() -> None:
    """The runner keeps what it was given until the core has room."""
    many = [b"1", b"2"]
    kept = arguments.checked_bodies(many)
    many.clear()
    assert kept == (b"1", b"2")


def test_the_receipt_of_no_messages_is_complete_at_once(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            nothings: list[Any] = [[], (), iter(())]
            for nothing in nothings:
                receipt = await api.call(ada.send_many, nothing)
                await asyncio.wait_for(api.call(receipt.ordered), SECONDS)
                await asyncio.wait_for(api.call(receipt.stable), SECONDS)
                assert receipt.numbers is None
            receipt = await api.call(ada.send, b"first")
            await asyncio.wait_for(api.call(receipt.stable), SECONDS)
            assert receipt.numbers == (1, 1)
            await api.call(ada.leave)
            with pytest.raises(PhalanxError, match="is closed"):
                await api.call(ada.send_many, [])

    api.run(scene())


def test_a_submission_that_is_refused_sends_nothing(api: Any, group_name: str) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x"
        raise ZeroDivisionError

    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            bad: list[tuple[Any, dict[str, Any], type[Exception]]] = [
                ([b"x", "y"], {}, NotBytes),
                (b"xyz", {}, InvalidSubmission),
                ([b"x"], {"service": "bogus"}, SubmissionError),
                ([b"x"], {"to": 5}, SubmissionError),
                ([b"x"], {"to": "bea"}, UnknownMember),
                (broken(), {}, ZeroDivisionError),
            ]
            for bodies, more, error in bad:
                with pytest.raises(error):
                    await api.call(ada.send_many, bodies, **more)
            receipt = await api.call(ada.send, b"first")
            await asyncio.wait_for(api.call(receipt.stable), SECONDS)
            assert receipt.numbers == (1, 1)

    api.run(scene())


@pytest.mark.parametrize("timeout", [-1, float("nan"), "5", True])
def test_bad_timeouts_of_blocking_calls_are_refused(group_name: str, timeout: Any) -> None:
    with phalanx.blocking.join(group_name, name="ada", config=phalanx.local()) as ada:
        calls: list[Callable[[], Any]] = [
            lambda: ada.send(b"x", timeout=timeout),
            lambda: ada.receive(timeout),
            lambda: next(ada.batches(timeout)),
            lambda: ada.settled(timeout),
        ]
        for call in calls:
            with pytest.raises(ConfigurationError, match="timeout = "):
                call()
        assert isinstance(ada.receive(SECONDS), phalanx.View)
