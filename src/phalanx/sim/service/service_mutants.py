"""Mutants of the service: one rule broken at a time, to show that a checker catches it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phalanx.errors import ConfigurationError
from phalanx.sim.mutants.mutant import Patch
from phalanx.sim.service.group_mutants import GROUP_MUTANTS
from phalanx.sim.service.hierarchy_mutants import HIERARCHY_MUTANTS
from phalanx.sim.service.set_mutants import SET_MUTANTS

SERVICE_MUTANTS: dict[str, tuple[str, tuple[Patch, ...]]] = {
    **SET_MUTANTS,
    **HIERARCHY_MUTANTS,
    **GROUP_MUTANTS,
}
"""Every mutant of the service by name: the rule it breaks, and what stands in for it."""


@contextmanager
def service_mutant(name: str | None) -> Iterator[None]:
    """The service with one rule broken, while the context is open; as it is for None."""
    if name is None:
        yield
        return
    if name not in SERVICE_MUTANTS:
        raise ConfigurationError("mutant", name, f"choose among {', '.join(SERVICE_MUTANTS)}")
    patches = SERVICE_MUTANTS[name][1]
    sound = [vars(owner)[attribute] for owner, attribute, _ in patches]
    for owner, attribute, broken in patches:
        setattr(owner, attribute, broken)
    try:
        yield
    finally:
        for (owner, attribute, _), method in zip(patches, sound, strict=True):
            setattr(owner, attribute, method)
