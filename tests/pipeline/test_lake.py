"""A lake of Delta tables: versions, writers that meet, other programs that read it, maintenance."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars
import pytest
from bench.bench_live_ingest import measure
from deltalake import DeltaTable, write_deltalake
from tests.journal.journal_folder import MS, header, keep, row, rows, segment
from tests.pipeline.lakes import held, written
from tests.verify.trace_builder import odyssey

from phalanx.errors import PipelineError
from phalanx.journal import schema as ev
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.blocks import rows_block
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline.group_tables import read_groups
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake import lake_schema, lake_transaction
from phalanx.pipeline.lake.lake import Lake, LakeConflict, tables_in
from phalanx.pipeline.lake.lake_groups import lake_groups
from phalanx.pipeline.lake.lake_maintenance import compact, info, retain, vacuum
from phalanx.pipeline.lake.lake_transaction import LakeTransaction, change
from phalanx.pipeline.schemas import EVENTS

DAY_NS = 86_400 * 10**9
CURRENT_SCHEMA = lake_schema.lake_schema
NOON_NS = 1_767_268_800 * 10**9
"""2026-01-01 12:00 UTC."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journals of five members."""
    return keep(tmp_path_factory.mktemp("fleet"), odyssey().rows)


def view(number: int, members: list[str], **given: Any) -> ev.Event:
    common: dict[str, Any] = {"run": "r", "profile": "T", "group": "g", "member": "ada"}
    common |= {"incarnation": 1, "lseq": number, "step": number, "t_ns": number * MS}
    own = {"view": "1.0:a", "joins": 1, "removals": 0, "context": "c", "cause": "boot"}
    ones = [1] * len(members)
    return ev.ViewInstalled(**common | own | given, members=members, member_incarnations=ones)


def check_each_row_is_there_once(lake: Path) -> None:
    for table in EVENTS:
        found = Lake(lake).snapshot().read(table, columns=["journal", "lseq"]).to_pylist()
        assert len({(one["journal"], one["lseq"]) for one in found}) == len(found), table


# ---------------------------------------------------------------------- reading


def test_groups_of_a_lake_are_those_of_the_journals(fleet: Path, tmp_path: Path) -> None:
    ingest([fleet], tmp_path / "lake")
    (expected,) = read_groups([fleet])
    (found,) = lake_groups(Lake(tmp_path / "lake").snapshot())
    assert (found.key, found.journals) == (expected.key, expected.journals)
    for table in EVENTS:
        assert found[table].schema == expected[table].schema
        order = [("journal", "ascending"), ("lseq", "ascending")]
        assert found[table].sort_by(order) == expected[table].sort_by(order), table


def test_the_members_of_a_view_are_stored_once(tmp_path: Path) -> None:
    """Three members install one view; a fourth names others, and that stays visible."""
    for member in ("ada", "bea", "cyd", "dov"):
        names = ["ada", "bea", "cyd", "eve" if member == "dov" else "dov"]
        events = [view(1, names, member=member)]
        segment(tmp_path, events, member=member, journal=f"{member:0>32}")
        ingest([tmp_path], tmp_path / "lake")
    views = Lake(tmp_path / "lake").snapshot().read("views").to_pylist()
    assert sorted(one["members"][-1] for one in views) == ["dov", "eve"]
    assert held(tmp_path / "lake") == written(tmp_path)


def test_rows_have_an_instant_and_the_day_that_their_segment_began(tmp_path: Path) -> None:
    late = {"wall_ns": NOON_NS, "mono_ns": 5 * MS}
    segment(tmp_path, [row(1, t_ns=5 * MS), row(2, t_ns=5 * MS + DAY_NS)], **late)
    ingest([tmp_path], tmp_path / "lake")
    found = DeltaTable(str(tmp_path / "lake" / "stable")).to_pyarrow_table().to_pylist()
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert [one["at"] for one in found] == [noon, noon + timedelta(days=1)]
    assert {one["day"].isoformat() for one in found} == {"2026-01-01"}


@pytest.mark.parametrize("wall_ns", [-(1 << 62), 1 << 62, (1 << 63) - 1])
def test_a_clock_that_no_calendar_has_gives_no_instant(tmp_path: Path, wall_ns: int) -> None:
    segment(tmp_path, rows(1, 3), wall_ns=wall_ns, mono_ns=0)
    ingest([tmp_path], tmp_path / "lake")
    assert held(tmp_path / "lake") == written(tmp_path)


@pytest.mark.parametrize("group", ["", "a b", "ops/ü=1%2F", "__HIVE_DEFAULT_PARTITION__"])
def test_a_group_may_have_any_name(tmp_path: Path, group: str) -> None:
    events = [msgspec.structs.replace(one, group=group) for one in rows(1, 3)]
    path = segment(tmp_path, events, group=group)
    ingest([path], tmp_path / "lake")
    path.write_bytes(path.read_bytes() + rows_block([row(4, group=group)]))
    ingest([path], tmp_path / "lake")
    compact(Lake(tmp_path / "lake"))
    assert held(tmp_path / "lake") == written(path)
    (tables,) = lake_groups(Lake(tmp_path / "lake").snapshot(), groups=[group])
    assert tables["stable"].num_rows == 4


@pytest.mark.parametrize("name", ["a b", "100%", "#1?", "[x]*", "é{}", "a=b:c"])
def test_a_lake_may_lie_in_a_folder_of_any_name(fleet: Path, tmp_path: Path, name: str) -> None:
    """Also behind a link, and under a path that is not absolute."""
    (tmp_path / "real").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "real")
    lake = tmp_path / name / name
    files = sorted(fleet.glob("*.phj"))
    for some in (files[:2], files[2:]):
        ingest(some, lake)
    compact(Lake(tmp_path / "real" / name))
    vacuum(Lake(lake))
    assert held(lake) == written(fleet)


def test_a_path_that_the_delta_library_cannot_use_is_refused(fleet: Path, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"100%20: the Delta library cannot use a path with %"):
        ingest([fleet], tmp_path / "100%20")
    assert list(tmp_path.iterdir()) == []


def test_columns_that_a_later_version_has_are_added_to_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment(tmp_path, rows(1, 3))
    with monkeypatch.context() as patch:
        for module in (lake_schema, lake_transaction):
            patch.setattr(module, "lake_schema", earlier_schema)
        ingest([path], tmp_path / "lake")
    fields = DeltaTable(str(tmp_path / "lake" / "stable")).schema().fields
    assert not {"at", "members"} & {field.name for field in fields}
    path.write_bytes(path.read_bytes() + rows_block(rows(4, 5)))
    ingest([path], tmp_path / "lake")
    compact(Lake(tmp_path / "lake"))
    assert held(tmp_path / "lake") == written(path)
    found = polars.read_delta(str(tmp_path / "lake" / "stable"))
    assert sorted(found["at"].is_null().to_list()) == [False, False, True, True, True]


def earlier_schema(table: str) -> Any:
    """Without a column that events did not always have."""
    found = CURRENT_SCHEMA(table)
    fields = [field for field in found if field.name not in ("at", "members")]
    return arrow().schema(fields if table == "stable" else list(found))


def test_duckdb_and_polars_read_the_tables_as_they_are(fleet: Path, tmp_path: Path) -> None:
    files = sorted(fleet.glob("*.phj"))
    for path in files:
        ingest([path], tmp_path / "lake")
    expected = written(fleet)
    with duckdb.connect() as database:
        dataset = DeltaTable(str(tmp_path / "lake" / "deliver")).to_pyarrow_dataset()
        database.register("deliver", dataset)
        ask = 'select count(*), count(distinct (journal, lseq)), min("at") from deliver'
        rows, distinct, first = database.execute(f"{ask} where \"group\" = 'g'").fetchall()[0]
    assert (rows, distinct) == (len(expected["deliver"]),) * 2
    assert first is not None
    listed = [file.path for file in Lake(tmp_path / "lake").snapshot().files("deliver")]
    ask = 'select count(*), count(distinct day) from read_parquet(?) where "group" = ?'
    assert duckdb.execute(ask, [listed, "g"]).fetchall() == [(rows, 1)]
    frame = polars.scan_delta(str(tmp_path / "lake" / "deliver"))
    some = frame.filter(polars.col("group") == "g").collect()
    assert some.height == rows
    assert some["day"].null_count() == some["at"].null_count() == 0
    joined = polars.read_delta(str(tmp_path / "lake" / "view_installed")).join(
        polars.read_delta(str(tmp_path / "lake" / "views")),
        on=["cluster", "run", "group", "view", "members_key"],
    )
    assert joined.height == len(expected["view_installed"])


# ---------------------------------------------------------------------- what is refused


def test_a_delta_table_of_another_program_is_refused(fleet: Path, tmp_path: Path) -> None:
    pa = arrow()
    table = pa.table({"n": [1, 2]})
    for place in (tmp_path / "table", tmp_path / "warehouse" / "orders"):
        write_deltalake(str(place), table)
    for place in (tmp_path / "table", tmp_path / "warehouse"):
        for use in (lambda p: ingest([fleet], p), Lake):
            with pytest.raises(PipelineError, match="a Delta table of another program") as caught:
                use(place)
            assert caught.value.remedy == "give an empty folder, a new one, or a lake"
    write_deltalake(str(tmp_path / "theirs" / "versions"), table)
    with pytest.raises(PipelineError, match="versions: a Delta table of another program"):
        ingest([fleet], tmp_path / "theirs")
    assert DeltaTable(str(tmp_path / "theirs" / "versions")).version() == 0
    ingest([fleet], tmp_path / "lake")
    shutil.rmtree(tmp_path / "lake" / "deliver")
    for _ in range(2):
        write_deltalake(str(tmp_path / "lake" / "deliver"), table, mode="append")
    with pytest.raises(PipelineError, match="deliver: a Delta table of another program"):
        held(tmp_path / "lake")


def test_a_table_of_another_program_in_the_folder_of_a_lake_is_left_alone(
    fleet: Path, tmp_path: Path
) -> None:
    files = sorted(fleet.glob("*.phj"))
    ingest(files[:2], tmp_path)
    write_deltalake(str(tmp_path / "orders"), arrow().table({"n": [1]}))
    write_deltalake(str(tmp_path / "orders"), arrow().table({"n": [2]}), mode="overwrite")
    ingest(files, tmp_path)
    vacuum(Lake(tmp_path))
    assert held(tmp_path) == written(fleet)
    assert polars.read_delta(str(tmp_path / "orders"), version=0)["n"].to_list() == [1]


@pytest.mark.parametrize("table", ["versions", "segments", "deliver"])
@pytest.mark.parametrize("harm", ["cut", "nonsense", "gone"])
def test_a_damaged_log_is_one_line(fleet: Path, tmp_path: Path, table: str, harm: str) -> None:
    files = sorted(fleet.glob("*.phj"))
    ingest(files[:2], tmp_path / "lake")
    log = tmp_path / "lake" / table / "_delta_log" / f"{1:020}.json"
    if harm == "gone":
        log.unlink()
    else:
        log.write_text(log.read_text()[:-40] if harm == "cut" else "nonsense")
    if (table, harm) == ("versions", "gone"):
        assert Lake(tmp_path / "lake").snapshot().version == 0, "it cannot be told from a new lake"
        return
    problem = f"lake/{table}: cannot be used as a Delta table"
    with pytest.raises(PipelineError, match=problem):
        ingest(files, tmp_path / "lake")
    with pytest.raises(PipelineError, match=problem):
        info(Lake(tmp_path / "lake"))


@pytest.mark.parametrize(
    ("table", "facts", "problem"),
    [
        ("versions", {"lake": 4, "schema": 8}, "versions: format 4 of lakes is newer than 3"),
        ("deliver", {"lake": 3, "schema": 99}, "deliver: schema version 99 is newer than"),
    ],
)
def test_a_lake_that_is_newer_is_refused(
    fleet: Path, tmp_path: Path, table: str, facts: dict[str, int], problem: str
) -> None:
    ingest([fleet], tmp_path / "lake")
    log = tmp_path / "lake" / table / "_delta_log" / f"{0:020}.json"
    before = json.dumps({"lake": 3, "schema": ev.SCHEMA_VERSION})
    quoted = json.dumps(before), json.dumps(json.dumps(facts))
    log.write_text(log.read_text().replace(*quoted))
    with pytest.raises(PipelineError, match=problem) as caught:
        held(tmp_path / "lake")
    assert caught.value.remedy == "use the version of phalanx that wrote it, or a later one"


def test_a_table_with_features_that_we_do_not_read_is_refused(fleet: Path, tmp_path: Path) -> None:
    ingest([fleet], tmp_path / "lake")
    log = tmp_path / "lake" / "deliver" / "_delta_log" / f"{0:020}.json"
    features: dict[str, Any] = {"minReaderVersion": 3, "minWriterVersion": 7}
    features |= {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [{"protocol": features} if "protocol" in line else line for line in lines]
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(PipelineError, match="another program gave this table features"):
        held(tmp_path / "lake")


def test_a_lake_of_manifests_is_refused_with_the_remedy(fleet: Path, tmp_path: Path) -> None:
    (tmp_path / "_manifest").mkdir()
    (tmp_path / "_manifest" / "00000001.json").write_text('{"format": 2}')
    for use in (lambda: ingest([fleet], tmp_path), lambda: Lake(tmp_path)):
        with pytest.raises(PipelineError, match="a lake of format 2 or before") as caught:
            use()
        assert caught.value.remedy == "ingest the journals into a new lake"
    assert [path.name for path in tmp_path.iterdir()] == ["_manifest"]


# ---------------------------------------------------------------------- writers


def test_a_second_writer_on_this_machine_is_refused(fleet: Path, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    refused = pytest.raises(PipelineError, match="another process writes to it now; wait until")
    with change(lake, "first"), refused:
        ingest([fleet], lake.place)
    assert ingest([fleet], lake.place).version == 1


@pytest.fixture
def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers on machines whose locks do not reach each other."""

    @contextmanager
    def free(place: Path) -> Iterator[None]:
        yield

    monkeypatch.setattr(lake_transaction, "_locked", free)
    monkeypatch.setattr(lake_transaction, "_is_mine", lambda note: False)


@pytest.mark.usefixtures("unlocked")
@pytest.mark.parametrize("moment", [1, 2, 7, 13, 14, 15])
def test_of_two_writers_elsewhere_nothing_is_lost_or_doubled(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """The second ingests all while the first is about to make its commit of this number."""
    files = sorted(fleet.glob("*.phj"))
    lake = tmp_path / "lake"
    ingest(files[:1], lake)
    commits = 0
    apply = LakeTransaction._apply

    def interrupted(self: LakeTransaction, *given: Any) -> int:
        nonlocal commits
        commits += 1
        if commits == moment:
            monkeypatch.setattr(LakeTransaction, "_apply", apply)
            ingest(files[2:], lake)
        return apply(self, *given)

    monkeypatch.setattr(LakeTransaction, "_apply", interrupted)
    ingest(files[:4], lake)
    assert commits == moment, "it was interrupted"
    check_each_row_is_there_once(lake)
    assert held(lake) == written(fleet)


@pytest.mark.usefixtures("unlocked")
def test_a_version_is_published_once(fleet: Path, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    rows = arrow().table({"n": [1]})
    with change(lake, "first") as first:
        first.replace("ours", rows)
        assert lake.replace("theirs", rows, what="second") == 1
        with pytest.raises(LakeConflict, match="another process wrote to it at the same time"):
            first.commit()
    assert [(one.version, one.what) for one in lake.versions()] == [(1, "second")]
    assert lake.snapshot().files("ours") == []


def test_derived_tables_are_replaced_whole_or_in_part(tmp_path: Path) -> None:
    pa = arrow()
    lake = Lake.create(tmp_path / "lake")
    first = pa.table({"group": ["a", "a", "b"], "n": [1, 2, 3]})
    assert lake.replace("findings", first) == 1
    assert lake.replace("findings", pa.table({"group": ["a"], "n": [4]}), {"group": "a"}) == 2
    assert lake.replace("findings", first.slice(0, 0), {"group": "b"}) == 3
    assert lake.replace("findings", first.slice(0, 1)) == 4

    def numbers(version: int) -> list[int]:
        return sorted(lake.snapshot(version).read("findings")["n"].to_pylist())

    assert [numbers(version) for version in (1, 2, 3, 4)] == [[1, 2, 3], [3, 4], [4], [1]]
    assert polars.read_delta(str(tmp_path / "lake" / "findings"))["n"].to_list() == [1]
    longer = pa.table({"group": ["c"], "n": [5], "text": ["new"]})
    assert lake.replace("findings", longer, {"group": "c"}) == 5
    compact(lake)
    found = lake.snapshot().read("findings").sort_by("n").to_pylist()
    assert [one["text"] for one in found] == [None, "new"]
    with pytest.raises(PipelineError, match="column 'n' is int64, not string"):
        lake.replace("findings", pa.table({"group": ["c"], "n": ["5"]}))
    for name in ("deliver", "versions", "../x", "Findings"):
        with pytest.raises(PipelineError, match="no name for a derived table"):
            lake.replace(name, first)


# ---------------------------------------------------------------------- maintenance


def live(folder: Path, number: int, count: int, group: str) -> dict[str, Any]:
    """A member whose segment grows by a few rows at a time."""
    whose = {"member": f"m{number}", "group": group, "journal": f"{number:032x}"}
    return whose | {"path": segment(folder, **whose), "rows": count}


def grow(member: dict[str, Any], round_: int) -> None:
    whose = {name: member[name] for name in ("member", "group")}
    count = member["rows"]
    first = round_ * count + 1
    events = [row(number, **whose) for number in range(first, first + count)]
    with member["path"].open("ab") as file:
        file.write(rows_block(events))


def test_live_ingest_adds_each_row_once_and_files_stay_bounded(tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    members = [live(journals, n, 5, f"g{n % 3}") for n in range(9)]
    lake = tmp_path / "lake"
    most = 0
    for round_ in range(20):
        for member in members:
            grow(member, round_)
        assert ingest([journals], lake).rows == 9 * 5
        most = max(most, len(Lake(lake).snapshot().files("stable")))
    assert most <= 3 * 17, "an ingest compacts what it leaves"
    check_each_row_is_there_once(lake)
    assert held(lake) == written(journals)
    compact(Lake(lake))
    vacuum(Lake(lake))
    assert held(lake) == written(journals)
    counts = {table: found.files for table, found in info(Lake(lake)).tables.items()}
    assert {name: n for name, n in counts.items() if n} == {
        "stable": 3,
        "segments": 3,
        "journals": 3,
    }
    assert len(list(lake.glob("stable/*.parquet"))) == 3
    assert len(list(lake.glob("stable/_delta_log/*"))) <= 5


@pytest.mark.slow
def test_a_lake_of_100_live_members_has_at_most_3_times_the_bytes(tmp_path: Path) -> None:
    found = measure(tmp_path, groups=20, members=5, rounds=50)
    assert found["journals"] == 100
    assert found["maintained"]["times_raw"] <= 3.0
    assert found["live_files_after"] <= 20 * (len(EVENTS) + 3)


def test_a_compacted_lake_holds_the_same_rows_in_fewer_files(fleet: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for path in sorted(fleet.glob("*.phj")):
        ingest([path], lake)
    before = held(lake)
    done = compact(Lake(lake))
    assert (done.version, done.files < done.files_before) == (6, True)
    assert len(Lake(lake).snapshot().files("deliver")) == 1
    assert held(lake) == before == written(fleet)
    assert compact(Lake(lake)).version == 6, "nothing is left to do"
    assert len(held(lake, 2)["journals"]) == 2


def test_vacuum_keeps_the_versions_that_were_asked_for(fleet: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for path in sorted(fleet.glob("*.phj"))[:3]:
        ingest([path], lake)
    (lake / "deliver" / "left-by-nobody.parquet").write_bytes(b"x")
    assert vacuum(Lake(lake), timedelta(days=7)).versions == 0
    assert not (lake / "deliver" / "left-by-nobody.parquet").exists()
    assert len(held(lake, 1)["journals"]) == 1
    compact(Lake(lake))
    done = vacuum(Lake(lake))
    assert (done.version, done.versions) == (4, 3)
    assert len(held(lake)["journals"]) == 3
    with pytest.raises(PipelineError, match="no version 3; there are 4 to 4"):
        held(lake, 3)
    ingest([fleet], lake)
    assert held(lake) == written(fleet)
    assert len(held(lake, 4)["journals"]) == 3
    check_heads = {table: DeltaTable(str(lake / table)).version() for table in tables_in(lake)}
    assert set(check_heads) >= {*EVENTS, "journals", "segments", "views"}


def old_and_new(folder: Path) -> None:
    """ada writes a segment on three days, bea only on the first."""
    for number in (1, 2, 3):
        clock = {"wall_ns": NOON_NS + number * DAY_NS, "mono_ns": 0}
        some = [view(9 * number - 8, ["ada", "bea"], view=f"{number}.0:a")]
        some += rows(9 * number - 7, 9 * number)
        file = SegmentFile(folder, header(number=number, **clock))
        file.append(rows_block(some), some)
        file.seal()
        if number == 1:
            bea = {"member": "bea", "journal": "22" * 16}
            events = [row(n, member="bea") for n in range(1, 4)]
            segment(folder, events, **clock, **bea)


def test_retention_deletes_whole_segments_and_journals_count_as_torn(tmp_path: Path) -> None:
    old_and_new(tmp_path)
    lake = tmp_path / "lake"
    ingest([tmp_path], lake)
    cutoff = datetime(2026, 1, 3, tzinfo=UTC)
    done = retain(Lake(lake), cutoff)
    assert (done.version, done.segments, done.rows, done.journals) == (2, 2, 12, 1)
    found = held(lake)
    assert [one["lseq"] for one in found["stable"]] == [*range(11, 19), *range(20, 28)]
    (ada,) = found["journals"]
    assert (ada["member"], ada["torn"], ada["rows"], ada["last"]) == ("ada", 1, 18, 27)
    views = Lake(lake).snapshot().read("views")["view"].to_pylist()
    assert sorted(views) == ["2.0:a", "3.0:a"]
    assert retain(Lake(lake), cutoff).version == 2
    again = ingest([tmp_path], lake)
    assert (again.version, again.segments, again.before) == (2, 0, 4)
    assert held(lake, 1) == written(tmp_path)


def test_simulated_journals_have_no_age(tmp_path: Path) -> None:
    segment(tmp_path, [row(n, sim_ns=n * MS) for n in (1, 2, 3)])
    ingest([tmp_path], tmp_path / "lake")
    assert retain(Lake(tmp_path / "lake"), datetime(2027, 1, 1, tzinfo=UTC)).version == 1
    assert held(tmp_path / "lake") == written(tmp_path)


def test_rows_that_are_added_to_a_deleted_segment_are_taken(tmp_path: Path) -> None:
    old_and_new(tmp_path)
    lake = tmp_path / "lake"
    ingest([tmp_path], lake)
    retain(Lake(lake), datetime(2027, 1, 1, tzinfo=UTC))
    assert held(lake) == {}
    (path,) = tmp_path.glob("*bea*.phj")
    path.write_bytes(path.read_bytes() + rows_block([row(4, member="bea")]))
    assert ingest([tmp_path], lake).rows == 1
    (bea,) = held(lake)["journals"]
    assert (bea["torn"], bea["rows"], bea["last"]) == (1, 1, 4)
