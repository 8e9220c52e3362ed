"""Generate docs/tables.md from the schemas: every table and column with a sentence.

    python -m tools.generate_tables_doc > docs/tables.md

Sentences are the docstrings of `phalanx.journal.schema`, `phalanx.pipeline.segment_stats` and the
rows of derived tables. This file has sentences for columns without a docstring, whose name is
enough for a reader of the code; `tools/column_values.py` has those for the values of columns.
tests/pipeline/test_schemas.py fails if the document is out of date.
"""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Any, get_type_hints

from tools.column_values import OPEN, ColumnValues, column_values, literal_values

from phalanx.journal.schema import TABLES, Row
from phalanx.pipeline.derived.derived_tables import DERIVED
from phalanx.pipeline.lake.lake_schema import OWN_TABLES, VERSIONS, VIEWS, lake_schema
from phalanx.pipeline.schemas import EVENTS, FACTS, arrow_schema
from phalanx.pipeline.verdict_tables import (
    FINDINGS,
    VERDICTS,
    FindingRow,
    ViewVerdictRow,
    verdict_schema,
)

FRONT = {
    "cluster": "The cluster, as the header of the journal names it.",
    "journal": "The UUID of the journal: one life of one member in one group.",
}
COLUMNS = {
    "run": "What the rows of one run of a group share; (cluster, run, group) is a run.",
    "profile": "The profile of the protocol that the group runs.",
    "group": "The group.",
    "member": "The member's name.",
    "incarnation": "The member's incarnation; (member, incarnation) is a process.",
    "lseq": "The number of the row in its journal, from 1 without gaps.",
    "step": "Rows of one step are atomic: all are there, or none.",
    "t_ns": "The clock of the member's machine; comparable only where `boot_id` is the same.",
    "sim_ns": "The one clock of a simulation; null outside of one.",
    "first": "The first message of the range.",
    "last": "The last message of the range.",
    "service": "How strongly they are ordered.",
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
    "region": "Whether the view was in use or closing.",
    "batch": "Deliveries of one batch went up together.",
    "joins": "The epoch: how many joins led to this view.",
    "removals": "The epoch: how many removals since the last join.",
    "members": "The members of the view, in their order.",
    "member_incarnations": "Their incarnations.",
    "context": "The change that this belongs to.",
    "cause": "Why the view was installed.",
    "previous": "The view before; null for the first one.",
    "transitional": "Members that moved along from the same view.",
    "transitional_incarnations": "Their incarnations.",
    "pos": "The agreed position.",
    "stage": "How far the change is.",
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
    "role_incarnations": "Their incarnations.",
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
    "kind": "What kind.",
    "set": "The set.",
    "vid": "The view, `number:digest`.",
    "lineage": "What the states since the last fork or union share.",
    "parent": "The server that links the set upwards; null if none does.",
    "uid": "The group.",
    "name": "The name of the group.",
    "scope": "The set in which its name is registered.",
    "home": "The name of the server.",
    "coordinator": "The server that asked for the acknowledgement.",
    "change": "The change: its first coordinator and that server's count.",
    "group_member": "The member, `interface/number`; empty if there is none.",
    "wall_ns": "What the wall clock said, in nanoseconds of the epoch.",
    "boot_id": "The boot of the machine: within one, all clocks `t_ns` are one.",
    "component": "The members that can be reached, by name.",
    "file": "The file.",
    "offset": "Where in the file it begins.",
    "length": "How many bytes of it.",
    "mono_ns": "What the clock of the rows said when the wall clock said `wall_ns`.",
    "mode": "The setting `mode`; null if the header does not have it.",
    "order": "The setting `order`; null if the header does not have it.",
    "early": "The setting `early`: 1 if it is on; null if the header does not have it.",
    "settled": "1 if a simulator says that whatever was going to happen has happened.",
    "undisturbed_ns": "From when on nothing was done to any member; from a simulator only.",
    "changes_max": "How often a member had cause to change its view, if a simulator knows.",
    "rows": "How many rows there are.",
    "end_t_ns": "`t_ns` of the last row.",
    "end_sim_ns": "`sim_ns` of the last row.",
    "from_ns": "Where the bucket of time begins, in nanoseconds of `clock`.",
    "messages": "Messages that were delivered.",
    "bytes": "Bytes of their bodies.",
    "p50_ns": "The median, exact to a microsecond.",
    "p90_ns": "The percentile 90.",
    "p99_ns": "The percentile 99.",
    "p999_ns": "The percentile 99.9.",
    "max_ns": "The longest.",
    "mean_ns": "The mean.",
    "suspicions": "How often the target was suspected.",
    "mistakes": "How often by mistake.",
    "apart": "How often while the two were parted.",
    "mistake_ns_max": "The longest mistake.",
    "recurrence_ns": "Mean of T_MR.",
    "good_ns": "Mean of T_G.",
    "property": "The property.",
    "verdict": "What the audit of the view comes to.",
    "status": "Whether anything about the view can follow.",
    "row_incarnations": "Their incarnations.",
    "row_lseqs": "Their numbers.",
    "lake_version": "The version of the lake whose rows were judged.",
    "judged": "When.",
    "text": "The same in words.",
    "day": "The date (UTC) of the row's instant, or of its beginning.",
}
OF_TABLE = {
    ("peer_suspicion", "previous"): "What it held before.",
    ("not_sent", "member_incarnations"): "Their incarnations.",
    ("channel_report", "op"): "What happened to the channel.",
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
    ("latency", "count"): "Messages that were timed.",
    ("latency", "scope"): "Which deliveries are counted.",
    ("latency", "clock"): "The clock of the buckets.",
    ("throughput", "clock"): "The clock of the buckets.",
    ("detector", "mistake_ns"): "Mean of T_M, the length of a mistake.",
    ("detector", "member"): "The observer.",
    ("links", "member"): "The member that counted.",
    ("group_view_installed", "cause"): "The rule or the call that made it.",
    ("call_made", "kind"): "The call.",
    ("call_made", "name"): "The name or uid that the call gives.",
    ("call_made", "scope"): "The scope that the call gives; empty if none.",
    ("call_finished", "uid"): "The group; empty if the result has none.",
    ("set_configured", "level"): "1 just above the interfaces.",
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
DERIVED_KINDS: dict[str, type] = {
    **{name: table.kind for name, table in DERIVED.items()},
    VERDICTS: ViewVerdictRow,
    FINDINGS: FindingRow,
}
KINDS: dict[str, type] = {**TABLES, **FACTS, **DERIVED_KINDS}
RESERVED = frozenset({"at", "end", "group", "left", "offset", "order", "table", "to"})
"""Names of columns that DuckDB does not take without quotes; a test asks it."""
DERIVED_HEAD = """## Derived tables

`phalanx lake derive` computes these tables from those above, and replaces what has changed. All
have the columns `cluster`, `run` and `group`, which are left out below. They are partitioned by
`group` and `day`, and `detector` by `group` alone; `verdicts` and `findings` are not partitioned.

Instants (`timestamp`) are by the wall clock of the member's machine, whose steps are followed;
durations (`..._ns`) are by its own clock, which only grows. In a simulation both are simulated
time, counted from 1970. `latency`, `throughput`, `links`, `suspicions`, `detector` and `changes`
are the measures of the same names ([history.md](history.md)).
"""
VALUES_HEAD = """## Values

Columns with few values. A test compares these lists with the code. Free text are the `reason` of
`gap`, which is `the queue was full` or the error of the disk, and that of `queue`, which is the
name of an error ([api.md](api.md)).
"""
JOINS = """## Joins

Rows of two tables belong to one group if `cluster`, `run` and `group` are equal; to one process if
also `member` and `incarnation` are. `journal` alone identifies a process in a group, and `lseq` a
row of it. The joins below run in DuckDB as they are, and in Spark with backquotes in place of
quotes; a test runs both.

Deliveries and the submissions they came from: both are ranges, and neither need contain the other,
so they join where they overlap. Clocks are compared only under one `boot_id`.

```sql
select d.member, d.sender, d.service,
       least(d."last", a."last") - greatest(d."first", a."first") + 1 as messages,
       (d.t_ns - a.t_ns) / 1e6 as latency_ms
from deliver d
join accepted a
  on a.cluster = d.cluster and a.run = d.run and a."group" = d."group"
 and a.member = d.sender and a.incarnation = d.sender_incarnation
 and a."first" <= d."last" and d."first" <= a."last"
join journals there on there.journal = d.journal
join journals here on here.journal = a.journal and here.boot_id = there.boot_id
order by a."at", d."at", d.member
```

Installs and the members of the views: `members_key` keeps apart views of one name that were
installed with different members, which is a violation.

```sql
select i."at", i.member, i.view, v.members
from view_installed i
join views v using (cluster, run, "group", view, members_key)
order by i."at", i.member
```

Rows and the view that a member was in when it wrote them: by their numbers, in one journal.

```sql
select i.member, i.view, count(*) as deliveries
from deliver d
join view_intervals i
  on i.journal = d.journal and i.from_lseq < d.lseq and d.lseq < i.to_lseq
group by i.member, i.view
order by i.member, i.view
```

Suspicions and the removals that they ended in: through the time in which the observer considered
the target a member.

```sql
select r."at", s.member, s.target, s.evidence, s.lasted_ns / 1e6 as suspected_ms, r.fate
from suspicions s
join memberships m
  on m.journal = s.journal and m.target = s.target
 and m.target_incarnation = s.target_incarnation and m.from_lseq = s.spell
join removals r
  on r.journal = m.journal and r.target = m.target
 and r.target_incarnation = m.target_incarnation and r.lseq = m.to_lseq
where s.ended_by = 'REMOVAL'
order by r."at", s.member
```

Findings and the verdicts on their views:

```sql
select v.began, f.view, f.property, f.text, v.unverifiable
from findings f
join verdicts v using (cluster, run, "group", view)
order by v.began, f.view, f.property, f.nth
```
"""
QUOTING = """## Names that need quotes

DuckDB reserves some names of columns:
{columns};
and the table `window`. Write them in double quotes, `"group"`. Spark takes all names as they are,
unless `spark.sql.ansi.enforceReservedKeywords` is set; its quotes are backquotes. In Spark a name
in double quotes is a string: `where "group" = 'orders'` compares two constants and finds nothing.
`first`, `last` and `count` are also functions; DuckDB and Spark take them as columns without
quotes, other databases may not.

Timestamps are instants: `TIMESTAMP WITH TIME ZONE` in DuckDB, `TIMESTAMP` in Spark. Both print
them in the time zone of the session. `day` is a date in UTC.
"""
HEAD = """# Tables

Generated from the schemas by `tools/generate_tables_doc.py`; do not edit.

A member writes what it saw as rows of the tables below. Rows are ranges: messages `first` to
`last` of one sender that share every other column. `phalanx journal export` writes them as
Parquet, `phalanx ingest` takes them into a lake, and `spark.read.format("phalanx")` reads them as
they are written. A table has the same name and the same columns everywhere. An integer has 64
bits; `?` marks a column that may be null.

[queries.md](queries.md) has ready queries. This page has:
[columns of every table](#columns-that-every-table-of-events-has), [events](#events),
[facts of journals](#what-is-known-of-journals), [tables of a lake](#what-only-a-lake-has),
[derived tables](#derived-tables), [values of columns](#values), [joins](#joins), and
[names that need quotes](#names-that-need-quotes).

## A lake

A lake is a folder of [Delta](lake.md) tables, one for each table below. Sealed journals are the raw
layer: a lake can always be made again from them.

| tables | what they hold |
| --- | --- |
| all of the events | each row that was taken, once |
| `journals`, `segments`, `views` | facts of journals and segments, and the members of each view |
| `versions` | which version of each table belongs to which version of the lake |
| [derived tables](#derived-tables) | what `phalanx lake derive` computes from the others |

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
    parts.append(DERIVED_HEAD)
    for table, kind in DERIVED_KINDS.items():
        schema = DERIVED[table].schema if table in DERIVED else verdict_schema(table)
        own = [
            c for c in _described(table, kind, schema) if c[0] not in ("cluster", "run", "group")
        ]
        parts.append(f"### {table}\n\n{_paragraph(kind)}\n")
        parts.append(_table(own, table))
    parts.append(VALUES_HEAD)
    parts += [_values(some) for some in column_values(KINDS)]
    parts.append(JOINS)
    parts.append(_quoting())
    return "\n".join(parts).rstrip() + "\n"


def _values(some: ColumnValues) -> str:
    columns = ", ".join(f"`{table}.{column}`" for table, column in some.columns)
    if len(some.columns) == len(EVENTS):
        columns = f"`{some.columns[0][1]}` of every table of events"
    lines = [f"{columns}:", "", "| value | what it means |", "| --- | --- |"]
    lines += [f"| `{value}` | {meaning} |" for value, meaning in some.meanings.items()]
    return "\n".join(lines) + "\n"


def all_columns() -> set[str]:
    """The names of all columns in a lake."""
    found = {name for table in OWN_TABLES for name in lake_schema(table).names}
    found |= {name for table in DERIVED.values() for name in table.schema.names}
    return found | {name for table in (VERDICTS, FINDINGS) for name in verdict_schema(table).names}


def _quoting() -> str:
    reserved = ", ".join(f"`{name}`" for name in sorted(RESERVED & all_columns()))
    return QUOTING.format(columns=reserved)


def _common() -> list[tuple[str, str, str]]:
    own = set(TABLES["life"].__struct_fields__) - set(Row.__struct_fields__)
    return [column for column in _columns("life") if column[0] not in own]


def _columns(table: str) -> list[tuple[str, str, str]]:
    """Name, type and sentence of each."""
    kind: type = FACTS[table] if table in FACTS else TABLES[table]
    return _described(table, kind, arrow_schema(table))


def _described(table: str, kind: type, schema: Any) -> list[tuple[str, str, str]]:
    said: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("phalanx."):
            said |= _docstrings(base)
    hints = get_type_hints(kind)
    found = []
    for field in schema:
        name = field.name
        sentence = OF_TABLE.get((table, name)) or said.get(name) or FRONT.get(name)
        sentence = sentence or COLUMNS[name]
        values = literal_values(hints.get(name)) or OPEN.get((table, name), ())
        if values and not all(value in sentence for value in values):
            sentence += f" One of {', '.join(f'`{value}`' for value in values)}."
        found.append((name, _type(field), sentence))
    return found


def _type(field: Any) -> str:
    text = str(field.type).replace("int64", "integer").replace("timestamp[us, tz=UTC]", "timestamp")
    text = text.replace("date32[day]", "date")
    if text.startswith("list<"):
        text = f"list of {'integer' if 'integer' in text else 'string'}"
    return f"{text}?" if field.nullable else text


def _paragraph(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "").replace("\n", " ").replace("  ", "\n\n")


def _docstrings(described: type) -> dict[str, str]:
    """What stands below the columns of a class."""
    tree = ast.parse(inspect.getsource(sys.modules[described.__module__]))
    kind = next(
        n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == described.__name__
    )
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
