"""A mutant: one rule of the core broken, and the kind of run that should catch it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal

import msgspec

from phalanx.sim.generators import Kind

Patch = tuple[type | ModuleType, str, Callable[..., Any] | property]
"""A class or module, the name of a method or function of its own, and what stands in for it."""

Ground = Kind | Literal["walk"]
"""The runs that test a mutant: random scenarios of one kind, or random walks of small groups."""


class Mutant(msgspec.Struct, frozen=True):
    """One rule, broken by a few replaced functions."""

    breaks: str
    """The rule of docs/protocol that is broken, and how, in one sentence: `B-9: ...`."""
    patches: tuple[Patch, ...]
    ground: Ground = "fixed"
    """Where chance finds it out soonest."""
