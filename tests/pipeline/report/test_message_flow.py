"""How much of the messages is drawn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from phalanx.pipeline.report.message_flow import share

CELLS = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 64)), min_size=1, max_size=50)


def used(cells: list[tuple[int, int]], each: int) -> tuple[int, int]:
    kept = [(min(count, each), size) for count, size in cells]
    return sum(n for n, _ in kept), sum(n * size for n, size in kept)


@given(CELLS, st.integers(50, 2_000), st.integers(3_200, 20_000))
def test_each_stretch_gets_the_most_that_there_is_room_for(
    cells: list[tuple[int, int]], sends: int, deliveries: int
) -> None:
    each = share(cells, sends, deliveries)
    assert used(cells, each) <= (sends, deliveries)
    assert used(cells, each)[1] <= deliveries
    more = used(cells, each + 1)
    everything = each >= max(count for count, _ in cells)
    assert everything or more[0] > sends or more[1] > deliveries


def test_a_small_run_is_drawn_whole_beside_a_large_one() -> None:
    assert share([(10, 5)] * 20 + [(1_000_000, 5)], 6_000, 60_000) >= 10


def test_every_stretch_has_a_line_however_little_room_there_is() -> None:
    assert share([(9, 64)] * 240, 1, 1) == 1
