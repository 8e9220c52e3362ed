"""What a mutant is: one rule of the core broken, and where that should show."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec

from phalanx.sim.kinds import Kind

Patch = tuple[type | ModuleType, str, Callable[..., Any]]
"""A class or module, the name of a method or function of its own, and what stands in for it."""


class Mutant(msgspec.Struct, frozen=True):
    """One rule, broken by a few replaced functions."""

    breaks: str
    """What it does wrong, as one would tell it to somebody who knows the rule."""
    patches: tuple[Patch, ...]
    kind: Kind = "fixed"
    """The kind of random scenarios in which it should be caught."""
    scenarios: tuple[str, ...] = ()
    """Names of directed scenarios that catch it, for cases that chance seldom draws."""
