"""Letters and colours of views."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from phalanx.pipeline.report.view_bands import TONES, BandSpell, lettered, toned, views_of

SPANS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(1, 30), st.integers(1, 5)).map(
        lambda s: (s[0], s[0] + s[1], s[2])
    ),
    max_size=40,
)


def test_letters_go_on_after_z() -> None:
    assert [lettered(n) for n in (0, 25, 26, 27, 51, 52, 701, 702)] == [
        *("A", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"),
    ]


@given(SPANS)
def test_views_that_exist_at_once_differ_in_colour_while_there_are_colours(
    spans: list[tuple[int, int, int]],
) -> None:
    tones = toned(spans)
    assert set(tones) <= set(range(TONES))
    for i, (a, b, _) in enumerate(spans):
        rivals = [j for j, (c, d, _) in enumerate(spans) if j != i and c <= b and a <= d]
        if len(rivals) < TONES:
            assert tones[i] not in {tones[j] for j in rivals if not _had_no_choice(spans, j)}


def _had_no_choice(spans: list[tuple[int, int, int]], i: int) -> bool:
    a, b, _ = spans[i]
    return sum(c <= b and a <= d for c, d, _ in spans) > TONES


def test_views_in_a_row_do_not_share_a_colour() -> None:
    spans = [(10 * i, 10 * i + 10, 3) for i in range(30)]
    tones = toned(spans)
    assert all(a != b for a, b in pairwise(tones))


def test_a_view_lasts_from_its_first_installation_to_its_last_end() -> None:
    stays = [
        BandSpell(1, "v", "join", (0, 1), 7, 20),
        BandSpell(0, "v", "join", (0, 1), 5, 15),
        BandSpell(0, "w", "removal", (0,), 15, 30),
    ]
    first, second = views_of(stays)
    assert (first.view, first.label, first.begin, first.end) == ("v", "A", 5, 20)
    assert (second.view, second.label, second.members) == ("w", "B", [0])
    assert first.tone != second.tone
