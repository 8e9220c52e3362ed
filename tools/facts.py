"""Generates docs/facts.md: which table and columns record each effect of a member.

    python tools/facts.py            write the page
    python tools/facts.py --check    print what is wrong, and exit with 1 if anything is

A fact has one name on every layer. The row of an effect has the name of the effect, and a column
the name of the effect's field, by the rules below. What deviates from them is listed here with its
reason. tests/test_facts.py fails if anything deviates that is not listed, if an exception is no
longer one, or if the page is out of date.

- A member is two columns: its name under the name of the field, and its incarnation under the same
  name with `_incarnation`. A list of members is two lists, the second with `_incarnations`.
- A view is the text of its id. A `View` is also its epoch, its members and its context.
- Enumerations are their names; bytes that identify something are in hexadecimal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_type_hints

from phalanx.core import effects as fx
from phalanx.core.ids import MemberId, View
from phalanx.journal import renamed
from phalanx.journal.schema import SCHEMA_VERSION, TABLES, Row
from phalanx.journal.service_schema import SERVICE_TABLES
from phalanx.runtime import events

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/facts.md"
COMMON = tuple(Row.__struct_fields__)
VIEW = ("view", "joins", "removals", "members", "member_incarnations", "context")
EFFECTS: tuple[type, ...] = (*get_args(fx.Effect), fx.MergedComponent)
"""Every effect, and the part of `ViewInstalled` that has rows of its own."""


@dataclass(frozen=True)
class Exceptions:
    """What deviates from the rules, with the reasons."""

    no_row: Mapping[str, str] = field(default_factory=dict)
    """Effects that no row records."""
    in_row: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Effects whose row has another name: which, and why."""
    no_column: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Fields, by effect, that no column records."""
    other_columns: Mapping[tuple[str, str], tuple[tuple[str, ...], str]] = field(
        default_factory=dict
    )
    """Fields, by effect, with other columns than the rules give: which, and why."""
    no_effect: Mapping[str, str] = field(default_factory=dict)
    """Tables that record no effect."""
    no_field: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Columns, by table, that record no field of the effect."""


SERVICE = "a process of the membership service; docs/journal.md says what it records"
EXCEPTIONS = Exceptions(
    no_row={
        "Transmit": "packets are traffic, not events; `sent` and `link_stats` tell what became of "
        "them",
        "Stopped": "the owner of the member writes the last row: `life`, op `STOP`, the same "
        "`reason`",
        "RolesInstalled": "columns of `view_installed`: `role_members` and the three after it",
        "SettingsDiffer": "settings are in the header of each journal, where `check` and the audit "
        "compare them; refused packets are in `refused`",
        "NameContested": "a warning in the log; that the member is alone is in `view_installed`",
    },
    in_row={
        "WindowClosed": ("Window", "closing and opening alternate: one table with `op` tells both"),
        "WindowOpened": ("Window", "closing and opening alternate: one table with `op` tells both"),
    },
    no_column={
        ("Accepted", "bodies"): "contents; `digest` is their checksum where that was asked for",
        ("Deliver", "payload"): "contents; `digest` is their checksum where that was asked for",
        ("Deliver", "offset"): "where the contents lie in the payload",
        ("Deliver", "lengths"): "sizes of the bodies; `accepted.size` has their sum",
        ("NotSent", "sent"): "a `sent` row before this one says the same",
        ("LinkStats", "upto"): "for the simulator, which counts frames from it",
    },
    other_columns={
        ("PeerSuspicion", "relay"): (("relay",), "for people: the name alone"),
        ("ViewChangeStep", "failed_before"): (("failed_before",), "members as text, `ada.2`"),
        ("ViewChangeStep", "failed_after"): (("failed_after",), "members as text, `ada.2`"),
        ("ViewInstalled", "merged"): (
            ("components",),
            "ids of the merged views; each has a row of `merged_component` too",
        ),
        ("MergedComponent", "view"): (("component",), "`view` is the merged view here"),
        ("MergedComponent", "delivered"): (
            ("delivered", "delivered_incarnations", "delivered_upto"),
            "pairs of a member and a number",
        ),
        ("MergedComponent", "alone"): (
            ("alone", "alone_incarnations", "alone_first", "alone_last"),
            "ranges of messages",
        ),
    },
    no_effect={
        "channel_report": "the connections of a mesh, which its transport keeps",
        "queue": "the queue between the application and the member, which its owner keeps",
        "life": "start and end of the member, which its owner knows",
        "clock": "the wall clock, which the core never sees",
        "topology": "ground truth of a simulation",
        "corrupt": "made by a reader in the place of what it cannot read",
        "gap": "made by the writer in the place of rows that it lost",
        **dict.fromkeys(SERVICE_TABLES, SERVICE),
    },
    no_field={
        ("accepted", "digest"): "CRC-32 of `bodies`",
        ("deliver", "digest"): "CRC-32 of the bodies in `payload`",
        ("sent", "dep_senders"): "dependencies, from the deliveries since the last `sent`",
        ("sent", "dep_incarnations"): "dependencies, from the deliveries since the last `sent`",
        ("sent", "dep_numbers"): "dependencies, from the deliveries since the last `sent`",
        ("stable", "sender"): "the member itself: the receipt is for own messages",
        ("stable", "sender_incarnation"): "the member itself: the receipt is for own messages",
        ("window", "op"): "which of the two effects",
        ("view_installed", "role_members"): "from the `RolesInstalled` of the same step",
        ("view_installed", "role_incarnations"): "from the `RolesInstalled` of the same step",
        ("view_installed", "role_serials"): "from the `RolesInstalled` of the same step",
        ("view_installed", "role_operations"): "from the `RolesInstalled` of the same step",
        ("merged_component", "view"): "the view of the `ViewInstalled` that it is a part of",
    },
)


@dataclass(frozen=True)
class Fact:
    """A field of an effect and the columns that record it."""

    field: str
    columns: tuple[str, ...]
    why: str = ""


def name_of_table(row: str) -> str:
    """`ViewInstalled` is `view_installed`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in row).lstrip("_")


def row_of(effect: str, exceptions: Exceptions) -> str:
    return exceptions.in_row[effect][0] if effect in exceptions.in_row else effect


def facts_of(effect: type, exceptions: Exceptions = EXCEPTIONS) -> list[Fact]:
    """The fields of an effect, with the columns that the rules and the exceptions give them."""
    found = []
    hints = get_type_hints(effect)
    for name in effect.__struct_fields__:  # type: ignore[attr-defined]
        key = (effect.__name__, name)
        if key in exceptions.no_column:
            found.append(Fact(name, (), exceptions.no_column[key]))
        elif key in exceptions.other_columns:
            found.append(Fact(name, *exceptions.other_columns[key]))
        else:
            found.append(Fact(name, _columns(name, hints[name])))
    return found


def _columns(name: str, kind: Any) -> tuple[str, ...]:
    """The columns of a field, by its type."""
    if kind is View:
        return VIEW
    kinds = (kind, *get_args(kind))  # itself, or what it is beside None
    if tuple[MemberId, ...] in kinds:
        return name, f"{name.removesuffix('s')}_incarnations"
    if MemberId in kinds:
        return name, f"{name}_incarnation"
    return (name,)


EVENTS: Mapping[type, tuple[type, ...]] = {
    events.View: (fx.ViewInstalled, fx.RolesInstalled),
    events.Merged: (fx.ViewInstalled, fx.RolesInstalled),
    events.Transitional: (fx.Transitional,),
    events.Message: (fx.Deliver,),
    events.NotSent: (fx.NotSent,),
    events.EventsLost: (),
}
"""Every event of the application, and the effects that it is made of."""
OTHER_NAMES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("View", "id"): ("view", "the view is the event itself"),
    ("View", "members"): ("view", "the members of the view"),
    ("View", "roles_set"): ("roles", "`roles` has the operations by member, for programs"),
    ("Merged", "sides"): ("merged", "`Merged` is the event; each side is a `MergedComponent`"),
    ("Message", "body"): ("payload", "the part of it that is this message"),
    ("Message", "number"): ("first", "one message of `first` to `last`"),
    ("Message", "position"): ("pos", "written out for applications: that of this message"),
    ("Message", "transitional"): ("region", "whether it is `TRANSITIONAL`"),
    ("EventsLost", "count"): ("", "made by the buffer of events"),
}
"""Fields of events with another name than the field of the effect: which, and why. Those of `View`
hold for `Merged` too."""


def event_problems(
    made_of: Mapping[type, tuple[type, ...]] = EVENTS,
    others: Mapping[tuple[str, str], tuple[str, str]] = OTHER_NAMES,
) -> list[str]:
    """Fields of events that no effect has, without a reason; and reasons for none of them."""
    found, used = [], set()
    for event, effects in made_of.items():
        names = {n for e in effects for n in e.__struct_fields__}  # type: ignore[attr-defined]
        for name in event.__struct_fields__:  # type: ignore[attr-defined]
            keys = [
                (kind.__name__, name) for kind in event.__mro__ if (kind.__name__, name) in others
            ]
            used.update(keys)
            if not keys and name not in names:
                found.append(f"{event.__name__}.{name}: no effect has it, and nothing says why")
            if keys and name in names:
                found.append(f"{event.__name__}.{name}: listed with another name, and has its own")
            if keys and others[keys[0]][0] not in (*names, ""):
                found.append(f"{event.__name__}.{name}: no effect has {others[keys[0]][0]}")
    return found + [f"{of}.{name}: listed for no event" for of, name in others.keys() - used]


# ---------------------------------------------------------------------- what is wrong


def problems(
    effects: Sequence[type] = EFFECTS,
    tables: Mapping[str, type[Row]] = TABLES,
    exceptions: Exceptions = EXCEPTIONS,
) -> list[str]:
    """Deviations from the rules that no exception allows, and exceptions that are none."""
    rows = {kind.__name__: table for table, kind in tables.items()}
    found = [
        f"{table}: its row is called {row}"
        for row, table in rows.items()
        if table != name_of_table(row)
    ]
    recorded: dict[str, set[str]] = {}
    for effect in effects:
        name = effect.__name__
        row = row_of(name, exceptions)
        if name in exceptions.no_row:
            found += [f"{name}: listed without a row, and has one"] * (name in rows)
            continue
        if row not in rows:
            found.append(f"{name}: no row records it, and no exception says why")
            continue
        known = set(tables[rows[row]].__struct_fields__)
        for fact in facts_of(effect, exceptions):
            recorded.setdefault(rows[row], set()).update(fact.columns)
            found += [
                f"{name}.{fact.field}: {rows[row]} has no column {column}"
                for column in fact.columns
                if column not in known
            ]
    for table, kind in tables.items():
        own = set(kind.__struct_fields__) - set(COMMON)
        if table in exceptions.no_effect:
            found += [f"{table}: listed without an effect, and has one"] * (table in recorded)
            continue
        allowed = {column for of, column in exceptions.no_field if of == table}
        found += [
            f"{table}.{column}: records no field, and no exception says why"
            for column in sorted(own - recorded.get(table, set()) - allowed)
        ]
    return [*found, *_stale_exceptions(effects, tables, exceptions, recorded)]


def _stale_exceptions(
    effects: Iterable[type],
    tables: Mapping[str, type[Row]],
    exceptions: Exceptions,
    recorded: Mapping[str, set[str]],
) -> list[str]:
    """Exceptions of what is not there, or obeys the rules."""
    fields = {(e.__name__, name) for e in effects for name in e.__struct_fields__}  # type: ignore[attr-defined]
    names = {effect for effect, _ in fields} | {e.__name__ for e in effects}
    columns = {(table, name) for table, kind in tables.items() for name in kind.__struct_fields__}
    found = [
        f"{name}: an exception for no effect" for name in exceptions.no_row if name not in names
    ]
    found += [
        f"{name}: an exception for no effect" for name in exceptions.in_row if name not in names
    ]
    found += [
        f"{effect}.{name}: an exception for no field"
        for effect, name in (*exceptions.no_column, *exceptions.other_columns)
        if (effect, name) not in fields
    ]
    found += [
        f"{name}: an exception for no table" for name in exceptions.no_effect if name not in tables
    ]
    for table, column in exceptions.no_field:
        if (table, column) not in columns:
            found.append(f"{table}.{column}: an exception for no column")
        elif column in recorded.get(table, set()):
            found.append(f"{table}.{column}: an exception for a column that records a field")
    hints = {e.__name__: get_type_hints(e) for e in effects}
    for (effect, name), (those, _) in exceptions.other_columns.items():
        if (effect, name) in fields and those == _columns(name, hints[effect][name]):
            found.append(f"{effect}.{name}: an exception that obeys the rules")
    return found


# ---------------------------------------------------------------------- the page


HEAD = """# Facts and their names

Generated from the effects and the schema by `tools/facts.py`; do not edit.

A fact has one name on every layer: the effect that the core returns
(`src/phalanx/core/effects.py`), the row of the journal, the column of the tables and of exported
Parquet, `--json` and the documents. Only events of the application have a few
[names of their own](#events-of-the-application). [tables.md](tables.md) says what each column
holds.

- A row has the name of the effect that it records, and its table the same in lower case.
- A column has the name of the field that it records.
- A member is two columns: its name under the name of the field, its incarnation under the same name
  with `_incarnation`. A list of members is two lists, the second with `_incarnations`.
- A view is the text of its id. The field `view` of `ViewInstalled` is also its epoch, its members
  and its context.
- Enumerations are their names; bytes that identify something are in hexadecimal.

The tables below list every effect and every column; what deviates from these rules has its reason
beside it.

Every table also has `run`, `profile`, `group`, `member`, `incarnation`, `lseq`, `step`, `t_ns` and
`sim_ns`: whose row it is, its number, and when it was written. `member` and `incarnation` are the
member that wrote the row. Tables that are derived from these (`history`, `measures`, the audit)
keep the names and add few: `target` and `target_incarnation` are the member that another one
watches, suspects or removes, as in `peer_suspicion`; `next_view` is the view that a member
installed after `view`; `back_view` and `back_incarnation` tell how a removed member came back.
"""


def generated() -> str:
    """The whole page."""
    parts = [HEAD, "## Effects and their rows\n"]
    tables = {kind.__name__: table for table, kind in TABLES.items()}
    for effect in EFFECTS:
        name = effect.__name__
        if name in EXCEPTIONS.no_row:
            continue
        table = tables[row_of(name, EXCEPTIONS)]
        reason = f": {EXCEPTIONS.in_row[name][1]}" if name in EXCEPTIONS.in_row else ""
        parts.append(f"### {name}\n\nTable `{table}`{reason}.\n")
        lines = ["| field | columns | |", "| --- | --- | --- |"]
        for fact in facts_of(effect):
            columns = ", ".join(f"`{column}`" for column in fact.columns) or "none"
            lines.append(f"| `{fact.field}` | {columns} | {fact.why} |")
        for (of, column), why in EXCEPTIONS.no_field.items():
            if of == table:
                lines.append(f"| none | `{column}` | {why} |")
        parts.append("\n".join(lines) + "\n")
    parts.append(_events())
    parts.append("## Effects without a row\n")
    parts.append(_list(("effect", "why"), EXCEPTIONS.no_row.items()))
    parts.append("## Tables without an effect\n")
    parts.append(_list(("table", "why"), EXCEPTIONS.no_effect.items()))
    parts.append(_former())
    return "\n".join(parts).rstrip() + "\n"


def _events() -> str:
    """Names that differ in events of the application."""
    lines = [
        "## Events of the application\n",
        "The events that a group gives (`src/phalanx/runtime/events.py`), and those of",
        "`phalanx node --json`, have the names of the effects that they are made of, except:\n",
        "| event | field | of the effect | |",
        "| --- | --- | --- | --- |",
    ]
    for (event, name), (other, why) in OTHER_NAMES.items():
        lines.append(f"| `{event}` | `{name}` | {f'`{other}`' if other else 'none'} | {why} |")
    return "\n".join(lines) + "\n"


def _former() -> str:
    """Names of before version 8."""
    lines = [
        f"## Names before version {renamed.RENAMED_IN}\n",
        f"The schema has version {SCHEMA_VERSION}. Journals and text files of version",
        f"{renamed.RENAMED_IN - 1} and before have other names, which are translated when they are",
        "read, and so is exported Parquet when it is ingested.\n",
        "| table | was | columns that had another name |",
        "| --- | --- | --- |",
    ]
    common = ", ".join(f"`{new}` (`{old}`)" for old, new in renamed.IN_ALL.items())
    lines.append(f"| every one, and headers | | {common} |")
    for table in TABLES:
        former = renamed.former_table(table)
        columns = renamed.COLUMNS.get(table, {})
        if former == table and not columns:
            continue
        order = [name for name in TABLES[table].__struct_fields__ if name in columns.values()]
        by_new = {new: old for old, new in columns.items()}
        told = ", ".join(f"`{name}` (`{by_new[name]}`)" for name in order)
        lines.append(f"| `{table}` | {f'`{former}`' if former != table else ''} | {told} |")
    lines.append("")
    for (table, column), values in renamed.VALUES.items():
        told = ", ".join(f"`{new}` (`{old}`)" for old, new in values.items())
        lines.append(f"Values of `{table}.{column}`: {told}.")
    return "\n".join(lines) + "\n"


def _list(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| `{name}` | {why} |" for name, why in rows)]) + "\n"


def main(arguments: Sequence[str]) -> int:
    path = ROOT / PAGE
    if "--check" not in arguments:
        path.write_text(generated(), encoding="utf-8")
    found = problems() + event_problems()
    if not path.is_file() or path.read_text(encoding="utf-8") != generated():
        found.append(f"{PAGE} is out of date: run tools/facts.py")
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
