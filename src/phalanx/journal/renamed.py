"""Names of tables, columns and values in schema versions 1 to 7, and what they are called now.

Version 8 gave each fact one name. Every reader of files translates at its boundary, once: blocks of
a segment (`columns`), headers (`segment`), text (`jsonl`), exported Parquet and the notes beside it
(`parquet_export`, `pipeline.ingest_task`). Everything behind that has the new names only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RENAMED_IN = 8
"""Files of an earlier version of the schema have the old names."""

TABLES = {
    "submit": "accepted",
    "send": "sent",
    "view_install": "view_installed",
    "merge_side": "merged_component",
    "trans_marker": "transitional",
    "ctx_step": "view_change_step",
    "suspect": "peer_suspicion",
    "refuse": "refused",
    "link": "link_stats",
}
"""Tables that had another name. All others had the one that they have."""

IN_ALL = {"node": "member", "inc": "incarnation"}
"""Columns of every table, and of the header of a segment."""
_TO = {"to_incs": "to_incarnations"}
_VIEW = {"vid": "view"}
_MEMBERS = {"member_incs": "member_incarnations"}
COLUMNS: dict[str, dict[str, str]] = {
    "accepted": {"bytes": "size", **_TO},
    "sent": {"dep_nodes": "dep_senders", "dep_incs": "dep_incarnations", **_VIEW, **_TO},
    "deliver": {
        "sender_inc": "sender_incarnation",
        "origin_vid": "origin",
        **_VIEW,
        **_TO,
    },
    "view_installed": {
        "prev_vid": "previous",
        "trans": "transitional",
        "trans_incs": "transitional_incarnations",
        "joined_incs": "joined_incarnations",
        "left_incs": "left_incarnations",
        **_VIEW,
        **_MEMBERS,
    },
    "merged_component": {
        "side_vid": "component",
        "senders": "delivered",
        "sender_incs": "delivered_incarnations",
        "upto": "delivered_upto",
        "alone_incs": "alone_incarnations",
        **_VIEW,
        **_MEMBERS,
    },
    "transitional": {"at_pos": "pos", **_VIEW, **_MEMBERS},
    "peer_suspicion": {"target_inc": "target_incarnation", "prev_state": "previous"},
    "not_sent": {"to": "members", "to_incs": "member_incarnations"},
    "stable": {"sender_inc": "sender_incarnation", **_VIEW, **_MEMBERS},
    "all_delivered": {**_VIEW, **_MEMBERS},
    "ordered": _VIEW,
    "link_stats": {"peer_inc": "peer_incarnation", **_VIEW},
}
"""Per table, by its new name, the columns that had another one, beside those of IN_ALL."""

VALUES: dict[tuple[str, str], dict[str, str]] = {
    ("view_installed", "cause"): {"BOOT": "boot", "REMOVE": "removal", "JOIN": "join"},
}
"""Per table and column, by their new names, the values that were written differently."""


def current_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of an earlier version, with the key `table`, by the names of now."""
    former = str(row.get("table"))
    table = TABLES.get(former, former)
    names = IN_ALL | COLUMNS.get(table, {})
    found = {names.get(name, name): value for name, value in row.items()} | {"table": table}
    for (of, column), values in VALUES.items():
        if of == table and isinstance(found.get(column), str):
            found[column] = values.get(found[column], found[column])
    return found


def current_header(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a segment of an earlier version, by the names of now."""
    return {IN_ALL.get(name, name): value for name, value in header.items()}


def former_names(table: str) -> dict[str, str]:
    """Per column of a table as it is called now, what it was called before, where that differs."""
    return {new: old for old, new in (IN_ALL | COLUMNS.get(table, {})).items()}


def former_table(table: str) -> str:
    """What a table was called before."""
    return {new: old for old, new in TABLES.items()}.get(table, table)
