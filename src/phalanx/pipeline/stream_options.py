"""Options of `spark.readStream.format("phalanx")`, and the error for rows that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.errors import PipelineError
from phalanx.journal.segment import Header
from phalanx.journal.tail_reader import Missing, Segments, Stretch

BYTES_MAX = 64 << 20
FAIL, SKIP = "fail", "skip"
REASONS = {
    "pruned": "were deleted before the stream read them",
    "missing": "are in no copy of its segments",
}


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    bytes_max: int = BYTES_MAX
    """`maxBytesPerTrigger`: about so many bytes of journal are one batch."""
    skip: bool = False
    """`onPruned`: `fail`, or `skip` rows that are missing."""
    mark: str | None = None
    """`mark`: the name under which retention waits for the stream."""


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """PipelineError for values that make no sense."""
    size = options.get("maxBytesPerTrigger", str(BYTES_MAX))
    if not size.isascii() or not size.isdigit() or int(size) < 1:
        raise PipelineError(
            f"maxBytesPerTrigger = {size!r}", "not a size", "give a number of bytes"
        )
    on_pruned = options.get("onPruned", FAIL)
    if on_pruned not in (FAIL, SKIP):
        raise PipelineError(f"onPruned = {on_pruned!r}", "there is none", f"one of {FAIL}, {SKIP}")
    return StreamOptions(
        bytes_max=int(size), skip=on_pruned == SKIP, mark=options.get("mark") or None
    )


def refuse_missing(segments: Segments, found: Mapping[str, Sequence[Stretch]]) -> None:
    """PipelineError that names the journal and the rows, if rows are missing."""
    for journal, stretches in found.items():
        for stretch in stretches:
            if stretch.missing is not None:
                header = next(iter(segments[journal].values())).header
                raise missing_rows(header, stretch.missing)


def missing_rows(header: Header, missing: Missing) -> PipelineError:
    who = f"{header.member}.{header.incarnation} in group {header.group!r}"
    return PipelineError(
        f"journal {header.journal} of {who}",
        f"rows {missing.first} to {missing.last} {REASONS[missing.reason]}",
        f"restore their segments, or set the option onPruned={SKIP}",
    )
