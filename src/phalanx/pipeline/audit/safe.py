"""Safe prefix: who delivers a safe message before the marker knows that everyone in the view has
it, so everyone in the view delivers it there, in either region, or crashes or leaves.

Stability takes a frame of every member that was sent in the view. A member that never installed
the view sent none: then a regular delivery is wrong. The end of the story can be asked only of
members that left the view behind, or of all once the run has settled.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, lowest, witness
from phalanx.pipeline.audit.messages import SAFE

NAME = "safe-prefix"


def _asked() -> tuple[Column, Column, Column]:
    """Who is absent from the view, who must deliver the cell in it, and who does not."""
    safe = (F.col("service") == SAFE) & (F.col("regular") != 0)
    absent, owe = (F.when(safe, F.col(name)) for name in ("absent", "duty"))
    owe = owe.bitwiseAND(F.col("meant"))
    return absent, owe, owe.bitwiseAND(F.bitwise_not(F.col("have")))


def times() -> dict[str, Column]:
    absent, owe, _ = _asked()
    return {NAME: (absent != 0) | (owe != 0)}


def cases() -> list[Case]:
    """Of cells."""
    absent, _, lack = _asked()
    seen = witness()
    given: dict[str, Any] = {"who": seen[0], "s": "s", "first": "c1", "last": "c2", "v": "v"}
    given |= {"rows": [seen]}
    return [
        Case(f"{NAME}/absent", absent != 0, other=lowest(absent), **given),
        Case(f"{NAME}/missing", lack != 0, other=lowest(lack), **given),
    ]
