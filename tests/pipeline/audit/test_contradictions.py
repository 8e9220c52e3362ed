"""Journals that contradict themselves in ways that one of the two programs once let pass."""

from __future__ import annotations

from random import Random

import pytest
from tests.pipeline.audit.played import Played, apart, groups_of
from tests.pipeline.audit.situations import claim_stable, kept, name_stranger, reported

from phalanx.pipeline.audit import RunVerdicts, audit_groups


def judged(run: Played) -> RunVerdicts:
    """By the audit, with the verdicts of the checkers."""
    (found,) = audit_groups(groups_of([run])).runs
    verdicts = {name: result.verdict for name, result in found.properties.items()}
    assert apart(verdicts, run.verdicts()) == {}
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("settled", [True, False])
def test_a_view_that_names_a_stranger_makes_it_absent(seed: int, settled: bool) -> None:
    """Only one member's row names it; that of the others, read first or not, is kept as the view.
    What its journal could contradict is not verified."""
    (legal,) = [run for run in kept() if run.name == "calm"]
    rows = name_stranger(Random(seed), list(legal.rows))
    run = judged(Played("stranger", rows, settled, "hold"))
    (stranger,) = run.absent
    assert int(stranger.rpartition(".")[2]) > 5
    assert "vid-sanity" in run.violated
    assert not run.settled
    whys = [result.why for result in run.properties.values()]
    assert whys.count(f"no journal of {stranger}") > 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("settled", [True, False])
def test_a_receipt_for_messages_that_were_never_sent_is_false(seed: int, settled: bool) -> None:
    (legal,) = [run for run in reported() if run.name == "told all"]
    assert judged(Played("true", legal.rows, settled, "flow")).violated == ()
    rows = claim_stable(Random(seed), list(legal.rows))
    run = judged(Played("false", rows, settled, "flow"))
    assert run.violated == ("receipt-truth",)
    texts = [found.text for found in run.properties["receipt-truth"].counterexamples]
    assert any("which was never sent" in text for text in texts) or len(texts) == 3
