"""Interfaces whose addresses change, that go down, or that are replaced, under members that run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from bench.namespaces import Lan, available
from tests.real.conftest import Theatre

from phalanx.harness.controller import MemberProcess, all_in_view

SETTLE_SECONDS = 15.0


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network namespace for several members on one machine."""
    reason = available()
    if reason:
        pytest.skip(reason)
    with Lan(1) as lan:
        yield lan.namespace(0)


def ip(theatre: Theatre, i: int, *arguments: str) -> None:
    """The command `ip` in the namespace of member i."""
    ip_in(theatre.lan.namespace(i), *arguments)


def ip_in(namespace: str, *arguments: str) -> None:
    command = ["ip", "netns", "exec", namespace, "ip", *arguments]
    subprocess.run(command, check=True, timeout=10)


@contextmanager
def pair(namespace: str, **config: str) -> Iterator[list[MemberProcess]]:
    """Two members in one namespace, in one view."""
    prefix = ["ip", "netns", "exec", namespace]
    part = {"group": f"pair-{os.getpid()}", "config": config}
    members = [MemberProcess({**part, "name": name}, prefix) for name in ("ada", "bea")]
    try:
        for member in members:
            member.joined()
        hear_each_other(members)
        yield members
        end(members)
    finally:
        for member in members:
            member.close()


def says(theatre: Theatre, i: int, line: str) -> None:
    """Wait until member i has written the line to its standard error."""
    end = time.monotonic() + SETTLE_SECONDS
    while line not in theatre.said(i):
        assert time.monotonic() < end, f"{line!r} not in {theatre.said(i)!r}"
        time.sleep(0.05)


def hear_each_other(members: list[MemberProcess]) -> None:
    """Within a bounded time all are in one view, and what the first says is at every member."""
    names = sorted(member.name for member in members)
    until = time.monotonic() + SETTLE_SECONDS
    while True:
        before = [member.report()["delivered"].get("SAFE", 0) for member in members]
        at = len(members[0].events)
        members[0].do("send", count=10, service="safe", stable=True)
        members[0].wait(lambda t: t["event"] == "sent", SETTLE_SECONDS, at, "all is stable")
        reports = [member.report() for member in members]
        got = [report["delivered"].get("SAFE", 0) for report in reports]
        if all(n >= 10 + was for n, was in zip(got, before, strict=True)):
            if all(report["members"] == names for report in reports):
                return
        assert time.monotonic() < until, reports
        time.sleep(0.05)


def end(members: list[MemberProcess]) -> None:
    for member in members:
        member.leave()


@pytest.mark.parametrize("network", ["multicast", "broadcast"])
def test_a_member_survives_a_change_of_its_address(theatre: Theatre, network: str) -> None:
    members = theatre.start_all(config={"network": network})
    hear_each_other(members)
    ip(theatre, 0, "-4", "addr", "flush", "dev", "eth0")
    ip(theatre, 0, "addr", "add", "10.77.0.201/16", "brd", "+", "dev", "eth0")
    hear_each_other(members)
    says(theatre, 0, "is gone, sends from 10.77.0.201:")
    end(members)


def test_a_member_by_fan_out_survives_a_change_of_its_address(theatre: Theatre) -> None:
    """The others know it by the old one; it introduces itself from the new one."""
    peers = [f"{theatre.lan.address(i)}:7117" for i in range(2)]
    members = theatre.start_all(config={"network": "fanout", "peers": peers, "interface": "eth0"})
    hear_each_other(members)
    ip(theatre, 0, "-4", "addr", "flush", "dev", "eth0")
    ip(theatre, 0, "addr", "add", "10.77.0.203/16", "dev", "eth0")
    hear_each_other(members)
    says(theatre, 0, "is gone, sends from 10.77.0.203:7117 now")
    end(members)


def test_a_member_without_an_address_comes_back_when_there_is_one(theatre: Theatre) -> None:
    members = theatre.start_all()
    ip(theatre, 0, "-4", "addr", "flush", "dev", "eth0")
    all_in_view(members[1:], SETTLE_SECONDS)
    says(theatre, 0, "is gone, sends nothing until it has one")
    ip(theatre, 0, "addr", "add", "10.77.0.202/16", "dev", "eth0")
    hear_each_other(members)
    end(members)


def test_a_member_survives_a_change_of_its_ipv6_address(theatre: Theatre) -> None:
    members = theatre.start_all(config={"address": "ff02::7117"})
    hear_each_other(members)
    ip(theatre, 0, "-6", "addr", "flush", "dev", "eth0", "scope", "global")
    ip(theatre, 0, "-6", "addr", "add", "fd77::201/64", "dev", "eth0", "nodad")
    says(theatre, 0, "is gone, sends from [")
    hear_each_other(members)
    end(members)


@pytest.mark.parametrize("address", ["", "ff02::7117"])
def test_a_member_comes_back_when_its_interface_is_up_again(theatre: Theatre, address: str) -> None:
    """With IPv6 the kernel takes the addresses away when the interface goes down."""
    members = theatre.start_all(config={"address": address})
    ip(theatre, 0, "link", "set", "eth0", "down")
    all_in_view(members[1:], SETTLE_SECONDS)
    ip(theatre, 0, "link", "set", "eth0", "up")
    hear_each_other(members)
    end(members)


def test_members_move_to_an_interface_that_replaces_theirs(namespace: str) -> None:
    """The new one has the name and the address of the old one, but the kernel has forgotten what
    was joined there."""

    def lay() -> None:
        ip_in(namespace, "link", "add", "wire0", "type", "veth", "peer", "name", "wire1")
        for name in ("wire0", "wire1"):
            ip_in(namespace, "link", "set", name, "up")
        ip_in(namespace, "addr", "add", "10.78.0.1/24", "dev", "wire0")

    lay()
    with pair(namespace, interface="wire0") as members:
        before = [len(member.events) for member in members]
        ip_in(namespace, "link", "del", "wire0")
        for member, mark in zip(members, before, strict=True):
            member.in_view([member.name], SETTLE_SECONDS, mark)
        lay()
        hear_each_other(members)


def test_ipv6_multicast_on_loopback_is_refused_or_works(namespace: str) -> None:
    """Linux has no route for it, so members would never meet; with one they do."""
    config = {"interface": "lo", "address": "ff02::7117"}
    prefix = ["ip", "netns", "exec", namespace]
    refused = MemberProcess({"group": "g", "name": "ada", "config": config}, prefix)
    told = refused.wait(lambda t: t["event"] == "refused", SETTLE_SECONDS)
    refused.close()
    assert "this system carries no IPv6 multicast on lo; leave address empty" in told["error"]
    ip_in(namespace, "-6", "route", "add", "local", "ff00::/8", "dev", "lo", "table", "local")
    with pair(namespace, **config):
        pass
