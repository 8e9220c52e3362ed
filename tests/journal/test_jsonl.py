"""Files of events: what is written comes back, and what is damaged says where."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal.any_row import NAMES, NUMBERS, ROWS

from phalanx.errors import EventFileError
from phalanx.journal import jsonl as eventfile
from phalanx.journal import schema as ev

MANIFESTS = st.dictionaries(NAMES, NUMBERS | NAMES | st.none(), max_size=3)


def life(lseq: int) -> ev.Life:
    return ev.Life(
        run="r",
        profile="T",
        group="g",
        member="a",
        incarnation=1,
        lseq=lseq,
        step=1,
        t_ns=1,
        op="START",
    )


@settings(deadline=None)
@given(MANIFESTS, ROWS, st.sampled_from(["x.jsonl", "x.jsonl.gz"]))
def test_rows_of_every_table_come_back_as_they_were(
    manifest: dict[str, Any], rows: list[ev.Event], name: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        eventfile.write(path, manifest, rows)
        assert eventfile.read(path) == (manifest, rows)


def test_the_first_line_is_a_header_and_each_row_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    eventfile.write(path, {"seed": 7}, [life(1), life(2)])
    lines = path.read_text().splitlines()
    assert json.loads(lines[0]) == {"phalanx_events": ev.SCHEMA_VERSION, "manifest": {"seed": 7}}
    assert [json.loads(line)["lseq"] for line in lines[1:]] == [1, 2]
    assert json.loads(lines[1])["table"] == "life"


def test_gz_is_compressed_and_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("x.gz", "y.gz"):
        eventfile.write(tmp_path / name, {}, [life(1)])
    assert (tmp_path / "x.gz").read_bytes() == (tmp_path / "y.gz").read_bytes()
    assert gzip.decompress((tmp_path / "x.gz").read_bytes()).startswith(b'{"phalanx_events"')


HEADER = b'{"phalanx_events":8,"manifest":{}}\n'
FORMER = b'{"phalanx_events":1,"manifest":{}}\n'


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"", 1, "not a file of phalanx events"),
        (b"\x89PNG\r\n", 1, "not a file of phalanx events"),
        (b'{"seed": 3}\n', 1, "not a file of phalanx events"),
        (b"[" * 100_000 + b"\n", 1, "not a file of phalanx events"),
        (b'{"phalanx_events":11,"manifest":{}}\n', 1, "schema version 11 is newer than 10"),
        (b'{"phalanx_events":0,"manifest":{}}\n', 1, "there is no schema version 0"),
        (HEADER + b'{"table":"life"}\n', 2, "not a row of the schema"),
        (FORMER + b'{"table":["life"]}\n', 2, "not a row of the schema"),
        (FORMER + b"{]\n", 2, "a corrupt line"),
        (HEADER + b'{"table":"tea"}\n', 2, "not a row of the schema"),
        (HEADER + b"{]\n", 2, "a corrupt line"),
        (HEADER + b'{"table":"\xff"}\n', 2, "a corrupt line"),
        (HEADER + msgspec.json.encode(life(1)) + b'\n{"table":"li', 3, "the last line is torn"),
    ],
)
def test_a_damaged_file_names_the_line_and_the_problem(
    tmp_path: Path, content: bytes, line: int, problem: str
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(EventFileError, match=problem) as caught:
        eventfile.read(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)


def test_a_compressed_file_that_was_cut_or_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    eventfile.write(path, {}, [life(n) for n in range(1, 200)])
    whole = path.read_bytes()
    flipped = bytes([*whole[:40], whole[40] ^ 0xFF, *whole[41:]])
    for broken in (whole[: len(whole) // 2], flipped, b"not gzip"):
        path.write_bytes(broken)
        with pytest.raises(EventFileError, match="damaged"):
            eventfile.read(path)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(EventFileError, match=r"No such file.*check the path"):
        eventfile.read(tmp_path / "none.jsonl")


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=200))
def test_arbitrary_bytes_are_refused_and_nothing_worse(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        for start in (b"", HEADER, FORMER):
            path.write_bytes(start + content)
            with pytest.raises(EventFileError, match=r"x\.jsonl:[1-9]"):
                eventfile.read(path)


SEND: dict[str, Any] = {
    "table": "sent", "run": "r", "profile": "T", "group": "g", "member": "a", "incarnation": 1,
    "lseq": 1, "step": 1, "t_ns": 1, "first": 1, "last": 1, "service": "SAFE", "view": "v",
    "phase": 0, "frame": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            {"dep_senders": ["b"]},
            "lists of unequal length: dep_senders, dep_incarnations, dep_numbers",
        ),
        (
            {"dep_senders": ["b"], "dep_incarnations": [1], "dep_numbers": [1, 2]},
            "lists of unequal length",
        ),
        ({"first": 3, "last": 2}, "no range of messages: first 3, last 2"),
        ({"first": 0}, "no range of messages: first 0, last 1"),
        ({"lseq": 0}, "rows are numbered from 1, this one 0"),
        (
            {"to": ["a", "b"], "to_incarnations": [1]},
            "lists of unequal length: to, to_incarnations",
        ),
        ({"to_incarnations": [1]}, "lists of unequal length: to, to_incarnations"),
        ({"to_incarnations": []}, "lists of unequal length: to, to_incarnations"),
        ({"last": 2**44 - 1}, "no range of messages: first 1, last 17592186044415"),
    ],
)
def test_columns_that_contradict_each_other_are_refused_with_their_line(
    tmp_path: Path, columns: dict[str, Any], problem: str
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(HEADER + json.dumps(SEND).encode() + b"\n")
    eventfile.read(path)
    path.write_bytes(HEADER + json.dumps(SEND | columns).encode() + b"\n")
    with pytest.raises(EventFileError) as caught:
        eventfile.read(path)
    assert caught.value.line == 2
    assert problem in caught.value.problem


def test_rows_of_before_incarnations_were_told_are_still_read(tmp_path: Path) -> None:
    send = {
        "table": "send", "run": "r", "profile": "T", "group": "g", "node": "a", "inc": 1,
        "lseq": 1, "step": 1, "t_ns": 1, "first": 1, "last": 1, "service": "SAFE", "vid": "v",
        "phase": 0, "frame": 1, "to": ["a"],
    }  # fmt: skip
    install = {
        "table": "view_install", "run": "r", "profile": "T", "group": "g", "node": "a", "inc": 1,
        "lseq": 2, "step": 1, "t_ns": 1, "vid": "v", "joins": 0, "removals": 0, "members": ["a"],
        "member_incs": [1], "context": "c", "cause": "BOOT",
    }  # fmt: skip
    path = tmp_path / "x.jsonl"
    lines = [json.dumps(send).encode(), json.dumps(install).encode()]
    path.write_bytes(FORMER + b"\n".join(lines) + b"\n")
    sent, view = eventfile.read(path)[1]
    assert isinstance(sent, ev.Sent)
    assert isinstance(view, ev.ViewInstalled)
    assert (sent.to, sent.to_incarnations, view.components) == (["a"], None, [])


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([1, 2, 3], []),
        ([3, 1, 2], []),
        ([], ["there are no rows"]),
        ([1, 3], ["a.1: row 2 is missing"]),
        ([4, 5, 9], ["a.1: rows 1 to 3 are missing", "a.1: rows 6 to 8 are missing"]),
        ([1, 2, 2], ["a.1: row 2 is there twice"]),
    ],
)
def test_rows_that_are_missing_or_doubled_are_told(numbers: list[int], found: list[str]) -> None:
    assert eventfile.damage([life(n) for n in numbers]) == found


def gap(first: int, last: int) -> ev.Event:
    columns = msgspec.structs.asdict(life(last))
    del columns["op"], columns["reason"]
    return ev.Gap(**columns, first=first, last=last, reason="disk full")


def corrupt(lseq: int) -> ev.Event:
    columns = msgspec.structs.asdict(life(lseq))
    del columns["op"], columns["reason"]
    return ev.Corrupt(**columns, file="x", offset=0, length=1)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([life(1), gap(2, 4), life(5)], []),
        ([gap(1, 4), life(5)], []),
        ([life(1), gap(3, 4), life(5)], ["a.1: row 2 is missing"]),
        ([life(1), gap(2, 3), gap(5, 6), life(7)], ["a.1: row 4 is missing"]),
        ([life(1), gap(2, 3), life(6)], ["a.1: rows 4 to 5 are missing"]),
        ([life(1), corrupt(2), life(9)], []),
        ([corrupt(1), life(4)], []),
        ([life(1), corrupt(2), life(3), life(5)], ["a.1: row 4 is missing"]),
    ],
)
def test_rows_that_the_journal_itself_says_it_lacks_are_no_damage(
    rows: list[ev.Event], found: list[str]
) -> None:
    assert eventfile.damage(rows) == found
