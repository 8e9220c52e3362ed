"""Groups in a mesh, by the same calls as on any other network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.certificate_authority import shared_key
from tests.live_groups import Api, until

import phalanx
from phalanx import blocking
from phalanx.errors import ConfigurationError, Forked, NetworkError


@pytest.fixture
def key(tmp_path: Path) -> phalanx.SharedKey:
    return phalanx.SharedKey(shared_key(tmp_path))


def config_of(key: phalanx.SharedKey, *peers: str) -> phalanx.Config:
    return phalanx.mesh(*(peers or ("127.0.0.1:9",)), address="127.0.0.1", port=0, tls=key)


def test_messages_faults_and_counts_work_as_on_other_networks(
    api: Api, group_name: str, key: phalanx.SharedKey
) -> None:
    async def body() -> None:
        ada = await api.join(group_name, name="ada", config=config_of(key))
        members: list[Any] = [ada]
        try:
            for name in ("bea", "cyd"):
                config = config_of(key, ada.address)
                members.append(await api.join(group_name, name=name, config=config))
            for member in members:
                await api.call(member.wait_for, 3, 10)
            assert ada.config.mode == "flow"
            assert ada.network_counts["channel-up"] >= 2
            receipt = await api.call(ada.send, b"hello", phalanx.SAFE)
            outcome = await api.call(receipt.delivered)
            assert len(outcome.members) == 3
            bea = members[1]
            bea.faults.cut(ada.address)
            assert until(lambda: bea.network_counts.get("cut", 0) > 0)
            receipt = await api.call(ada.send, b"around", phalanx.SAFE)
            outcome = await api.call(receipt.delivered)
            assert len(outcome.members) == 3
            assert len(ada.view.members) == 3
            bea.faults.heal()
        finally:
            for member in members:
                await api.call(member.leave)

    api.run(body())


def test_roles_are_agreed_and_travel_with_members_that_join(
    api: Api, group_name: str, key: phalanx.SharedKey
) -> None:
    async def body() -> None:
        ada = await api.join(group_name, name="ada", config=config_of(key))
        members: list[Any] = [ada]
        try:
            await api.call(ada.set_role, {"write"}, 10)
            config = config_of(key, ada.address)
            bea = await api.join(group_name, name="bea", config=config)
            members.append(bea)
            view = await api.call(bea.wait_for, lambda v: ada.me in v.roles, 10)
            assert view.roles == {ada.me: frozenset({"write"})}
            view = await api.call(bea.set_role, {"read"}, 10)
            seen = await api.call(ada.wait_for, lambda v: bea.me in v.roles, 10)
            assert (seen.id, seen.cause, len(seen.roles)) == (view.id, "role", 2)
            assert until(lambda: ada.complete and bea.complete)
        finally:
            for member in members:
                await api.call(member.leave)

    api.run(body())


def test_mistakes_leave_nothing_behind(group_name: str, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="cannot be read"):
        blocking.join(group_name, config=config_of(phalanx.SharedKey(str(tmp_path / "gone"))))
    with pytest.raises(ConfigurationError, match=r"tls=phalanx\.Certificates"):
        blocking.join(group_name, config=phalanx.mesh("192.0.2.1:7117"))


def test_the_child_of_a_fork_disturbs_no_channel(group_name: str, key: phalanx.SharedKey) -> None:
    with (
        blocking.join(group_name, name="ada", config=config_of(key)) as ada,
        blocking.join(group_name, name="bea", config=config_of(key, ada.address)) as bea,
    ):
        bea.wait_for(2, 10)
        before = bea.network_counts
        child = os.fork()
        if child == 0:
            try:
                ada.send(b"from the child")
            except Forked:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(ada.send(b"x", phalanx.SAFE).delivered(10).members) == 2
        assert bea.network_counts == before
