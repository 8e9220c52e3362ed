"""Every broken rule of the membership protocol is caught: by chance, or by what was written for it.

The files in `mutants/` are scenarios and stories of cases that chance seldom draws, made smaller.
Each has the name of the mutant that it catches, and the sound protocol passes it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sweeps.mutant_files import FOLDER, SHOWN_BY, seeds_for

from phalanx.core.ids import MemberId, ViewId, boot_view
from phalanx.core.membership.proposals import component_of, proposal_of, read_proposal
from phalanx.explore.random_walk import play
from phalanx.sim.mutants import MUTANTS, apply
from phalanx.sim.mutation_testing import directed_files, run_file, run_mutant

FILES = sorted(FOLDER.iterdir())
SEEDS = 30
"""What chance draws so soon needs no file."""
BY_CHANCE = [
    mutant
    for mutant, broken in MUTANTS.items()
    if broken.ground != "fixed" and not directed_files(mutant, FOLDER)
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_was_written_for_a_mutant_catches_it_and_nothing_else(file: Path) -> None:
    mutant = file.stem.replace("_", "-")
    assert directed_files(mutant, FOLDER) == [file]
    assert run_file(file, play).violated == ()
    result = run_mutant(mutant, range(0), play, directed=FOLDER)
    assert result.scenario == file.name, f"{mutant} survived {file}"
    assert set(result.caught_by) - {"stuck", "exception"}, "no checker named what was violated"


@pytest.mark.parametrize("mutant", BY_CHANCE)
def test_a_broken_membership_is_caught(mutant: str) -> None:
    result = run_mutant(mutant, seeds_for(mutant, range(SEEDS)), play)
    assert not result.survived, f"{mutant} survived {result.seeds_needed} seeds"
    assert set(result.caught_by) - {"stuck", "exception"}, "no checker named what was violated"


def test_the_order_of_seeds_leaves_none_out() -> None:
    for mutant in ("no-window-limit", *SHOWN_BY):
        assert mutant in MUTANTS
        assert sorted(seeds_for(mutant, range(SEEDS))) == [*range(SEEDS)]


def test_a_mutant_leaves_nothing_behind() -> None:
    """What is read from packets is cached; the cache must not outlive the rules."""
    alone = [component_of(boot_view([MemberId(name)])) for name in "ab"]
    encoded = proposal_of(alone).encoded
    sound = _view_in(encoded)
    with apply("epoch-not-raised"):
        assert _view_in(encoded) != sound
    assert _view_in(encoded) == sound


def _view_in(encoded: bytes) -> ViewId:
    proposal = read_proposal(encoded)
    assert proposal is not None
    return proposal.view.id
