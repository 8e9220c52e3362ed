"""Views over time as text: literal pictures of hand-made traces."""

from __future__ import annotations

import msgspec
from tests.verify.trace_builder import TraceBuilder, in_ms, odyssey

from phalanx.journal import schema as ev
from phalanx.verify.render.timeline import bands, changes


def test_views_are_bands_over_time() -> None:
    assert bands(in_ms(odyssey()), 72) == [
        "     0    11    22    31    58    73    87    101    111    135   159 ms",
        "a    A-----......---E------...--!-F-----------.....---J------..---K----",
        "b      B----......--E-------...-!--F-----------.....---J----.....o",
        "c       C----.....---E-------...----G----H-----......--J------..--K----",
        "d         D---.....---E-------..----G--x",
        "d.2                                        I----.....---J-----..---K---",
        "",
        "A  va         boot    2.0 to 28.0 ms            a",
        "B  vb         boot    5.0 to 29.0 ms            b",
        "C  vc         boot    8.0 to 30.0 ms            c",
        "D  vd         boot    11.0 to 31.0 ms           d",
        "E  v1         join    28.0 to 76.0 ms           a b c d  of A B C D",
        "F  v2         removal 73.0 to 114.0 ms          a b",
        "G  v3         removal 75.0 to 89.0 ms           c d",
        "H  v4         removal 89.0 to 115.0 ms          c",
        "I  vD         boot    92.0 to 116.0 ms          d.2",
        "J  v5         join    113.0 to 145.0 ms         a b c d.2  of F H I",
        "K  v6         removal 143.0 to 159.0 ms         a c d.2",
    ]


def test_changes_are_timed_from_the_first_step_of_any_member() -> None:
    assert changes(in_ms(odyssey())) == [
        "   cause   installed  began ms      first       last    took ms",
        "E  join      4 of 4       16.0       28.0       31.0       15.0",
        "F  removal   2 of 2       57.0       73.0       74.0       17.0  without c d",
        "G  removal   2 of 2       60.0       75.0       76.0       16.0  without a b",
        "H  removal   1 of 1       87.0       89.0       89.0        2.0  without d",
        "J  join      4 of 4      101.0      113.0      116.0       15.0",
        "K  removal   3 of 3      136.0      143.0      145.0        9.0  without b",
    ]


def test_a_change_begins_with_the_suspicion_that_was_never_taken_back() -> None:
    def suspect(tale: TraceBuilder, state: str, before: str) -> TraceBuilder:
        columns = {"target": "b", "target_incarnation": 1, "evidence": "SILENCE"}
        return tale.row("a", ev.PeerSuspicion, state=state, previous=before, **columns)

    tale = suspect(TraceBuilder("ab"), "SUSPECTED", "OPERATIONAL")
    suspect(tale, "OPERATIONAL", "SUSPECTED")
    suspect(tale, "SUSPECTED", "OPERATIONAL")
    suspect(tale, "FAULTY", "SUSPECTED").change("a", "FA").install("a", "v2", "a", 1)
    assert changes(in_ms(tale))[1].split()[1:] == [
        *("removal", "1", "of", "1", "4.0", "7.0", "7.0", "3.0", "without", "b")
    ]


def test_lives_too_short_for_a_column_keep_their_first_letter() -> None:
    tale = TraceBuilder("a").install("b", "v2", "b").life("b", "CRASH")
    for _ in range(1000):
        tale.row("a", ev.Clock, wall_ns=0, boot_id="")
    band = bands(in_ms(tale.stop()))[2]
    assert band == "b  Bx"


def test_rows_without_a_common_clock_make_no_picture() -> None:
    rows = [msgspec.structs.replace(r, sim_ns=None) for r in odyssey().rows]
    assert bands(rows) == ["no picture: the rows have no common clock"]
    assert changes(rows) == ["no table: the rows have no common clock"]
    assert bands([]) == ["no picture: the rows have no common clock"]


def test_a_run_without_changes_says_so() -> None:
    assert changes(in_ms(TraceBuilder("ab").stop())) == ["no view changed"]


def test_no_line_is_wider_than_a_terminal() -> None:
    tale = TraceBuilder("abcdefgh")
    for removals in range(1, 80):
        tale.install("abcdefgh", f"v{removals + 1}", "abcdefgh", removals)
    rows = [msgspec.structs.replace(r, member=r.member * 40) for r in in_ms(tale)]
    rows = [
        msgspec.structs.replace(r, members=[m * 40 for m in r.members])
        if isinstance(r, ev.ViewInstalled)
        else r
        for r in rows
    ]
    lines = [*bands(rows), *changes(rows)]
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith("aaaaaaaaaaaaa…  A")
    assert sum(line.startswith("*  v") for line in lines) == 30, "more views than letters"
