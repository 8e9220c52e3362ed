"""Find the segments to ingest in files and folders, raw and exported, each once.

A segment is (journal, number). All raw copies of it are read together, since they may complete
each other; of exported copies the longest is taken, and a raw copy only if it is longer. Only
headers, footers and notes are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from phalanx.errors import JournalError
from phalanx.journal import parquet_export as parquet
from phalanx.journal import reader
from phalanx.journal.columnar_reader import Copy, ScanSummary
from phalanx.journal.segment import Footer, Header, ending

EXPORTED_IS_CHEAPER = 8


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One segment, and where its rows are: in raw copies, or in exported files."""

    header: Header
    size: int
    sealed: bool
    copies: list[Copy] = []
    after: int | None = None
    """The last row of the segment before, as far as known."""
    note: str | None = None
    """The note of the export, beside whose folder its tables lie."""
    end_ns: int | None = None
    """What the wall clock of its machine said at its last row, as far as known."""
    taken: int = 0
    """Rows up to this number were taken before: only later ones are read."""

    @property
    def key(self) -> tuple[str, int]:
        return self.header.journal, self.header.number

    @property
    def work(self) -> int:
        """What taking it costs, in bytes of raw journal: exported files are little more than
        copied."""
        return self.size if self.note is None else self.size // EXPORTED_IS_CHEAPER

    @property
    def file(self) -> str:
        return self.note if self.note is not None else self.copies[0].path


class _Found(NamedTuple):
    """One raw copy of a segment."""

    header: Header
    copy: Copy
    footer: Footer | None

    @property
    def end_ns(self) -> int | None:
        if self.footer is None:
            return None
        return self.header.wall_ns + self.footer.end_ns - self.header.mono_ns


def find_offers(paths: Iterable[str | Path]) -> list[Offer]:
    """In the order of clusters, groups, members and numbers. JournalError for what cannot be read
    or holds nothing."""
    raw: list[Path] = []
    found: dict[tuple[str, int], Offer] = {}
    for path in map(Path, paths):
        if is_export(path):
            for offer in _exported(path):
                _keep_longest(found, offer)
        else:
            raw.append(path)
    for offer in _raw(raw) if raw else ():
        _keep_longest(found, offer)
    return sorted(found.values(), key=_order)


def is_export(path: Path) -> bool:
    return (path / parquet.NOTES).is_dir()


def _order(offer: Offer) -> tuple[str, str, str, int, str, int]:
    header = offer.header
    whose = header.cluster, header.group, header.member, header.incarnation
    return *whose, header.journal, header.number


def _keep_longest(found: dict[tuple[str, int], Offer], offer: Offer) -> None:
    other = found.get(offer.key)
    if other is None or offer.size > other.size:
        found[offer.key] = offer


def _raw(paths: Sequence[Path]) -> list[Offer]:
    by_key: dict[tuple[str, int], list[_Found]] = {}
    for path in reader.find(paths):
        header = reader.read_header(path)
        footer = ending(path)  # before the size: what is sealed then grows no more
        copy = Copy(str(path.resolve()), reader.size_of(path))
        by_key.setdefault((header.journal, header.number), []).append(_Found(header, copy, footer))
    sealed = {key: next((f for f in some if f.footer), None) for key, some in by_key.items()}
    offers = []
    for (journal, number), some in by_key.items():
        whole, before = sealed[journal, number], sealed.get((journal, number - 1))
        offer = Offer(
            header=some[0].header,
            size=max(found.copy.size for found in some),
            sealed=whole is not None,
            copies=[found.copy for found in some],
            after=before.footer.last if before and before.footer and before.footer.rows else None,
            end_ns=whole.end_ns if whole else None,
        )
        offers.append(offer)
    return offers


def _exported(folder: Path) -> list[Offer]:
    notes = sorted((folder / parquet.NOTES).glob("*.json"))
    if not notes:
        problem = "nothing was exported to this folder"
        remedy = "give one that `phalanx journal export` wrote to"
        raise JournalError(str(folder), None, problem, remedy)
    offers = []
    for path in notes:
        note = parquet.note_of(path)
        end_ns = None
        if note.found is not None:
            end_t_ns = msgspec.convert(note.found, ScanSummary).end_t_ns
            end_ns = note.header.wall_ns + end_t_ns - note.header.mono_ns
        offer = Offer(
            header=note.header,
            size=note.bytes,
            sealed=note.sealed,
            note=str(path.resolve()),
            end_ns=end_ns,
        )
        offers.append(offer)
    return offers
