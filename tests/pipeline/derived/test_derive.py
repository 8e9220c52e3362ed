"""Derived tables: what journals show, replaced where it changed, whole whatever happens."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import polars
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from tests.pipeline.daemons import PACKAGES
from tests.pipeline.made import MS, WALL, Hand
from tests.pipeline.orders import NEXT_DAY, orders, stock, written_to

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.derived import derive as derive_module
from phalanx.pipeline.derived.derive import DeriveResult
from phalanx.pipeline.derived.derived_tables import DERIVED
from phalanx.pipeline.engine import run_plan
from phalanx.pipeline.group_tables import read_groups
from phalanx.pipeline.history.instant import Instant
from phalanx.pipeline.history.removals import removals
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake import lake_transaction
from phalanx.pipeline.lake.lake import Lake, LakeBusy
from phalanx.pipeline.lake.lake_maintenance import compact, retain, vacuum
from phalanx.pipeline.lake.lake_schema import EPOCH
from phalanx.pipeline.lake.lake_transaction import LakeTransaction, change
from phalanx.pipeline.measures.detector_quality import detector
from phalanx.pipeline.measures.links import links
from phalanx.pipeline.time_window import TimeWindow
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import write_journals
from phalanx.sim.run import run

Rows = dict[str, list[dict[str, Any]]]
ZERO = datetime(2027, 1, 15, 8, tzinfo=UTC)


def derive(lake: Lake, **given: Any) -> DeriveResult:
    """All tables but the verdicts, which have tests of their own."""
    return derive_module.derive(lake, **{"names": tuple(DERIVED)} | given)


def after(ms: float) -> datetime:
    return ZERO + timedelta(milliseconds=ms)


def instant(ms: float) -> Instant:
    return Instant(WALL + int(ms * MS), False)


def derived(lake: Path, version: int | None = None) -> Rows:
    """All derived tables; each row once, and in the partition of its day."""
    snapshot = Lake(lake).snapshot(version)
    found: Rows = {}
    for name, table in DERIVED.items():
        rows = [
            row | {"file day": file.day}
            for file in snapshot.files(name)
            for row in arrow().parquet.read_table(file.path, partitioning=None).to_pylist()
        ]
        for row in rows:
            assert row.pop("file day") == (row["day"].isoformat() if table.begin else "")
        keys = [tuple(row[c] for c in ("cluster", "run", "group", *table.key)) for row in rows]
        assert len(set(keys)) == len(keys), f"{name} has a row twice"
        found[name] = [row for _, row in sorted(zip(keys, rows, strict=True), key=lambda p: p[0])]
    return found


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written_to(tmp_path_factory.mktemp("journals"), [*orders(), *stock()])


@pytest.fixture(scope="module")
def ingested(journals: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("ingested") / "lake"
    ingest(journals, lake)
    return lake


@pytest.fixture
def lake(ingested: Path, tmp_path: Path) -> Path:
    """A lake of all journals, of which nothing was derived."""
    return Path(shutil.copytree(ingested, tmp_path / "lake"))


@pytest.fixture(scope="module")
def whole(ingested: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What all journals show."""
    lake = tmp_path_factory.mktemp("whole") / "lake"
    shutil.copytree(ingested, lake)
    derive(Lake(lake))
    return derived(lake)


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


# ---------------------------------------------------------------------- what the tables hold


def test_view_intervals_and_memberships_say_who_was_in_which_view_when(lake: Path) -> None:
    derive(Lake(lake), group="orders")
    found = derived(lake)
    views = columns(found["view_intervals"], "member", "incarnation", "view", "from_at", "to_at")
    day = timedelta(milliseconds=NEXT_DAY)
    assert sorted(views) == [
        ("ada", 1, "v1", after(0), after(121_500)),
        ("ada", 1, "v2", after(121_500), after(3000) + day),
        ("ada", 1, "v3", after(3000) + day, after(10_000) + day),
        ("bea", 1, "v1", after(0), after(121_700)),
        ("bea", 1, "v2", after(121_700), after(3100) + day),
        ("bea", 1, "v3", after(3100) + day, after(5000) + day),
        ("cyd", 1, "v1", after(0), after(119_000)),
        ("cyd", 2, "v0", after(-1000) + day, after(3050) + day),
        ("cyd", 2, "v3", after(3050) + day, after(3050) + day),
    ]
    ends = Counter(row["end"] for row in found["view_intervals"])
    assert ends == {"VIEW": 5, "STOP": 1, "OPEN": 3}
    members = polars.read_delta(str(lake / "views")).join(
        polars.read_delta(str(lake / "view_intervals")).drop("joins", "removals"),
        on=["cluster", "run", "group", "view", "members_key"],
    )
    assert members.height == len(views), "each has its members"
    held = [row for row in found["memberships"] if (row["member"], row["target"]) == ("bea", "cyd")]
    known = ("target_incarnation", "first_view", "next_view", "to_at", "back_incarnation")
    assert columns(held, *known, "back_at") == [
        (1, "v1", "v2", after(121_700), 2, after(3100) + day),
        (2, "v3", None, after(5000) + day, None, None),
    ]


def test_changes_and_removals_say_how_long_and_why(lake: Path) -> None:
    derive(Lake(lake), group="orders")
    found = derived(lake)
    took = columns(found["changes"], "member", "view", "cause", "took_ns", "lost")
    assert sorted(took) == [
        ("ada", "v2", "removal", 500 * MS, ["cyd.1"]),
        ("ada", "v3", "join", 3000 * MS, []),
        ("bea", "v2", "removal", 600 * MS, ["cyd.1"]),
        ("bea", "v3", "join", 2600 * MS, []),
        ("cyd", "v3", "join", 3050 * MS, []),
    ]
    known = ("member", "target", "at", "fate", "evidence", "suspicion_ns", "agreement_ns")
    assert sorted(columns(found["removals"], *known, "back_view")) == [
        *[("ada", "cyd", after(121_500), "ENDED", "SILENCE", 400 * MS, 100 * MS, "v3")],
        *[("bea", "cyd", after(121_700), "ENDED", "SILENCE", 320 * MS, 280 * MS, "v3")],
    ]
    story = columns(found["removal_evidence"], "member", "kind", "at", "text")
    assert [row for row in story if row[0] == "bea"] == [
        ("bea", "SUSPECT", after(121_100), "suspects cyd.1: no packets received"),
        ("bea", "STEP", after(121_420), "proposes to remove cyd.1 (FA)"),
        ("bea", "STEP", after(121_650), "closes the view (CLOSED)"),
        ("bea", "VIEW", after(121_700), "installs v2 of ada.1, bea.1"),
    ]


def test_suspicions_and_detectors_are_those_of_measures(lake: Path, journals: list[Path]) -> None:
    derive(Lake(lake))
    found = derived(lake)
    wrong = [row for row in found["suspicions"] if row["kind"] == "MISTAKE"]
    assert columns(wrong, "member", "target", "from_at", "lasted_ns") == [
        ("ada", "bea", after(10_000), 400 * MS),
        ("ada", "bea", after(20_000), 100 * MS),
        ("ada", "bea", after(30_000), 300 * MS),
        ("bea", "cyd", after(40_000), 500 * MS),
    ]
    expected = [msgspec.structs.asdict(r) for g in read_groups(journals) for r in detector(g)]
    assert found["detector"] == expected


def test_latency_and_throughput_are_by_service_and_bucket_of_time(lake: Path) -> None:
    derive(Lake(lake), names=["latency", "throughput"], bucket_ns=60_000 * MS)
    found = derived(lake)
    shown = [row for row in found["latency"] if row["group"] == "orders"]
    known = ("from_at", "scope", "service", "count", "p50_ns", "max_ns")
    assert sorted(columns(shown, *known)) == [
        (after(0), "OTHERS", "AGREED", 200, 20 * MS, 30 * MS),
        (after(0), "OTHERS", "BASIC", 5, 20 * MS, 20 * MS),
        (after(0), "OTHERS", "SAFE", 20, 45 * MS, 50 * MS),
        (after(0), "SELF", "AGREED", 100, 2 * MS, 2 * MS),
        (after(0), "SELF", "BASIC", 5, 1 * MS, 1 * MS),
        (after(0), "SELF", "SAFE", 10, 20 * MS, 20 * MS),
        (after(60_000), "OTHERS", "AGREED", 20, (300 + 7) * MS // 2, 300 * MS),
        (after(60_000), "SELF", "AGREED", 10, 1 * MS, 1 * MS),
    ]
    others = [row for row in found["latency"] if row["group"] == "stock"]
    assert columns(others, "scope", "count") == [("SELF", 3)], "eve's clock is another"
    rows = [row for row in found["throughput"] if row["member"] == "cyd"]
    assert sorted(columns(rows, "from_at", "service", "messages", "bytes")) == [
        (after(0), "AGREED", 100, 1000),
        (after(0), "BASIC", 5, 100),
        (after(0), "SAFE", 10, 100),
        (after(60_000), "AGREED", 10, 100),
    ]
    assert {row["bucket_ns"] for rows in found.values() for row in rows} == {60_000 * MS}


def test_links_are_counted_by_view_and_sum_to_those_of_measures(
    lake: Path, journals: list[Path]
) -> None:
    derive(Lake(lake), names=["links"])
    found = derived(lake)["links"]
    known = ("peer", "member", "view", "at", "frames", "missed", "loss")
    assert sorted(columns(found, *known)) == [
        ("ada", "bea", "v1", after(121_650), 1000, 0, 0.0),
        ("bea", "ada", "v1", after(121_450), 1000, 10, 0.01),
        ("cyd", "ada", "v1", after(121_450), 500, 100, 0.2),
        ("cyd", "ada", "v3", after(NEXT_DAY + 9000), 100, 50, 0.5),
        ("cyd", "bea", "v1", after(121_650), 400, 8, 0.02),
    ]
    summed: Counter[tuple[str, int, str]] = Counter()
    for row in found:
        for count in ("frames", "missed"):
            summed[row["peer"], row["peer_incarnation"], row["member"] + count] += row[count]
    for group in read_groups(journals):
        for one in links(group):
            link = one.peer, one.peer_incarnation
            assert summed[*link, one.member + "frames"] == one.frames
            assert summed[*link, one.member + "missed"] == one.missed


def test_simulated_time_counts_from_1970(tmp_path: Path) -> None:
    for seed in (1, 6):
        write_journals(run(scenario_of(seed, 3, 4, "membership")), tmp_path / "raw")
    ingest([tmp_path / "raw"], tmp_path / "lake")
    derive(Lake(tmp_path / "lake"))
    groups = read_groups([tmp_path / "raw"])
    proofs = [proof for group in groups for one in removals(group) for proof in one.chain]
    expected = [
        (proof.member, proof.lseq, EPOCH + timedelta(microseconds=(proof.sim_ns or 0) // 1000))
        for proof in proofs
    ]
    found = derived(tmp_path / "lake")
    assert sorted(columns(found["removal_evidence"], "member", "lseq", "at")) == sorted(expected)
    assert expected
    assert {row["clock"] for row in found["latency"]} == {"SIM"}
    assert len({row["run"] for row in found["view_intervals"]}) == 2


# ---------------------------------------------------------------------- again, and in parts


def test_a_second_derivation_changes_nothing(lake: Path) -> None:
    first = derive(Lake(lake))
    assert first.version == 2
    assert {name: count.replaced > 0 for name, count in first.tables.items()} == dict.fromkeys(
        DERIVED, True
    )
    before = derived(lake)
    again = derive(Lake(lake))
    assert (again.version, again.groups) == (2, 2)
    assert [count.replaced for count in again.tables.values()] == [0] * len(DERIVED)
    assert [c.rows for c in again.tables.values()] == [c.rows for c in first.tables.values()]
    assert compact(Lake(lake)).version == 2, "no partition has two files"
    vacuum(Lake(lake))
    assert derive(Lake(lake)).version == 2
    assert derived(lake) == before


@pytest.mark.parametrize("cut", [1, 5])
def test_new_journals_replace_what_they_touch(
    journals: list[Path], whole: Rows, tmp_path: Path, cut: int
) -> None:
    """Whatever was there when tables were derived before, they are those of a new lake."""
    lake = tmp_path / "lake"
    for some in (journals[:cut], journals):
        ingest(some, lake)
        derive(Lake(lake))
    assert derived(lake) == whole


def test_groups_and_days_that_did_not_change_keep_their_files(
    journals: list[Path], tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    ingest([path for path in journals if "cyd-" not in path.name], lake)
    derive(Lake(lake))
    before = {file.path for file in Lake(lake).snapshot().files("throughput")}
    ingest(journals, lake)
    derive(Lake(lake))
    kept = before & {file.path for file in Lake(lake).snapshot().files("throughput")}
    assert {Path(path).name for path in before - kept} != set()
    groups = {file.group for file in Lake(lake).snapshot().files("throughput") if file.path in kept}
    assert groups == {"stock"}


@pytest.mark.parametrize("ms", [30_000, 121_600, NEXT_DAY + 3050])
def test_two_windows_make_the_tables_of_the_whole(lake: Path, whole: Rows, ms: float) -> None:
    """An interval that crosses the border has its true ends, and is there once."""
    there = Lake(lake)
    derive(there, window=TimeWindow(until=instant(ms)))
    derive(there, window=TimeWindow(since=instant(ms)))
    assert derived(lake) == whole


def test_a_window_leaves_rows_outside_as_they_are(
    journals: list[Path], whole: Rows, tmp_path: Path
) -> None:
    """So an operator may delete old rows of journals and keep what was derived from them."""
    lake = tmp_path / "lake"
    early = [path for path in journals if "cyd" not in path.name]
    ingest(early, lake)
    derive(Lake(lake))
    before = derived(lake)
    ingest(journals, lake)
    derive(Lake(lake), window=TimeWindow(since=instant(NEXT_DAY - 5000)))
    found = derived(lake)
    old = [row for row in found["latency"] if row["from_at"] < after(NEXT_DAY - 5000)]
    assert old == [row for row in before["latency"] if row["from_at"] < after(NEXT_DAY - 5000)]
    assert old != [row for row in whole["latency"] if row["from_at"] < after(NEXT_DAY - 5000)]
    fresh = [row for row in found["view_intervals"] if row["to_at"] > after(NEXT_DAY - 5000)]
    assert fresh == [
        row for row in whole["view_intervals"] if row["to_at"] > after(NEXT_DAY - 5000)
    ]
    assert ("cyd", 2) in columns(fresh, "member", "incarnation")
    assert ("cyd", 1) not in columns(found["view_intervals"], "member", "incarnation")


def test_an_interval_that_went_on_replaces_the_one_that_was_open(tmp_path: Path) -> None:
    """Its former end lies before the window: it is found again by its key."""
    ada = orders()[0]
    rows = list(ada.rows)
    ada.rows = rows[:10]
    files = written_to(tmp_path / "j", [ada])
    lake = tmp_path / "lake"
    ingest(files, lake)
    derive(Lake(lake))
    (row,) = derived(lake)["view_intervals"]
    assert (row["end"], row["to_at"] < after(100_000)) == ("OPEN", True)
    ada.rows = rows
    ingest(written_to(tmp_path / "j", [ada]), lake)
    derive(Lake(lake), window=TimeWindow(since=instant(100_000)))
    views = columns(derived(lake)["view_intervals"], "view", "end", "to_at")
    assert views[0] == ("v1", "VIEW", after(121_500))
    assert [view for view, _, _ in views] == ["v1", "v2", "v3"]


def test_one_group_and_some_tables_leave_the_others_alone(lake: Path) -> None:
    done = derive(Lake(lake), group="stock", names=["view_intervals"])
    assert (done.groups, list(done.tables)) == (1, ["view_intervals"])
    found = derived(lake)
    assert {row["group"] for row in found["view_intervals"]} == {"stock"}
    assert [name for name, rows in found.items() if rows] == ["view_intervals"]
    derive(Lake(lake), group="orders", names=["view_intervals"])
    assert {row["group"] for row in derived(lake)["view_intervals"]} == {"stock", "orders"}


def test_a_group_whose_journals_were_deleted_keeps_its_derived_rows(lake: Path) -> None:
    derive(Lake(lake))
    before = derived(lake)
    retain(Lake(lake), datetime(2100, 1, 1, tzinfo=UTC))
    done = derive(Lake(lake))
    assert (done.groups, done.version) == (0, 3)
    assert derived(lake) == before


def test_tables_of_an_empty_lake_exist_and_are_empty(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    assert derive(lake).version == 1
    assert derived(tmp_path / "lake") == {name: [] for name in DERIVED}
    assert polars.read_delta(str(tmp_path / "lake" / "latency")).height == 0


def test_two_runs_of_one_group_share_a_table_and_are_replaced_apart(tmp_path: Path) -> None:
    one, two = orders(), orders()
    for hand in two:
        hand.run = "second"
        hand.rows = [msgspec.structs.replace(row, run="second") for row in hand.rows]
    ingest(written_to(tmp_path / "one", one), tmp_path / "lake")
    derive(Lake(tmp_path / "lake"))
    before = derived(tmp_path / "lake")
    for hand in two:
        hand.group = "orders"
    files = written_to(tmp_path / "two", two, offset=7)
    ingest(files, tmp_path / "lake")
    derive(Lake(tmp_path / "lake"))
    found = derived(tmp_path / "lake")
    for name, rows in found.items():
        assert [row for row in rows if row["run"] == "c"] == before[name]
        assert len(rows) == 2 * len(before[name]), name


@pytest.mark.parametrize("group", ["", "ops/ü=1%2F"])
def test_a_group_may_have_any_name(tmp_path: Path, group: str) -> None:
    ada = Hand("ada.1", "r", group).view(0, "v1", "ada.1 bea.1").view(5, "v2", "ada.1")
    ingest(written_to(tmp_path / "j", [ada]), tmp_path / "lake")
    derive(Lake(tmp_path / "lake"))
    assert derive(Lake(tmp_path / "lake")).version == 2, "it finds its rows again"
    assert columns(derived(tmp_path / "lake")["changes"], "group", "view") == [(group, "v2")]


# ---------------------------------------------------------------------- other processes, damage


DYING = """
import os, sys
from phalanx.pipeline.derived.derive import derive
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake.lake_transaction import LakeTransaction
apply, left = LakeTransaction._apply, [int(sys.argv[2])]
def dying(self, *given):
    left[0] -= 1
    if not left[0]:
        os._exit(9)
    return apply(self, *given)
LakeTransaction._apply = dying
derive(Lake(sys.argv[1]), names=sys.argv[3].split(","))
"""


@pytest.mark.parametrize("moment", [2, 11])
def test_a_derivation_that_dies_between_two_tables_leaves_the_lake_as_it_was(
    lake: Path, moment: int
) -> None:
    """It dies at its commit of this number; the last, 11, is that to `versions`."""
    derive(Lake(lake), group="stock")
    before = derived(lake)
    died = subprocess.run(
        [sys.executable, "-c", DYING, str(lake), str(moment), ",".join(DERIVED)],
        env=os.environ | {"PYTHONPATH": str(PACKAGES)},
        timeout=300,
        check=False,
        capture_output=True,
    )
    assert died.returncode == 9, died.stderr
    assert derived(lake) == before
    assert Lake(lake).snapshot().version == 2
    derive(Lake(lake))
    after_it = derived(lake)
    assert after_it != before
    for name in DERIVED:
        seen = polars.read_delta(str(lake / name)).height
        assert seen == len(after_it[name]), "also for a reader without `versions`"


def test_a_derivation_waits_for_another_writer_up_to_a_bound(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derive_module, "WAIT_SECONDS", 0.0)
    with change(Lake(lake), "other"), pytest.raises(LakeBusy, match="another process writes"):
        derive(Lake(lake))
    monkeypatch.setattr(derive_module, "WAIT_SECONDS", 30.0)
    ready, done = threading.Event(), threading.Event()

    def other() -> None:
        with change(Lake(lake), "other"):
            ready.set()
            done.wait(20)

    writer = threading.Thread(target=other)
    writer.start()
    assert ready.wait(20)
    threading.Timer(0.3, done.set).start()
    assert derive(Lake(lake)).version == 2
    writer.join(20)
    assert done.is_set(), "it waited"


@pytest.fixture
def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers on machines whose locks do not reach each other."""

    @contextmanager
    def free(place: Path) -> Iterator[None]:
        yield

    monkeypatch.setattr(lake_transaction, "_locked", free)
    monkeypatch.setattr(lake_transaction, "_is_mine", lambda note: False)


@pytest.mark.usefixtures("unlocked")
@pytest.mark.parametrize("moment", [1, 11])
def test_of_two_derivations_at_once_the_second_begins_again(
    journals: list[Path],
    whole: Rows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: int,
) -> None:
    """While one makes its commit of this number, more journals are ingested and derived."""
    lake = tmp_path / "lake"
    ingest(journals[:2], lake)
    commits = 0
    apply = LakeTransaction._apply

    def interrupted(self: LakeTransaction, *given: Any) -> int:
        nonlocal commits
        commits += 1
        if commits == moment:
            monkeypatch.setattr(LakeTransaction, "_apply", apply)
            ingest(journals, lake)
            derive(Lake(lake))
        return apply(self, *given)

    monkeypatch.setattr(LakeTransaction, "_apply", interrupted)
    derive(Lake(lake))
    assert commits == moment, "it was interrupted"
    assert derived(lake) == whole


def test_rows_that_became_old_while_they_were_computed_are_not_published(
    journals: list[Path], whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process derives newer rows between the reading and the writing."""
    lake = tmp_path / "lake"
    ingest(journals[:1], lake)
    plans = 0

    def slow(*given: Any, **more: Any) -> list[Any]:
        nonlocal plans
        plans += 1
        found = list(run_plan(*given, **more))
        if plans == 1:
            ingest(journals, lake)
            derive(Lake(lake))
        return found

    monkeypatch.setattr(derive_module, "run_plan", slow)
    derive(Lake(lake))
    assert plans == 3, "the first, the other, and the first again"
    assert derived(lake) == whole


def test_a_table_of_another_program_in_the_place_of_a_derived_one_is_refused(lake: Path) -> None:
    write_deltalake(str(lake / "latency"), arrow().table({"n": [1]}))
    before = Lake(lake).snapshot()
    with pytest.raises(PipelineError, match="latency: a Delta table of another program"):
        derive(Lake(lake))
    assert Lake(lake).snapshot().version == before.version
    assert polars.read_delta(str(lake / "latency"))["n"].to_list() == [1]
    derive(Lake(lake), names=["links"])
    assert Lake(lake).snapshot().version == before.version + 1


def test_a_derived_table_that_does_not_fit_is_refused(lake: Path) -> None:
    pa = arrow()
    Lake(lake).replace("links", pa.table({"group": ["orders"], "frames": ["many"]}))
    with pytest.raises(PipelineError, match="column 'frames' is string, not int64"):
        derive(Lake(lake))
    Lake(lake).replace("changes", pa.table({"group": ["orders"], "view": ["v1"]}))
    with pytest.raises(
        PipelineError, match=r"changes: partitioned by \[\], not by \['group', 'day'\]"
    ):
        derive(Lake(lake), names=["changes"])
    assert Lake(lake).snapshot().version == 3


def test_a_table_gets_the_columns_that_a_later_version_has(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DERIVED["links"]

    class Earlier(type(table)):  # type: ignore[misc]
        """Without a column that this version has."""

        @property
        def schema(self) -> Any:
            return table.schema.remove(table.schema.get_field_index("asked"))

    with monkeypatch.context() as patch:
        patch.setitem(DERIVED, "links", Earlier(*table))
        derive(Lake(lake), names=["links"])
    assert "asked" not in derived(lake)["links"][0]
    derive(Lake(lake), names=["links"])
    assert "asked" in polars.read_delta(str(lake / "links")).columns
    assert [row["asked"] for row in derived(lake)["links"]] == [
        row["missed"] for row in derived(lake)["links"]
    ]


def test_spark_gives_the_same_tables(spark: SparkSession, lake: Path) -> None:
    derive(Lake(lake), engine="spark")
    on_spark = derived(lake)
    assert derive(Lake(lake), engine="local").version == 2
    assert derived(lake) == on_spark
