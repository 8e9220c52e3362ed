"""The stream of simulated groups, with crashes, partitions, merges, restarts and lost journals.

For every seed, and for random subsets of the journals, some of them cut off at random rows, in
random order of reading and with restarts of the stream:
1. no message is yielded twice;
2. the messages of a view come with growing positions;
3. what was yielded of a view that the stream has left is what the members delivered that left it
   the same way, without one left out;
4. what was yielded of the view in which the stream is, or was when continuity broke, is a prefix of
   what every member delivered that left the view;
5. so the streams of any two subsets agree on each view as far as both go;
6. correct journals are never refused.
"""

from __future__ import annotations

import pytest
from tests.pipeline.message_stream.simulated_group import check_seed

from phalanx.errors import PipelineError

SEEDS = range(24)
LONG = range(24, 400)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_of_any_journals_has_each_message_once_and_in_order(seed: int) -> None:
    check_seed(seed)


@pytest.mark.slow
def test_a_long_sweep() -> None:
    failed = []
    for seed in LONG:
        try:
            check_seed(seed)
        except (AssertionError, PipelineError) as error:
            failed.append((seed, str(error).splitlines()[0]))
    assert failed == []


def test_messages_are_yielded_before_their_view_ends_and_continuity_breaks_sometimes() -> None:
    """The sweep puts the rules to the test."""
    counts = [check_seed(seed) for seed in range(6)]
    assert all(sum(c[kind] for c in counts) for kind in ("messages", "breaks", "open"))
