"""The rows of campaigns in a folder: one file per wave, and nothing else.

    DIR/membership-3-8.9ad85f8729e1ade1.0000000000-0000000640.parquet

A wave has all seeds from the first number up to, not including, the second. Its file appears
whole, by rename, and its name says what it contains. The seeds that no file name covers are still
to do, so a campaign that was killed continues where it stopped. Rows also have the campaign and
the version of the code: any engine can read the folder as one table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.campaign.seed_task import schema
from phalanx.sim.generators import KINDS

_KINDS = "|".join(KINDS)
_NAME = re.compile(
    rf"(?P<campaign>(?:{_KINDS})-\d+-\d+(?:\+[\w-]+)*)\.(?P<code>[0-9a-f]+)\.(?P<first>\d+)-(?P<end>\d+)\.parquet"
)
_WALL = b"wall_ms"


class Wave(NamedTuple):
    """Seeds first to end - 1 of a campaign, played by one version of the code."""

    campaign: str
    code: str
    first: int
    end: int

    @property
    def file(self) -> str:
        return f"{self.campaign}.{self.code}.{self.first:010}-{self.end:010}.parquet"


def waves_in(folder: Path) -> list[Wave]:
    """What is there, in order."""
    files = (path.name for path in folder.glob("*.parquet") if path.is_file())
    found = [_NAME.fullmatch(name) for name in files]
    return sorted(
        Wave(m["campaign"], m["code"], int(m["first"]), int(m["end"])) for m in found if m
    )


def waves_of(folder: Path, campaign: str, code: str) -> list[Wave]:
    """What is there of one campaign, played by one version of the code."""
    return [wave for wave in waves_in(folder) if (wave.campaign, wave.code) == (campaign, code)]


def prepare(folder: Path) -> None:
    """PipelineError if waves cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def publish(folder: Path, wave: Wave, table: Any, wall_ms: int) -> None:
    """Writes the rows of a wave, all at once; those of an earlier attempt are replaced."""
    pa = arrow()
    prepare(folder)
    seeds = table["seed"].to_pylist()
    assert sorted(seeds) == list(range(wave.first, wave.end)), f"{wave}: not each seed once"
    path = folder / wave.file
    # Engines pass over names that begin so, and another driver has another name.
    fresh = path.with_name(f"_{path.name}.{os.getpid()}.tmp")
    metadata = {_WALL: str(wall_ms)}
    ordered = table.cast(schema()).sort_by("seed").replace_schema_metadata(metadata)
    try:
        pa.parquet.write_table(ordered, fresh, compression="zstd")
        fresh.rename(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> PipelineError:
    problem = f"cannot be written ({error.strerror or error})"
    return PipelineError(str(path), problem, "choose a place that can be written")


def left(waves: Iterable[Wave], first: int, end: int) -> Iterator[tuple[int, int]]:
    """The stretches of seeds that no wave covers, in order."""
    for wave in sorted((w for w in waves if w.end > first), key=lambda w: w.first):
        if first >= end:
            return
        if wave.first > first:
            yield first, min(wave.first, end)
        first = max(first, wave.end)
    if first < end:
        yield first, end


def rows(folder: Path, waves: Sequence[Wave]) -> Any:
    """One table of all these waves. PipelineError for a file that is no longer whole."""
    pa = arrow()
    found = []
    for wave in waves:
        path = folder / wave.file
        remedy = "delete it and run the campaign again"
        try:
            table = pa.parquet.read_table(path).replace_schema_metadata(None)
            table = table.select(schema().names).cast(schema())
        except (OSError, ValueError, KeyError) as error:  # Arrow's are of these
            problem = f"cannot be read ({error})"
            raise PipelineError(str(path), problem, remedy) from error
        if table["seed"].to_pylist() != list(range(wave.first, wave.end)):
            raise PipelineError(str(path), "its seeds are not those of its name", remedy)
        found.append(table)
    return pa.concat_tables(found) if found else schema().empty_table()


def wall_ms(folder: Path, waves: Iterable[Wave]) -> int:
    """How long these waves took, one after the other."""
    pa = arrow()
    found = (pa.parquet.read_schema(folder / wave.file).metadata or {} for wave in waves)
    return sum(int(facts.get(_WALL, 0)) for facts in found)
