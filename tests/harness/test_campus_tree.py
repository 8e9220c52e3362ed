"""The tree of a campus as text, and the configuration that it comes from."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from phalanx.harness.campus_config import Campus, campus_config
from phalanx.harness.campus_tree import tree_lines
from phalanx.mserver.service_config import ServiceConfig
from phalanx.mserver.service_config_check import checked_service_config


def config_of(campus: Campus, **more: Any) -> ServiceConfig:
    text = campus_config(campus, lambda name: f"10.0.0.{campus.machines.index(name) + 1}", **more)
    found = checked_service_config(tomllib.loads(text))
    assert isinstance(found, ServiceConfig), found
    return found


@pytest.mark.parametrize("lans", [(4, 4, 3), (2, 1), (1, 1, 1, 1)])
def test_the_configuration_of_a_campus_is_good(lans: tuple[int, ...]) -> None:
    campus = Campus(lans)
    config = config_of(campus, key="cluster.key", multicast=True, fan_out="building-2")
    assert len(config.servers) == len(campus.machines) == sum(lans) + len(lans)
    assert list(config.interfaces) == campus.hosts
    assert config.sets["campus"].fan_out == ("building-2",)
    assert config.sets["b1"].fan_out == ()
    assert len({each.multicast for each in config.sets.values()}) == 1 + len(lans)
    assert [campus.machine_of(host) for host in campus.hosts] == [
        lan for building in campus.buildings for lan in campus.lans_of(building)
    ]


def status(**sets: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"interfaces": {}, "owned": {}}
    return {"sets": {name: empty | seen for name, seen in sets.items()}}


def test_components_groups_hosts_and_killed_servers_are_shown() -> None:
    group = {"name": "chat", "vid": "4:aa", "members": 2, "ended": None}
    alone = {"name": "chat", "vid": "5:bb", "members": 1, "ended": None}
    over = {"name": "orders", "vid": "5:cc", "members": 0, "ended": None}
    low = {
        "view": ["building-1.1", "lan-1.1"],
        "interfaces": {"host-2": "building-1.1", "host-1": "lan-1.1"},
        "owned": {"u": group},
    }
    statuses = {
        "building-1": status(campus={"view": ["building-1.1"]}, b1=low),
        "building-2": status(campus={"view": ["building-2.1"]}),
        "lan-1": status(b1=low),
        "lan-3": status(
            b2={
                "view": ["lan-3.1"],
                "interfaces": {"host-3": "lan-3.1"},
                "owned": {"u": alone, "v": over},
            }
        ),
    }
    lines = tree_lines(config_of(Campus((2, 1))), statuses, ["lan-2"], ["building-2", "lan-3"])
    assert [line.rstrip() for line in lines] == [
        "campus    building-1",
        "          building-2, cut off",
        "  b1      building-1, lan-1                                         chat (2)",
        "          lan-2: killed",
        "          host-1 at lan-1, host-2 at building-1",
        "  b2      lan-3, cut off                                            chat (1)",
        "          host-3 at lan-3",
    ]


def test_a_set_of_which_nobody_answers_is_shown() -> None:
    assert tree_lines(config_of(Campus((2, 1))), {})[0] == "campus    no mserver answers"
