"""Mutants: the protocol with one rule broken, to verify that the checkers catch it.

A checker that has never caught anything proves nothing. Each mutant here breaks one rule of
the core as a careless change would, by replacing a method or two while `apply(name)` is in
force; a run under it (`phalanx.sim.mutation_testing`) must end in a violation or get stuck. Nothing
outside tests and sweeps may import this package.

    fixed_view  order, delivery and reliable broadcast within one view
    agreement   how members agree on a view: rules R1 to R5 and T
    merge       which components unite: rules N and J
    view_boundary  where a view ends and the next begins: cuts, early delivery, carried frames
    discovery   who is alive, who is sought, whose name it is
    roles       which operations members offer
    channels    what a group over channels rests on
    reports     receipts, lost receivers, what comes with a view
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from phalanx.core.membership.proposals import forget_cached
from phalanx.errors import ConfigurationError
from phalanx.sim.mutants import agreement, channels, reports, roles
from phalanx.sim.mutants import discovery as seeking
from phalanx.sim.mutants import fixed_view as fixed
from phalanx.sim.mutants import merge as components
from phalanx.sim.mutants import view_boundary as boundary
from phalanx.sim.mutants.mutant import Mutant, Patch

__all__ = ["MUTANTS", "Mutant", "apply"]

MUTANTS: dict[str, Mutant] = {
    **fixed.MUTANTS,
    **agreement.MUTANTS,
    **components.MUTANTS,
    **boundary.MUTANTS,
    **seeking.MUTANTS,
    **reports.MUTANTS,
    **roles.MUTANTS,
    **channels.MUTANTS,
}
"""Every mutant by name."""


@contextmanager
def apply(name: str) -> Iterator[None]:
    """The core with one rule broken, while the context is open."""
    if name not in MUTANTS:
        raise ConfigurationError("mutant", name, f"choose among {', '.join(MUTANTS)}")
    with ExitStack() as stack:
        forget_cached()
        stack.callback(forget_cached)
        for patch in MUTANTS[name].patches:
            stack.enter_context(_replaced(patch))
        yield


@contextmanager
def _replaced(patch: Patch) -> Iterator[None]:
    owner, name, broken = patch
    sound = vars(owner)[name]  # a rule that has moved elsewhere must not be patched in vain
    setattr(owner, name, broken)
    try:
        yield
    finally:
        setattr(owner, name, sound)
