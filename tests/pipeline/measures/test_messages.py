"""Latency and throughput: by hand, and against counting each message of simulated runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from tests.pipeline.made import MS, SECOND, WALL, Hand, each, of_rows, rows_of, simulated

from phalanx.journal import schema as ev
from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.pipeline.measures.delivered_ranges import parts, sizes
from phalanx.pipeline.measures.latency import SIZES, latency, latency_over_time
from phalanx.pipeline.measures.throughput import throughput
from phalanx.pipeline.report.collect import collect
from phalanx.pipeline.report.model import SERVICES

MADE = "made"


@pytest.fixture(scope="module")
def runs() -> dict[str, list[ev.Event]]:
    return simulated((1, 10))


@pytest.fixture(scope="module")
def groups(runs: dict[str, list[ev.Event]]) -> list[GroupTables]:
    """By hand: ada sends to itself, to bea on the same machine and to cyd on another; of cyd's
    messages some were submitted before what is left of its journal."""
    ada = Hand("ada.1", MADE).submit(0, 1, 3, 100, "AGREED").submit(10, 4, 10, 50, "AGREED")
    ada.deliver(20, "ada.1", 1, 5, "AGREED").deliver(30, "ada.1", 6, 10, "AGREED")
    bea = Hand("bea.1", MADE).deliver(21, "ada.1", 1, 10, "AGREED")
    cyd = Hand("cyd.1", MADE, boot="two").submit(1000, 8, 9, 2_000_000, "SAFE")
    cyd.deliver(1004, "cyd.1", 5, 9, "SAFE").deliver(2500, "ada.1", 1, 10, "AGREED")
    made = [hand.journal for hand in (ada, bea, cyd)]
    return groups_of_rows([*made, *(j for rows in runs.values() for j in of_rows(rows))])


def made(groups: list[GroupTables]) -> GroupTables:
    return next(group for group in groups if group.key.run == MADE)


def test_deliveries_are_cut_where_submissions_are(groups: list[GroupTables]) -> None:
    group = made(groups)
    found = parts(group)
    delivered = group["deliver"].take(found.delivery).to_pylist()
    submitted = group["accepted"].take(found.submission).to_pylist()
    size = sizes(group)[found.submission].tolist()
    told = [
        (one["member"], one["sender"], messages, one["t_ns"], other["t_ns"], mean)
        for one, other, messages, mean in zip(
            delivered, submitted, found.messages.tolist(), size, strict=True
        )
        if one["member"] != "bea"
    ]
    assert sorted(told) == [
        ("ada", "ada", 2, 20 * MS, 10 * MS, 50.0),
        ("ada", "ada", 3, 20 * MS, 0, 100.0),
        ("ada", "ada", 5, 30 * MS, 10 * MS, 50.0),
        ("cyd", "ada", 3, 2500 * MS, 0, 100.0),
        ("cyd", "ada", 7, 2500 * MS, 10 * MS, 50.0),
        ("cyd", "cyd", 2, 1004 * MS, 1000 * MS, 2e6),
    ]


def test_latency_is_told_only_where_both_clocks_are_one(groups: list[GroupTables]) -> None:
    found = latency(made(groups))
    columns = ("scope", "service", "size_max", "count", "p50_ns", "p99_ns", "max_ns", "mean_ns")
    assert rows_of(found, *columns) == [
        ("OTHERS", "AGREED", 256, 3, 21 * MS, 21 * MS, 21 * MS, 21.0 * MS),
        ("OTHERS", "AGREED", 64, 7, 11 * MS, 11 * MS, 11 * MS, 11.0 * MS),
        ("SELF", "AGREED", 256, 3, 20 * MS, 20 * MS, 20 * MS, 20.0 * MS),
        ("SELF", "AGREED", 64, 7, 20 * MS, 20 * MS, 20 * MS, 120 * MS / 7),
        ("SELF", "SAFE", None, 2, 4 * MS, 4 * MS, 4 * MS, 4.0 * MS),
    ]


def test_the_report_gives_the_latencies_of_measures() -> None:
    """Also where a message is delivered before it was submitted, by clocks that are said to be
    one, and between members whose boot is unknown, which are left out of both."""
    ada = Hand("ada.1").view(0, "v1", "ada.1 bea.1").submit(10, 1, 4, 100, "AGREED")
    ada.deliver(12, "ada.1", 1, 4, "AGREED")
    bea = Hand("bea.1").view(0, "v1", "ada.1 bea.1").deliver(9, "ada.1", 1, 1, "AGREED")
    bea.deliver(13, "ada.1", 2, 4, "AGREED")
    cyd = Hand("cyd.1", boot="unknown").view(0, "v1", "cyd.1 dov.1").submit(1, 1, 1, 9, "SAFE")
    dov = Hand("dov.1", boot="unknown").view(0, "v1", "cyd.1 dov.1")
    dov.deliver(2, "cyd.1", 1, 1, "SAFE")
    (group,) = groups_of_rows([hand.journal for hand in (ada, bea, cyd, dov)])
    measured = {
        (row.scope == "SELF", row.service): (
            row.count,
            *(ns / 1000 for ns in (row.p50_ns, row.p90_ns, row.p99_ns, row.p999_ns, row.max_ns)),
        )
        for row in latency(group)
    }
    (run,) = collect([group], {}).runs
    reported = {
        (row.own, SERVICES[row.service]): (
            *(row.messages, row.p50, row.p90, row.p99, row.p999, row.most),
        )
        for row in run.latency
    }
    assert reported == measured
    assert set(measured) == {(True, "AGREED"), (False, "AGREED")}
    (link,) = [link for link in run.links if link.by != link.to and link.p50 is not None]
    assert (link.p50, link.p99) == (reported[False, "AGREED"][1], reported[False, "AGREED"][3])
    late = [row for row in latency(group) if row.scope == "OTHERS"]
    assert [row.mean_ns for row in late] == [(3 * 3 - 1) * MS / 4]


def test_throughput_counts_messages_of_unknown_size_too(groups: list[GroupTables]) -> None:
    found = throughput(made(groups), SECOND)
    columns = ("member", "service", "clock", "from_ns", "messages", "bytes", "unsized")
    assert rows_of(found, *columns) == [
        ("ada", "AGREED", "WALL", WALL, 10, 650, 0),
        ("bea", "AGREED", "WALL", WALL, 10, 650, 0),
        ("cyd", "AGREED", "WALL", WALL + 2 * SECOND, 10, 650, 0),
        ("cyd", "SAFE", "WALL", WALL + SECOND, 5, 4_000_000, 3),
    ]


# ---------------------------------------------------------------------- message by message


def each_delivery(rows: list[ev.Event]) -> Iterator[tuple[ev.Deliver, ev.Accepted]]:
    """Every message of every delivery, with the submission that it came from."""
    submits: dict[tuple[str, int, int], ev.Accepted] = {}
    for row in rows:
        if isinstance(row, ev.Accepted):
            submits |= {
                (row.member, row.incarnation, n): row for n in range(row.first, row.last + 1)
            }
        elif isinstance(row, ev.Deliver):
            for number in range(row.first, row.last + 1):
                yield row, submits[row.sender, row.sender_incarnation, number]


def percentile(values: list[int], part: float) -> float:
    """With linear interpolation between the two nearest."""
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def test_simulated_latencies_are_those_of_each_message(
    groups: list[GroupTables], runs: dict[str, list[ev.Event]]
) -> None:
    taken: dict[tuple[Any, ...], list[int]] = {}
    for run, rows in runs.items():
        for delivery, submission in each_delivery(rows):
            size = submission.size / (submission.last - submission.first + 1)
            limit = min((limit for limit in SIZES if size <= limit), default=None)
            own = (delivery.member, delivery.incarnation) == (
                delivery.sender,
                delivery.sender_incarnation,
            )
            key = (run, "SELF" if own else "OTHERS", delivery.service, limit)
            assert delivery.sim_ns is not None
            assert submission.sim_ns is not None
            taken.setdefault(key, []).append(delivery.sim_ns - submission.sim_ns)
    found = [row for row in each(latency, groups) if row.run in runs]
    told: dict[tuple[Any, ...], Any] = {(r.run, r.scope, r.service, r.size_max): r for r in found}
    assert told.keys() == taken.keys()
    assert sum(map(len, taken.values())) > 1000
    for key, values in taken.items():
        row, whole = told[key], sorted(value // 1000 for value in values)
        assert (row.count, row.max_ns) == (len(values), max(values))
        for name, part in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)):
            assert getattr(row, name) == pytest.approx(percentile(whole, part) * 1000, abs=1), (
                key,
                name,
            )


def test_latencies_over_time_are_those_of_each_message_in_its_bucket(
    groups: list[GroupTables], runs: dict[str, list[ev.Event]]
) -> None:
    taken: dict[tuple[Any, ...], list[int]] = {}
    for run, rows in runs.items():
        for delivery, submission in each_delivery(rows):
            assert delivery.sim_ns is not None
            assert submission.sim_ns is not None
            own = delivery.member == delivery.sender
            bucket = delivery.sim_ns // (100 * MS) * (100 * MS)
            key = (run, "SELF" if own else "OTHERS", delivery.service, "SIM", bucket)
            taken.setdefault(key, []).append(delivery.sim_ns - submission.sim_ns)
    found = [r for group in groups for r in latency_over_time(group, 100 * MS) if r.run in runs]
    told: dict[tuple[Any, ...], Any] = {
        (r.run, r.scope, r.service, r.clock, r.from_ns): r for r in found
    }
    assert told.keys() == taken.keys()
    assert len({key[-1] for key in taken}) > 5
    for key, values in taken.items():
        row, whole = told[key], sorted(value // 1000 for value in values)
        assert (row.count, row.max_ns) == (len(values), max(values))
        assert row.p99_ns == pytest.approx(percentile(whole, 0.99) * 1000, abs=1), key


def test_simulated_throughput_is_that_of_each_message(
    groups: list[GroupTables], runs: dict[str, list[ev.Event]]
) -> None:
    messages: Counter[tuple[Any, ...]] = Counter()
    size: defaultdict[tuple[Any, ...], float] = defaultdict(float)
    for run, rows in runs.items():
        for delivery, submission in each_delivery(rows):
            assert delivery.sim_ns is not None
            bucket = delivery.sim_ns // (100 * MS) * (100 * MS)
            key = (run, delivery.member, delivery.incarnation, delivery.service, bucket)
            messages[key] += 1
            size[key] += submission.size / (submission.last - submission.first + 1)
    found = [row for group in groups for row in throughput(group, 100 * MS) if row.run in runs]
    told = {(r.run, r.member, r.incarnation, r.service, r.from_ns): r for r in found}
    assert {key: row.messages for key, row in told.items()} == dict(messages)
    assert {key: row.bytes for key, row in told.items()} == {k: round(v) for k, v in size.items()}
    assert not any(row.unsized for row in told.values())
