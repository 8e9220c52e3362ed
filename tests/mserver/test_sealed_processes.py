"""A sealed cluster of real processes on loopback, with multicast and copies mixed in its sets."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx.harness.service_processes import ServiceProcesses, repeated

pytest.importorskip("cryptography")
pytestmark = pytest.mark.xdist_group("mserver-processes")

CONFIG = """
cluster = "sealed"
key = "cluster.key"

[set.top]
level = 2
members = ["t1", "t2", "t3"]
multicast = "239.192.7.101:{group}"
fan_out = ["t3"]

[set.low]
level = 1
parent = "top"
link = "t1"
members = ["t1", "l1", "l2"]
multicast = "239.192.7.102:{group}"

[interface.host-1]
home = "l1"
"""
SERVERS = ("t1", "t2", "t3", "l1", "l2")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServiceProcesses]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = CONFIG.format(group=port)
    for at, name in enumerate(SERVERS):
        text += f'\n[mserver.{name}]\naddress = "127.0.0.{at + 2}:{port}"\n'
    (tmp_path / "cluster.key").write_text(secrets.token_hex(32))
    (tmp_path / "service.toml").write_text(text)
    cluster = ServiceProcesses(tmp_path / "service.toml", tmp_path / "s")
    cluster.start(*cluster.names)
    try:
        cluster.wait_whole()
        yield cluster
    finally:
        cluster.close()


def counts(cluster: ServiceProcesses, name: str) -> dict[str, Any]:
    status = cluster.status(name)
    return {} if status is None else status["counts"]


def lineages(cluster: ServiceProcesses) -> dict[str, set[str]]:
    """The lineage of each set at its members: another one after each fork and union."""
    found: dict[str, set[str]] = {}
    for status in cluster.statuses().values():
        for name, seen in status["sets"].items():
            found.setdefault(name, set()).add(seen["lineage"])
    return found


def test_a_mixed_set_works_sealed_rotates_its_key_and_ignores_strangers(
    cluster: ServiceProcesses,
) -> None:
    with cluster.client("host-1") as client:
        repeated(client, "join_group", {"name": "orders"})
        # A change of each set went to those that multicast reaches, and to t3 as a copy.
        assert sum(counts(cluster, name).get("multicast", 0) for name in SERVERS) > 0
        assert counts(cluster, "t3").get("multicast", 0) == 0
        assert all(cluster.complaint(name).count("has no key") == 0 for name in cluster.names)

        before = lineages(cluster)
        address = cluster.config.servers["t1"].address
        host, _, port = address.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for size in (0, 1, 15, 40, 60, 1300):
                for magic in (b"", b"PM\x01", b"PS\x01\x00", b"PS\x01\x01"):
                    packet = magic + secrets.token_bytes(size)
                    stranger.sendto(packet, (host, int(port)))
        cluster.wait(
            lambda: (
                counts(cluster, "t1").get("unsealed", 0) + counts(cluster, "t1").get("key", 0) >= 20
            ),
            "the packets of the stranger are counted",
        )
        assert lineages(cluster) == before

        key = cluster.file.parent / "cluster.key"
        old, new = key.read_text(), secrets.token_hex(32)
        rings = [str(cluster.statuses()["t1"]["keys"])]
        for lines in ([old, new], [new, old], [new]):
            key.write_text("\n".join(lines))
            cluster.wait(
                lambda: not {*rings} & {str(each["keys"]) for each in cluster.statuses().values()},
                "all have read the file",
            )
            rings.append(str(cluster.statuses()["t1"]["keys"]))
            repeated(client, "set_group_attributes", {"group": "orders", "properties": {"n": 1}})
            cluster.wait_whole()
            assert lineages(cluster) == before  # nobody was left out for a moment

        cluster.kill("l2")
        cluster.wait_whole(down=["l2"])
        cluster.start("l2")
        cluster.wait_whole()


def test_a_process_with_another_key_stays_alone(cluster: ServiceProcesses) -> None:
    cluster.kill("l2")
    cluster.wait_whole(down=["l2"])
    key = cluster.file.parent / "cluster.key"
    ours = key.read_text()
    key.write_text(secrets.token_hex(32))
    cluster.start("l2")
    cluster.wait(lambda: cluster.status("l2") is not None, "l2 answers")
    key.write_text(ours)  # l2 has read the other one; the others look again and keep theirs
    cluster.wait(lambda: counts(cluster, "t1").get("key", 0) > 0, "its packets are refused")
    cluster.wait_whole(down=["l2"])  # who read the other key meanwhile has ours again
