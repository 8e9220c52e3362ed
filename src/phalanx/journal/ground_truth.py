"""Facts that only a simulator knows of a run: `config["truth"]` in the headers of its journals.

Real journals have none, so properties that need them are not judged on real journals.
"""

from __future__ import annotations

from typing import Any

import msgspec


class GroundTruth(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a simulator knows of a run; `config["truth"]` in the header of its journals."""

    settled: bool = False
    """Whatever was going to happen has happened."""
    undisturbed_ns: int = 0
    """From when on nothing was done to any member."""
    changes_max: int | None = None
    """How often a member had cause to change its view, if that is known."""


def truth_of(config: dict[str, Any]) -> GroundTruth:
    """What the settings of a header say; the plain truth of a real journal is nothing."""
    try:
        return msgspec.convert(config.get("truth", {}), GroundTruth)
    except msgspec.ValidationError:
        return GroundTruth()
