"""Journals that contradict themselves in ways that one of the two programs once let pass."""

from __future__ import annotations

from random import Random

import pytest
from tests.pipeline.audit.played import Played, apart, groups_of
from tests.pipeline.audit.situations import claim_stable, kept, name_stranger, reported
from tests.verify.trace_builder import TraceBuilder

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


@pytest.mark.parametrize("member", "ab")
def test_a_batch_is_sorted_by_the_frames_that_each_member_wrote(member: str) -> None:
    """Both have the same messages in the batch; the frames of one of them do not rise."""
    tale = TraceBuilder("ab").send("a", 1, frame=5).send("a", 2, frame=5)
    for who in "ab":
        tale.deliver(who, "a", 1, pos=0, batch=0, frame=5)
        tale.deliver(who, "a", 2, pos=1, batch=0, frame=1 if who == member else 5)
    run = judged(Played("frames", tale.rows, False, "flow"))
    assert "toto-refinement" in run.violated


@pytest.mark.parametrize("settled", [True, False])
def test_whom_a_message_is_for_is_what_its_sender_wrote(settled: bool) -> None:
    """c has a message that was for a alone, in a range whose row names all. Nobody skipped it:
    b is not blamed for it, whichever of the rows is looked at first."""
    tale = TraceBuilder("abc").send("a", 1, service="SAFE").send("a", 2, service="SAFE", to="a")
    tale.deliver("ab", "a", 1).deliver("c", "a", 1, 2).deliver("a", "a", 2)
    tale.send("a", 3, service="SAFE").deliver("abc", "a", 3).install("abc", "v2", "abc", 1)
    run = judged(Played("shown", tale.rows, settled, "flow"))
    assert run.violated[:1] == ("integrity",)
    assert "safe-prefix" not in run.violated
    skipped = [found.text for found in run.properties["running-prefix"].counterexamples]
    assert not [text for text in skipped if "skipped" in text]
    texts = [found.text for found in run.properties["integrity"].counterexamples]
    assert "a.1#2 for a.1 was shown to a stranger, c.1" in texts
