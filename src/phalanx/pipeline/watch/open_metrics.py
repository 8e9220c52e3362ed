"""Counts and measures of `phalanx watch` as an OpenMetrics text file, replaced atomically.

A file collector, such as that of node_exporter, reads it. Each family has a TYPE and a HELP line;
the file ends with `# EOF`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from phalanx.errors import PipelineError


class MetricFamily(NamedTuple):
    """Samples of one name. The name of a counter has no `_total`."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: list[tuple[dict[str, str], float]]


def rendered(families: Iterable[MetricFamily]) -> str:
    lines = []
    for family in families:
        lines += [f"# TYPE {family.name} {family.kind}", f"# HELP {family.name} {family.help}"]
        suffix = "_total" if family.kind == "counter" else ""
        for labels, value in family.samples:
            lines.append(f"{family.name}{suffix}{_labels(labels)} {_number(value)}")
    return "\n".join([*lines, "# EOF", ""])


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return f"{{{inside}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def write_metrics(path: Path, families: Iterable[MetricFamily]) -> None:
    """A reader sees the file before or after, never in between. PipelineError if it cannot be
    written."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fresh.write_text(rendered(families), encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        problem = f"cannot be written ({error.strerror or error})"
        raise PipelineError(str(path), problem, "choose a place that can be written") from error
