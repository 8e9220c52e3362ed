"""The audit against the checkers of the simulator on simulated runs: two programs that share
nothing of the judging say the same of every property of every run.

1. Correct runs: every verdict is equal, and nothing is violated.
2. Runs of broken protocols (mutants): every verdict is equal, and each counter-example names
   members and messages that the checkers name too.
A failure prints the names of the runs; `situations.simulated` plays them again.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipeline.audit.played import Played, apart, groups_of
from tests.pipeline.audit.situations import altered, caught, changed, misreported, mutated
from tests.sweeps.mutant_files import FOLDER

from phalanx.pipeline.audit import Audit, AuditViolation, audit_groups
from phalanx.sim.generators import KINDS, Kind
from phalanx.sim.mutants import MUTANTS
from phalanx.verify.checkers import findings
from phalanx.verify.properties import PROPERTIES, Needs, needing

MEMBER = re.compile(r"\b(\w+)\.\d+\b")
MESSAGES = re.compile(r"\b(\w+)\.(\d+)#(\d+)(?:\.\.(\d+))?")
CHANGED, MISREPORTED, ALTERED = 500, 800, 1200
"""Runs of the slow test. A fifth of the first kind is not changed at all."""
FEW = 30
"""Of the altered runs, in the fast test."""
NOT_IN_JOURNALS = {
    "larger-proposal-will-do": "costs a needless time-out",
    "no-answer-without-news": "costs a needless time-out",
    "left-view-not-answered": "costs a needless time-out",
    "earlier-waiting-forgotten": "costs a needless time-out",
    "strangers-closing-frames-dropped": "costs a needless time-out",
    "followed-though-passed": "costs a needless time-out",
    "statements-of-any-view": "costs a needless time-out",
    "closing-frame-on-arrival": "raises, and journals end",
    "issues-before-their-view": "raises, and journals end",
    "phase-not-taken-over": "raises, and journals end",
    "ordered-when-sent": "shown by the frames that members received, which journals lack",
    "stable-at-the-end": "shown by the frames that members received, which journals lack",
    "stable-when-ordered": "shown by the frames that members received, which journals lack",
    "leaver-goes-at-once": "shown by the setting leave_ns, which journals lack",
    "no-window-limit": "shown by the settings of the window, which journals lack",
}
"""Mutants that walks or the simulator catch, and why neither program sees them in journals."""
SEEDS = 60
"""In so many chance shows what nothing was written for."""


def differences(found: Audit, runs: list[Played]) -> dict[str, object]:
    by_name = {run.run: run for run in found.runs}
    told: dict[str, object] = {}
    for run in runs:
        verdicts = {name: r.verdict for name, r in by_name[run.name].properties.items()}
        if differs := apart(verdicts, run.verdicts()):
            told[run.name] = differs
    return told


def test_simulated_runs_are_judged_as_by_the_checkers(
    good: list[Played], bad: list[Played], judged: Audit
) -> None:
    assert differences(judged, [*good, *bad]) == {}
    names = {run.name for run in (*good, *bad)}
    violated = {run.run for run in judged.runs if run.violated and run.run in names}
    assert violated == {run.name for run in bad}, "each mutant is caught, and nothing else"
    for run in bad:
        assert_same_blame(run, judged)


def assert_same_blame(run: Played, found: Audit) -> None:
    """Each counter-example is one that the checkers have too, for the same property: they name
    whoever did it, and the message that it is about. Of orders that differ in many places, two
    programs may name different places."""
    (mine,) = [r for r in found.runs if r.run == run.name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(findings, "VIOLATIONS_KEPT_MAX", sys.maxsize)
        report = run.evidence().report
    for name in mine.violated:
        theirs = report.properties[name].violations
        texts = " ".join(v.text for v in theirs)
        people = {*MEMBER.findall(texts), *(member for v in theirs for member in v.members)}
        for example in mine.properties[name].counterexamples:
            known = {row.member for row in example.rows}
            assert example.members[0] in people, (run.name, example.text, texts)
            assert known <= {*example.members, example.sender}, (run.name, str(example))
            if example.first is not None and name != "weak-total-order":
                same = (m for m in MESSAGES.finditer(texts) if _meets(example, m))
                assert next(same, None), (run.name, example.text, texts)


def _meets(example: AuditViolation, named: re.Match[str]) -> bool:
    member, incarnation, first, last = named.groups()
    assert example.first is not None
    assert example.last is not None
    whose = (member, int(incarnation)) == (example.sender, example.sender_incarnation)
    return whose and int(first) <= example.last and example.first <= int(last or first)


@pytest.mark.slow
def test_five_thousand_correct_runs_audited_together_raise_no_alarm(tmp_path: Path) -> None:
    """Played and judged by `phalanx sim sweep`, judged again by `phalanx audit`."""
    for kind, count in (("fixed", 2000), ("membership", 2000), ("storm", 1000)):
        seeds = ["--kind", kind, "--seeds", f"1000:{1000 + count}"]
        phalanx("sim", "sweep", *seeds, "--journals", str(tmp_path / kind))
    places = [str(place) for place in sorted(tmp_path.iterdir())]
    found = json.loads(phalanx("audit", *places, "--json"))
    assert len(found["runs"]) == 5000
    verdicts = {name: result["verdict"] for name, result in found["properties"].items()}
    wanted = dict.fromkeys(PROPERTIES, "holds") | dict.fromkeys(
        needing(Needs.SIMULATION), "unverifiable"
    )
    assert verdicts == wanted


def phalanx(*arguments: str) -> str:
    """What a command prints; it must end well."""
    command = [sys.executable, "-m", "phalanx.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, (arguments, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def test_some_altered_runs_are_judged_as_by_the_checkers() -> None:
    runs = altered(FEW)
    found = audit_groups(groups_of(runs))
    assert differences(found, runs) == {}
    assert sum(bool(run.violated) for run in found.runs) > FEW // 3


@pytest.mark.slow
def test_two_thousand_alterations_are_judged_as_by_the_checkers() -> None:
    violated, differing = 0, dict[str, object]()
    for run in (*changed(CHANGED), *misreported(MISREPORTED), *altered(ALTERED)):
        found = audit_groups(groups_of([run]))
        differing |= differences(found, [run])
        violated += bool(found.violated)
        if run.name.startswith("misreported"):
            assert_same_blame(run, found)
    assert differing == {}
    print(f"{violated} of {CHANGED + MISREPORTED + ALTERED} runs violate something")
    assert violated > 800


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_runs_of_every_mutant_are_judged_as_by_the_checkers(kind: Kind) -> None:
    grounds = ("fixed",) if kind == "fixed" else ("walk", "membership")
    runs = [
        mutated(mutant, kind, seed)
        for mutant, broken in MUTANTS.items()
        if broken.ground in grounds
        for seed in range(2)
    ]
    found = audit_groups(groups_of(runs))
    assert differences(found, runs) == {}
    for run in runs:
        assert_same_blame(run, found)


@pytest.mark.slow
def test_every_mutant_is_caught_by_its_journals() -> None:
    """In the first run in which the checkers catch it, by chance or by what was written for it."""
    runs = [caught(mutant, range(SEEDS), FOLDER) for mutant in MUTANTS]
    found = audit_groups(groups_of(runs))
    assert differences(found, runs) == {}
    assert {run.run for run in found.runs if not run.violated} == set(NOT_IN_JOURNALS)
    for run in runs:
        assert_same_blame(run, found)
