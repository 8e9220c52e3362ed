"""Journals made by hand, for the tests of what writes and reads them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from phalanx.core.ids import MemberId
from phalanx.journal import schema as ev
from phalanx.journal.blocks import rows_block
from phalanx.journal.segment import Header, file_name, header_bytes
from phalanx.journal.settings import JournalSettings
from phalanx.journal.writer import Journal

MS = 1_000_000


def row(lseq: int, **columns: Any) -> ev.Event:
    """A row of ada.1 in group g."""
    common: dict[str, Any] = {
        "run": "r",
        "profile": "T",
        "group": "g",
        "member": "ada",
        "incarnation": 1,
    }
    common |= {"lseq": lseq, "step": lseq, "t_ns": lseq * MS, "upto": lseq, "view": "v1"}
    return ev.Stable(**common | {"sender": "ada", "sender_incarnation": 1} | columns)


def rows(first: int, last: int) -> list[ev.Event]:
    return [row(n) for n in range(first, last + 1)]


def journal(
    folder: Path,
    member: str = "ada",
    incarnation: int = 1,
    group: str = "g",
    cluster: str = "c",
    config: dict[str, Any] | None = None,
    on_problem: Callable[[str], None] | None = None,
    **settings: Any,
) -> Journal:
    return Journal(
        folder,
        cluster=cluster,
        group=group,
        member=MemberId(member, incarnation),
        config=config or {"mode": "hold"},
        settings=JournalSettings(**{"flush_ns": MS} | settings),
        on_problem=on_problem,
    )


def header(**given: Any) -> Header:
    known: dict[str, Any] = {"journal": "00" * 16, "cluster": "c", "group": "g", "member": "ada"}
    known |= {
        "incarnation": 1,
        "number": 1,
        "schema": ev.SCHEMA_VERSION,
        "wall_ns": 1,
        "mono_ns": 1,
    }
    return Header(**known | {"boot_id": "b", "config": {}} | given)


def segment(folder: Path, *batches: list[ev.Event], **given: Any) -> Path:
    """A segment that is open: a block for each batch."""
    head = header(**given)
    path = folder / file_name(head.group, head.member, head.incarnation, head.number)
    path.write_bytes(header_bytes(head) + b"".join(map(rows_block, batches)))
    return path


def keep(
    folder: Path,
    events: Iterable[ev.Event],
    cluster: str = "c",
    mode: str = "hold",
    settings: dict[str, dict[str, Any]] | None = None,
) -> Path:
    """The journals of all members that these rows are of, as the members would write them: no
    clock that they share, nothing that only a simulator knows. `settings` holds some of single
    members."""
    lives: defaultdict[tuple[str, int, str], list[ev.Event]] = defaultdict(list)
    for event in events:
        if not isinstance(event, ev.Topology) and getattr(event, "op", "") != "CRASH":
            plain = msgspec.structs.replace(event, sim_ns=None)
            lives[event.member, event.incarnation, event.group].append(plain)
    for (member, incarnation, group), mine in lives.items():
        own = {"mode": mode} | (settings or {}).get(member, {})
        written = journal(folder, member, incarnation, group, cluster, own)
        count = [msgspec.structs.replace(r, lseq=i) for i, r in enumerate(mine, 1)]
        written.write(count)
        written.close()
    return folder


def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    """Waits for something, but not for ever."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)
