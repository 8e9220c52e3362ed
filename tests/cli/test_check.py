"""`phalanx check`: violations are found in real journals, and missing evidence is none."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.journal.journal_folder import journal, keep, segment
from tests.verify.trace_builder import TraceBuilder, calm, odyssey

from phalanx.cli.main import main
from phalanx.journal import blocks
from phalanx.journal import schema as ev
from phalanx.sim.generators import scenario_of
from phalanx.sim.world import World


def phalanx(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def checked(*paths: Path, code: int = 0) -> dict[str, Any]:
    result = phalanx("check", "--json", *paths)
    assert result.exit_code == code, result.output
    loaded = json.loads(result.stdout)
    assert isinstance(loaded, dict)
    return loaded


def verdicts(group: dict[str, Any]) -> dict[str, str]:
    return {name: found["verdict"] for name, found in group["properties"].items()}


def of(tale: TraceBuilder, letter: str) -> Path:
    member, incarnation = letter.lower(), 2 if letter.isupper() else 1
    return Path(f"g-{member}-{incarnation:06}-000001.phj")


# ---------------------------------------------------------------------------- whole journals


def test_whole_journals_of_a_sound_run_hold_and_exit_0(tmp_path: Path) -> None:
    keep(tmp_path, odyssey().rows, mode="flow")
    (group,) = checked(tmp_path)["groups"]
    assert group["violated"] == []
    assert (group["group"], group["cluster"], group["mode"]) == ("g", "c", "flow")
    assert group["absent"] == []
    assert group["unended"] == ["d.1"]
    held = {name for name, verdict in verdicts(group).items() if verdict == "holds"}
    assert {"virtual-synchrony", "weak-total-order", "integrity", "safe-prefix"} <= held
    assert verdicts(group)["multicast-liveness"] == "unverifiable"
    assert "settled" in group["properties"]["multicast-liveness"]["why"]
    text = phalanx("check", tmp_path).stdout
    assert "holds" in text
    assert "not verified" in text
    assert "violated" not in text
    assert "ended without a stop, the last rows may be missing: d" in text


def test_swapped_agreed_deliveries_are_found_with_the_counterexample(tmp_path: Path) -> None:
    tale = TraceBuilder("ab").send("a", 1).send("b", 1)
    tale.deliver("a", "a", 1, pos=0).deliver("a", "b", 1, pos=1)
    tale.deliver("b", "b", 1, pos=0).deliver("b", "a", 1, pos=1)
    tale.send("a", 2).deliver("a", "a", 2, pos=2).deliver("b", "a", 2, pos=2)
    keep(tmp_path, tale.rows)
    result = phalanx("check", tmp_path)
    assert result.exit_code == 1
    (row,) = [line.split() for line in result.stdout.splitlines() if " running-prefix " in line]
    assert row[:4] == ["violated", "4", "6", "running-prefix"], "2 of 3 places, at 2 members"
    assert "  verdict      violations  times checked  guarantee" in result.stdout
    assert "a has a#1 at position 0 of v1, b has b#1 at 0" in result.stdout
    assert " >" in result.stdout, "the rows are shown"
    facts = checked(tmp_path, code=1)
    assert facts["violated"] is True
    assert facts["groups"][0]["violated"] == ["running-prefix"]
    found = facts["groups"][0]["properties"]["running-prefix"]
    assert (found["violations"], found["checked"]) == (4, 6)
    assert found["examples"]


def test_order_broken_before_a_next_view_is_found_too(tmp_path: Path) -> None:
    tale = TraceBuilder("abc").send("a", 1).send("b", 1)
    tale.deliver("a", "a", 1, pos=0).deliver("a", "b", 1, pos=1)
    tale.deliver("b", "b", 1, pos=0).deliver("b", "a", 1, pos=1)
    tale.install("ab", "v2", "ab", removals=1).stop()
    keep(tmp_path, tale.rows)
    assert "weak-total-order" in checked(tmp_path, code=1)["groups"][0]["violated"]


def test_groups_and_clusters_are_checked_apart(tmp_path: Path) -> None:
    other = [msgspec.structs.replace(row, group="h") for row in calm().rows]
    keep(tmp_path / "1", calm().rows)
    keep(tmp_path / "2", calm().rows, cluster="d")
    keep(tmp_path / "2", other)
    groups = checked(tmp_path)["groups"]
    assert [(g["cluster"], g["group"]) for g in groups] == [("c", "g"), ("c", "h"), ("d", "g")]


# ---------------------------------------------------------------------------- missing evidence


def test_a_journal_that_was_not_given_makes_guarantees_unverified_not_violated(
    tmp_path: Path,
) -> None:
    tale = odyssey()
    keep(tmp_path, tale.rows, mode="flow")
    (tmp_path / of(tale, "a")).unlink()
    (group,) = checked(tmp_path)["groups"]
    assert group["absent"] == ["a.1"]
    assert verdicts(group)["integrity"] == "unverifiable"
    assert group["properties"]["integrity"]["why"] == "no journal of a.1"
    assert verdicts(group)["safe-prefix"] == "unverifiable"
    assert verdicts(group)["self-inclusion"] == "holds"
    assert "not verified" in phalanx("check", tmp_path).stdout


def test_a_violation_is_found_though_a_third_journal_is_missing(tmp_path: Path) -> None:
    tale = TraceBuilder("abc").send("a", 1).send("b", 1)
    tale.deliver("a", "a", 1, pos=0).deliver("a", "b", 1, pos=1)
    tale.deliver("b", "b", 1, pos=0).deliver("b", "a", 1, pos=1)
    keep(tmp_path, tale.rows)
    (tmp_path / of(tale, "c")).unlink()
    assert checked(tmp_path, code=1)["groups"][0]["violated"] == ["running-prefix"]


def test_what_a_killed_member_sent_last_is_not_held_against_who_delivered_it(
    tmp_path: Path,
) -> None:
    tale = TraceBuilder("abc").send("a", 1).deliver("abc", "a", 1, pos=0)
    tale.send("a", 2, 3, service="SAFE").deliver("abc", "a", 2, 3, pos=1)
    tale.install("bc", "v2", "bc", removals=1).stop()
    killed = [row for row in tale.rows if row.member != "a" or row.lseq <= 3]
    keep(tmp_path, killed)
    (group,) = checked(tmp_path)["groups"]
    assert group["unended"] == ["a.1"]
    assert group["absent"] == []
    assert verdicts(group)["integrity"] == "holds"


def test_a_message_that_a_whole_journal_shows_was_never_sent_is_a_violation(
    tmp_path: Path,
) -> None:
    tale = (
        TraceBuilder("ab")
        .send("a", 1)
        .deliver("ab", "a", 1, pos=0)
        .deliver("b", "a", 2, pos=1)
        .stop()
    )
    keep(tmp_path, tale.rows)
    assert "integrity" in checked(tmp_path, code=1)["groups"][0]["violated"]


def test_rows_lost_to_the_disk_are_missing_evidence(tmp_path: Path) -> None:
    tale = odyssey()
    keep(tmp_path, [r for r in tale.rows if r.member != "b"], mode="flow")
    mine = [msgspec.structs.replace(r, sim_ns=None) for r in tale.rows if r.member == "b"]
    mine = [
        msgspec.structs.replace(r, lseq=n)
        for n, r in enumerate([r for r in mine if not isinstance(r, ev.Topology)], 1)
    ]
    common = {f: getattr(mine[11], f) for f in ev.Row.__struct_fields__}
    gap = ev.Gap(**common, first=5, last=mine[11].lseq, reason="No space left on device")
    assert isinstance(gap, ev.Gap)
    written = journal(tmp_path, "b", config={"mode": "flow"})
    written.write([*mine[:4], gap, *mine[12:]])
    written.close()
    (group,) = checked(tmp_path)["groups"]
    assert group["torn"] == {"b.1": "rows 5 to 12: No space left on device"}
    assert verdicts(group)["virtual-synchrony"] == "unverifiable"
    assert group["properties"]["fifo"]["why"] == "rows are missing of b.1"


def test_a_corrupt_block_is_missing_evidence_and_is_told(tmp_path: Path) -> None:
    tale = calm()
    keep(tmp_path, tale.rows)
    path = tmp_path / of(tale, "b")
    data = bytearray(path.read_bytes())
    data[data.find(blocks.MAGIC) + blocks.HEAD_BYTES + 9] ^= 4
    path.write_bytes(data)
    facts = checked(tmp_path)
    assert facts["problems"] == [f"{path}: 1 corrupt"]
    assert list(facts["groups"][0]["torn"]) == ["b.1"]
    assert "cannot be read" in facts["groups"][0]["torn"]["b.1"]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_missing_of_a_sound_run_violates_nothing(seed: int, tmp_path: Path) -> None:
    """Journals are cut short, holed or gone, each at random; steps stay whole."""
    from phalanx.verify.checkers import check

    scenario = scenario_of(seed, 3, 5, "membership")
    lives: dict[tuple[str, int], list[ev.Event]] = {}
    for row in World(scenario, None).run().rows:
        if not isinstance(row, ev.Topology) and getattr(row, "op", "") != "CRASH":
            mine = lives.setdefault((row.member, row.incarnation), [])
            mine.append(msgspec.structs.replace(row, sim_ns=None, lseq=len(mine) + 1))
    dice = random.Random(seed)
    for _ in range(4):
        rows: list[ev.Event] = []
        for mine in lives.values():
            ends = [i for i, r in enumerate(mine, 1) if i == len(mine) or r.step != mine[i].step]
            first, last = sorted(dice.choices(ends, k=2))
            rows += dice.choice([mine, [], mine[:last], mine[:first] + mine[last:]])
        assert check(rows, expect_liveness=False).violated == ()


# ---------------------------------------------------------------------------- settings


def test_settings_that_differ_within_a_view_are_told_first(tmp_path: Path) -> None:
    orders = {"a": {"order": "toto"}, "b": {"order": "all-ack"}, "c": {"order": "toto"}}
    keep(tmp_path, calm().rows, settings=orders)
    lines = phalanx("check", tmp_path).stdout.splitlines()
    assert lines[0] == (
        "settings differ in group g of c: order is 'all-ack' at b.1, 'toto' at a.1, c.1; "
        "they must agree"
    )
    assert lines[1].startswith("  members that differ were in one view (v1)")
    (group,) = checked(tmp_path)["groups"]
    assert group["settings"] == {"order": {"all-ack": ["b.1"], "toto": ["a.1", "c.1"]}}
    assert group["mixed"] == ["v1"]


def test_lives_with_other_settings_that_shared_no_view_are_told_apart(tmp_path: Path) -> None:
    tale = TraceBuilder("abc", boot="").install("ab", "v1", "ab").install("c", "w1", "c")
    orders = {"a": {"order": "toto"}, "b": {"order": "toto"}, "c": {"order": "all-ack"}}
    keep(tmp_path, tale.rows, settings=orders)
    lines = phalanx("check", tmp_path).stdout.splitlines()
    assert "'all-ack' at c.1, 'toto' at a.1, b.1" in lines[0]
    assert lines[1] == "  no view has members that differ"
    assert checked(tmp_path)["groups"][0]["mixed"] == []


def test_settings_that_agree_or_need_not_are_not_mentioned(tmp_path: Path) -> None:
    own = {name: {"order": "toto", "hello_ns": ord(name)} for name in "ab"}
    keep(tmp_path, calm().rows, settings=own)
    assert "settings" not in phalanx("check", tmp_path).stdout
    assert checked(tmp_path)["groups"][0]["settings"] == {}


# ---------------------------------------------------------------------------- bad input


def test_bad_input_is_one_line_and_exit_2(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    text = tmp_path / "x.phj"
    text.write_text("hello")
    for path in (folder, text, tmp_path / "none.phj"):
        result = phalanx("check", path)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert str(path) in result.stderr
        assert result.stdout == ""
    assert phalanx("check").exit_code == 2


def test_two_journals_of_one_life_are_refused(tmp_path: Path) -> None:
    keep(tmp_path / "1", calm().rows)
    keep(tmp_path / "2", calm().rows)
    result = phalanx("check", tmp_path)
    assert result.exit_code == 2
    assert "a second journal of a.1 in group 'g'" in result.stderr


def test_a_journal_without_rows_is_nothing_to_check(tmp_path: Path) -> None:
    segment(tmp_path)
    assert "nothing to check" in phalanx("check", tmp_path).stdout
    assert checked(tmp_path)["groups"] == []
