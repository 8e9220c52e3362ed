"""The wide-area membership service under load, beside etcd.

    python bench/bench_service.py run [--groups 200] [--members 2000] [--rate 500] [--json]
    python bench/bench_service.py growth [--json]

`run` starts a tree of three levels (`bench/service_tree.py`), fills the groups, lets members join
and leave at a steady rate through one LAN mserver, then as fast as they are answered, then one by
one, and checks that every member was notified of every view in order. Then the same load on etcd,
in the same folder. `growth` puts a low rate on several numbers of groups and members and prints
what a change and a notice cost.

State lies below --state: on a disk every change waits for it several times, in memory (/dev/shm)
the figures are those of the programs. Exit code 1 if a view was lost or reordered, or a call
failed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import click
from bench.join_load import closed, percentiles, steady
from bench.peers.etcd.etcd_load import PROGRAM, EtcdLoad, EtcdProcess
from bench.service_load import ServiceLoad, cost_of, costs_now
from bench.service_tree import ServiceTree, free_ports

from phalanx.benchmark.usage import busy_seconds, calibration_loop, load, usage

SEED = 20
LAN = "lan1"
SINGLES = 100
"""Joins one by one, at each level."""
WORKERS = 64
REST_SECONDS = 2.0
"""Between two stretches of load."""
GROWTH = ((50, 10), (200, 10), (400, 10), (200, 5), (200, 20))

STATE = click.option("--state", default="", help="Folder for the state; default a temporary one.")
INTERFACES = click.option("--interfaces", default=4)
CLIENTS = click.option("--clients", default=40)
JSON = click.option("--json", "as_json", is_flag=True)


@click.group()
def main() -> None:
    """Measure the membership service."""


@main.command()
@click.option("--groups", default=200)
@click.option("--members", default=2000)
@click.option("--rate", default=500.0, help="Joins and leaves a second.")
@click.option("--seconds", default=20.0)
@click.option("--etcd/--no-etcd", default=True)
@INTERFACES
@CLIENTS
@STATE
@JSON
def run(
    groups: int,
    members: int,
    rate: float,
    seconds: float,
    etcd: bool,
    interfaces: int,
    clients: int,
    state: str,
    as_json: bool,
) -> None:
    """The main figures, and etcd beside them."""
    size = members // groups
    out: dict[str, Any] = {"groups": groups, "members": members, "rate": rate, "state": state}
    out |= {"machine_before": machine()}
    out["phalanx"] = _phalanx(groups, size, rate, seconds, interfaces, clients, state)
    if etcd and Path(PROGRAM).exists():
        out["etcd"] = _etcd(groups, size, rate, seconds, state)
        out["ratios"] = ratios(out["phalanx"], out["etcd"])
    elif etcd:
        click.echo(f"{PROGRAM} is missing: apt-get install etcd-server", err=True)
    out |= {"machine_after": machine()}
    _print(out, as_json)
    sys.exit(1 if out["phalanx"]["problems"] or out["phalanx"]["failed"] else 0)


@main.command()
@click.option("--rate", default=20.0)
@click.option("--seconds", default=10.0)
@INTERFACES
@CLIENTS
@STATE
@JSON
def growth(
    rate: float, seconds: float, interfaces: int, clients: int, state: str, as_json: bool
) -> None:
    """The cost of a change and of a notice, for several numbers of groups and members."""
    rows = []
    for groups, size in GROWTH:
        with _folder(state) as folder, ServiceTree(Path(folder), interfaces) as tree:
            rows.append(asyncio.run(_growth(tree, clients, groups, size, rate, seconds)))
    _print({"rows": rows, "machine_after": machine()}, as_json)
    sys.exit(1 if any(row["problems"] for row in rows) else 0)


def _phalanx(
    groups: int, size: int, rate: float, seconds: float, interfaces: int, clients: int, state: str
) -> dict[str, Any]:
    with _folder(state) as folder, ServiceTree(Path(folder), interfaces) as tree:
        return asyncio.run(_measured(tree, groups, size, rate, seconds, clients))


async def _measured(
    tree: ServiceTree, groups: int, size: int, rate: float, seconds: float, clients: int
) -> dict[str, Any]:
    service, draw = ServiceLoad(tree, clients), random.Random(SEED)
    out: dict[str, Any] = {}
    await service.open()
    try:
        begun = time.perf_counter()
        await service.fill(groups, size, LAN)
        out["fill_seconds"] = round(time.perf_counter() - begun, 2)
        problems = await service.settle()
        _progress(f"filled in {out['fill_seconds']} s")
        await asyncio.sleep(REST_SECONDS)
        idle = costs_now(tree, service)
        await asyncio.sleep(REST_SECONDS)
        quiet = costs_now(tree, service)
        spent = sum(quiet.cpu.values()) - sum(idle.cpu.values())
        out["idle_cores"] = round(spent / REST_SECONDS, 3)
        out["lan_join_ms"] = percentiles(await service.joins_one_by_one("g0", SINGLES))
        await service.spanning_group("wide")
        out["third_level_join_ms"] = percentiles(await service.joins_one_by_one("wide", SINGLES))
        problems += await service.settle()
        del service.members["wide"]  # the rest is about the local network
        before, busy = costs_now(tree, service), busy_seconds()
        result = await steady(service, rate, seconds, draw)
        problems += await service.settle()
        row = result.summary() | cost_of(result, before, costs_now(tree, service))
        row["machine_cores"] = round((busy_seconds() - busy) / result.seconds, 2)
        row["notification_ms"] = percentiles(service.notified_ms(result.began))
        out["steady"] = row
        _progress(f"steady: {row['changes_per_second']} changes a second, {row['join_ms']}")
        failed = result.failed
        await asyncio.sleep(REST_SECONDS)
        result = await closed(service, WORKERS, seconds / 2, draw)
        problems += await service.settle()
        out["closed"] = result.summary()
        out["closed"]["notification_ms"] = percentiles(service.notified_ms(result.began))
        out["problems_count"], out["problems"] = len(problems), problems[:20]
        out["failed"] = dict(failed + result.failed)
    finally:
        await service.close()
    return out


async def _growth(
    tree: ServiceTree, clients: int, groups: int, size: int, rate: float, seconds: float
) -> dict[str, Any]:
    service, draw = ServiceLoad(tree, clients), random.Random(SEED)
    await service.open()
    try:
        await service.fill(groups, size, LAN)
        problems = await service.settle()
        await asyncio.sleep(REST_SECONDS)
        before = costs_now(tree, service)
        begun = time.perf_counter()
        await asyncio.sleep(seconds)
        idle, idle_seconds = costs_now(tree, service), time.perf_counter() - begun
        result = await steady(service, rate, seconds, draw)
        problems += await service.settle()
        after = costs_now(tree, service)
        row: dict[str, Any] = {"groups": groups, "members_of_a_group": size}
        row |= {"members": groups * size, "problems": problems[:20]}
        idle_cpu = sum(idle.cpu.values()) - sum(before.cpu.values())
        row["idle_cores"] = round(idle_cpu / idle_seconds, 3)
        row |= result.summary() | cost_of(result, idle, after)
        busy = sum(after.cpu.values()) - sum(idle.cpu.values())
        spent = busy - idle_cpu * result.seconds / idle_seconds
        row["cpu_ms_per_notice_above_idle"] = round(1000 * spent / max(1, row["notices"]), 4)
        _progress(f"{groups} groups of {size}: {row['cpu_ms_per_notice_above_idle']} ms a notice")
        return row
    finally:
        await service.close()


def _etcd(groups: int, size: int, rate: float, seconds: float, state: str) -> dict[str, Any]:
    with _folder(state) as folder, EtcdProcess(Path(folder), free_ports(2)) as etcd:
        return asyncio.run(_etcd_measured(etcd, groups, size, rate, seconds))


async def _etcd_measured(
    etcd: EtcdProcess, groups: int, size: int, rate: float, seconds: float
) -> dict[str, Any]:
    service, draw = EtcdLoad(etcd.port), random.Random(SEED)
    out: dict[str, Any] = {}
    try:
        await service.open()
        begun = time.perf_counter()
        await service.fill(groups, size)
        out["fill_seconds"] = round(time.perf_counter() - begun, 2)
        singles = []
        for _ in range(SINGLES):
            begun = time.perf_counter()
            await service.join("g0")
            singles.append(1000 * (time.perf_counter() - begun))
            await service.leave("g0", service.members["g0"][-1])
        out["join_ms"] = percentiles(singles)
        cpu, notices, busy = usage([etcd.pid]).cpu_seconds, service.notices, busy_seconds()
        result = await steady(service, rate, seconds, draw)
        await asyncio.sleep(REST_SECONDS)
        spent = usage([etcd.pid]).cpu_seconds - cpu
        row = result.summary()
        row["notices"] = service.notices - notices
        row["cpu_ms_per_change"] = round(1000 * spent / max(1, result.done), 3)
        row["machine_cores"] = round((busy_seconds() - busy) / result.seconds, 2)
        row["notification_ms"] = percentiles(service.notified_ms(result.began))
        out["steady"] = row
        result = await closed(service, WORKERS, seconds / 2, draw)
        await asyncio.sleep(REST_SECONDS)
        out["closed"] = result.summary()
        out["closed"]["notification_ms"] = percentiles(service.notified_ms(result.began))
        _progress(f"etcd: {row['changes_per_second']} changes a second, {row['join_ms']}")
    finally:
        await service.close()
    return out


def ratios(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    """Ours divided by theirs."""

    def of(*path: str) -> float:
        mine, other = ours, theirs
        for name in path:
            mine, other = mine.get(name, {}), other.get(name, {})
        return round(float(mine) / float(other), 3) if mine and other else 0.0  # type: ignore[arg-type]

    return {
        "joins_per_second": of("closed", "joins_per_second"),
        "steady_join_p50": of("steady", "join_ms", "p50"),
        "steady_notification_p50": of("steady", "notification_ms", "p50"),
        "steady_notification_p99": of("steady", "notification_ms", "p99"),
        "closed_notification_p50": of("closed", "notification_ms", "p50"),
    }


def machine() -> dict[str, Any]:
    """How busy and how fast the machine is."""
    return {"load": load(), "loop_ms": round(1000 * calibration_loop(), 1), "cores": os.cpu_count()}


def _folder(state: str) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="phx-", dir=state or None, ignore_cleanup_errors=True)


def _progress(text: str) -> None:
    click.echo(text, err=True)


def _print(out: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(out))
        return
    for line in _lines("", out):
        click.echo(line)


def _lines(name: str, value: Any) -> list[str]:
    if isinstance(value, dict) and any(isinstance(v, dict) for v in value.values()):
        inner = [line for key, each in value.items() for line in _lines(key, each)]
        return [f"{name}:", *(f"  {line}" for line in inner)] if name else inner
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [line for at, each in enumerate(value) for line in _lines(f"{name} {at}", each)]
    return [f"{name}: {value}"]


if __name__ == "__main__":
    main()
