"""Generate docs/tables.md from the schemas: every table and column with a sentence.

    python tools/generate_tables_doc.py > docs/tables.md

Sentences are the docstrings of `phalanx.journal.schema` and `phalanx.pipeline.segment_stats`. This
file has sentences for columns without a docstring, whose name is enough for a reader of the code.
tests/pipeline/test_schemas.py fails if the document is out of date.
"""

from __future__ import annotations

import ast
import inspect
from types import ModuleType
from typing import Any

from phalanx.journal import schema as events
from phalanx.journal.schema import TABLES
from phalanx.pipeline import segment_stats as facts
from phalanx.pipeline.lake.lake_schema import VERSIONS, VIEWS, lake_schema
from phalanx.pipeline.schemas import EVENTS, FACTS, arrow_schema

FRONT = {
    "cluster": "The cluster, as the header of the journal names it.",
    "journal": "The UUID of the journal: one life of one member in one group.",
}
COLUMNS = {
    "run": "What the rows of one run of a group share; (cluster, run, group) is a run.",
    "profile": "The profile of the protocol that the group runs: T, the only one.",
    "group": "The group.",
    "member": "The member's name.",
    "incarnation": "The member's incarnation; (member, incarnation) is a process.",
    "lseq": "The number of the row in its journal, from 1 without gaps.",
    "step": "Rows of one step are atomic: all are there, or none.",
    "t_ns": "The clock of the member's machine; comparable only where `boot_id` is the same.",
    "sim_ns": "The one clock of a simulation; null outside of one.",
    "first": "The first message of the range.",
    "last": "The last message of the range.",
    "service": "BASIC, CAUSAL, AGREED or SAFE.",
    "to": "Names of the addressed members; null is the whole view.",
    "to_incarnations": "Their incarnations, in the same order.",
    "view": "The view, `joins.removals:digest`.",
    "phase": "0, or 1 for what was sent after the sender agreed to close the view.",
    "frame": "The frame that carried the last of them.",
    "dep_senders": "Senders that `first` depends on directly.",
    "dep_incarnations": "Their incarnations.",
    "dep_numbers": "The last message of each.",
    "sender": "Who sent them.",
    "sender_incarnation": "The sender's incarnation.",
    "region": "REGULAR, or TRANSITIONAL once the view is closing.",
    "batch": "Deliveries of one batch went up together.",
    "joins": "The epoch: how many joins led to this view.",
    "removals": "The epoch: how many removals since the last join.",
    "members": "The members of the view, in their order.",
    "member_incarnations": "Their incarnations.",
    "context": "The change that this belongs to.",
    "cause": "boot, removal or join.",
    "previous": "The view before; null for the first one.",
    "transitional": "Members that moved along from the same view.",
    "transitional_incarnations": "Their incarnations.",
    "pos": "The agreed position.",
    "stage": "IDLE, COLLECT or COMMIT.",
    "action": "What was done.",
    "components": "The views that take part.",
    "failed_before": "Whom the member held failed before the step.",
    "failed_after": "Whom it holds failed after it.",
    "target": "Whom the detector watches.",
    "target_incarnation": "The target's incarnation.",
    "state": "What the detector holds now.",
    "evidence": "What changed its mind.",
    "relay": "Through whom the target can still be reached.",
    "peer": "The member at the other end.",
    "peer_incarnation": "The peer's incarnation.",
    "upto": "The number up to which everybody has them.",
    "op": "What happened.",
    "joined_incarnations": "Their incarnations.",
    "left_incarnations": "Their incarnations.",
    "delivered_incarnations": "Their incarnations.",
    "alone_incarnations": "Their incarnations.",
    "alone_first": "The first message of each.",
    "alone_last": "The last message of each.",
    "accepted": "Messages that the queue accepted.",
    "submitted": "Messages of them that were given to the protocol.",
    "refused": "Messages of them that were refused.",
    "frames": "Frames in the window.",
    "reason": "Why.",
    "count": "How many.",
    "wall_ns": "What the wall clock said, in nanoseconds of the epoch.",
    "boot_id": "The boot of the machine: within one, all clocks `t_ns` are one.",
    "component": "The members that can be reached, by name.",
    "file": "The file.",
    "offset": "Where in the file it begins.",
    "length": "How many bytes of it.",
    "mono_ns": "What the clock of the rows said when the wall clock said `wall_ns`.",
    "mode": "The setting `mode`: hold or flow; null if the header does not have it.",
    "order": "The setting `order`: toto or all-ack; null if the header does not have it.",
    "early": "The setting `early`: 1 if it is on; null if the header does not have it.",
    "settled": "1 if a simulator says that whatever was going to happen has happened.",
    "undisturbed_ns": "From when on nothing was done to any member; from a simulator only.",
    "changes_max": "How often a member had cause to change its view, if a simulator knows.",
    "rows": "How many rows there are.",
    "end_t_ns": "`t_ns` of the last row.",
    "end_sim_ns": "`sim_ns` of the last row.",
}
OF_TABLE = {
    ("peer_suspicion", "previous"): "What it held before.",
    ("not_sent", "member_incarnations"): "Their incarnations.",
    ("gap", "first"): "The number of the first row that was not kept.",
    ("gap", "last"): "The number of the last row that was not kept.",
    ("journals", "last"): "The number of the last row.",
    ("segments", "first"): "The number of the first row; 0 if there is none.",
    ("segments", "last"): "The number of the last row; 0 if there is none.",
    ("segments", "wall_ns"): "What the wall clock said when the clock of the rows said `mono_ns`.",
    ("all_delivered", "upto"): "The number up to which all have delivered those of the view.",
    ("ordered", "upto"): "The number up to which the order of own messages is final.",
    ("window", "bytes"): "Bytes in the window.",
    ("clock", "wall_ns"): "What the wall clock said when the clock of the rows said `t_ns`.",
}
LAKE_ONLY = {
    VIEWS: (
        "The members of a view, once for each set of members that it was installed with.",
        FRONT | {"members_key": "A digest of the members: `view_installed` refers to it."},
    ),
    VERSIONS: (
        "Versions of Delta tables, for each version of the lake: of the tables that it changed.",
        {
            "lake_version": "The version of the lake, from 1.",
            "table": "The table.",
            "delta_version": "The version of its Delta log.",
            "committed": "When the version was committed.",
            "what": "The command: ingest, compact, retain, or what replaced a derived table.",
            "writer": "The process that wrote it; file names begin with it.",
        },
    ),
}
HEAD = """# Tables

Generated from the schemas by `tools/generate_tables_doc.py`; do not edit.

A member writes what it saw as rows of the tables below. Rows are ranges: messages `first` to
`last` of one sender that share every other column. `phalanx journal export` writes them as
Parquet, `phalanx ingest` takes them into a lake, and `spark.read.format("phalanx")` reads them as
they are written. A table has the same name and the same columns everywhere. An integer has 64
bits; `?` marks a column that may be null.

## A lake

A lake is a folder of [Delta](lake.md) tables, one for each table below. Sealed journals are the raw
layer: a lake can always be made again from them.

| tables | what they hold |
| --- | --- |
| all of the events | each row that was taken, once |
| `journals`, `segments`, `views` | facts of journals and segments, and the members of each view |
| `versions` | which version of each table belongs to which version of the lake |
| others | derived tables that commands replace: findings, intervals, measures |

Views are `view_installed`, sends `sent`, deliveries `deliver`, suspicions
`peer_suspicion`, and membership changes `view_change_step`: a fact has one name on every layer, and
docs/facts.md says which effect of a member each table and column records.
A row is (`journal`, `lseq`). A row of `corrupt` has the number of the row that would stand there.

In a lake the tables of events have these columns besides. `group` and `day` partition them.

| column | type | what it is |
| --- | --- | --- |
| `at` | timestamp? | The instant of the row (UTC), by the wall clock of the member's machine. |
| `day` | date | The date in UTC at which the segment of the row began. |

`at` is `wall_ns` + `t_ns` - `mono_ns` of the segment; in a simulation, its clock counted from 1970.
`view_installed` has `members_key` instead of `members` and `member_incarnations`, which are in
`views`: join by `cluster`, `run`, `group`, `view` and `members_key`. `journals` and `segments` have
the timestamps `began` and `ended` besides.

`phalanx ingest --since` takes an instant (UTC), or a version, which stands for the instant at
which it was committed. Sealed segments whose last row is older, by the wall clock of the machine
that wrote it, are passed over whole; segments that are still open never are. Rows of a segment
that was passed over are missing evidence: such a journal has `torn` = 1.
"""


def text() -> str:
    """The whole document."""
    parts = [HEAD, "## Columns that every table of events has\n", _table(_common(), "life")]
    shared = {name for name, _, _ in _common()}
    parts.append("## Events\n")
    for table in EVENTS:
        own = [column for column in _columns(table) if column[0] not in shared]
        parts.append(f"### {table}\n\n{_paragraph(TABLES[table])}\n")
        parts.append(_table(own, table))
    parts.append("## What is known of journals\n")
    for table, kind in FACTS.items():
        parts.append(f"### {table}\n\n{_paragraph(kind)}\n")
        parts.append(_table(_columns(table), table))
    parts.append("## What only a lake has\n")
    for table, (sentence, columns) in LAKE_ONLY.items():
        own = [
            (f.name, _type(f), columns.get(f.name) or COLUMNS[f.name]) for f in lake_schema(table)
        ]
        parts.append(f"### {table}\n\n{sentence}\n")
        parts.append(_table(own, table))
    return "\n".join(parts).rstrip() + "\n"


def _common() -> list[tuple[str, str, str]]:
    own = set(TABLES["life"].__struct_fields__) - set(events.Row.__struct_fields__)
    return [column for column in _columns("life") if column[0] not in own]


def _columns(table: str) -> list[tuple[str, str, str]]:
    """Name, type and sentence of each."""
    kind: type = FACTS[table] if table in FACTS else TABLES[table]
    said = _docstrings(facts if table in FACTS else events, kind.__name__)
    found = []
    for field in arrow_schema(table):
        name = field.name
        sentence = OF_TABLE.get((table, name)) or said.get(name) or FRONT.get(name)
        found.append((name, _type(field), sentence or COLUMNS[name]))
    return found


def _type(field: Any) -> str:
    text = str(field.type).replace("int64", "integer").replace("timestamp[us, tz=UTC]", "timestamp")
    if text.startswith("list<"):
        text = f"list of {'integer' if 'integer' in text else 'string'}"
    return f"{text}?" if field.nullable else text


def _paragraph(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "").replace("\n", " ").replace("  ", "\n\n")


def _docstrings(module: ModuleType, name: str) -> dict[str, str]:
    """What stands below the columns of a class."""
    tree = ast.parse(inspect.getsource(module))
    kind = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    found = {}
    for column, below in zip(kind.body, kind.body[1:], strict=False):
        match column, below:
            case (
                ast.AnnAssign(target=ast.Name(id=field)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                found[field] = " ".join(said.split())
    return found


def _table(columns: list[tuple[str, str, str]], table: str) -> str:
    assert columns, f"{table} has no columns of its own"
    lines = ["| column | type | what it is |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {kind} | {sentence} |" for name, kind, sentence in columns]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(text(), end="")
