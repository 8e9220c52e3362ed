"""Files of recorded events: their manifest, and checking them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from phalanx.config import Mode
from phalanx.errors import EventFileError
from phalanx.journal import jsonl as eventfile
from phalanx.journal.schema import Event
from phalanx.sim.run import RunResult, digest_of_rows
from phalanx.sim.scenario.toml_file import to_toml
from phalanx.text import one_line
from phalanx.verify.checkers import Report, check
from phalanx.verify.render.verdict_table import properties, verdicts
from phalanx.verify.render.violation_story import violation_story

DAMAGE_SHOWN_MAX = 20


class EventFileManifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known about a run beside its rows. Events of other origin may lack all of it."""

    name: str = ""
    seed: int | None = None
    mutant: str | None = None
    digest: str | None = None
    expect_liveness: bool = False
    """Whether the checkers may expect that everything happened that was going to happen."""
    stuck: str | None = None
    exception: str | None = None
    scenario: str = ""
    mode: Mode | None = None
    undisturbed_ns: int = 0
    """From when on nothing was done to any member."""
    changes_max: int | None = None
    """How often a member had cause to change its view, if that is known."""


def manifest(result: RunResult, mutant: str | None = None) -> dict[str, Any]:
    """What is written in front of the rows of a run."""
    known = EventFileManifest(
        name=result.scenario.name,
        seed=result.seed,
        mutant=mutant,
        digest=result.digest,
        expect_liveness=result.expect_liveness,
        stuck=result.stuck_because,
        exception=result.exception,
        scenario=to_toml(result.scenario),
        mode=result.scenario.config_of(result.scenario.members[0]).mode,
        undisturbed_ns=result.scenario.undisturbed_ns(),
        changes_max=result.scenario.changes_max,
    )
    facts = msgspec.to_builtins(known)
    assert isinstance(facts, dict)
    return facts


def check_events(file: str, as_json: bool) -> None:
    """Judge the rows of a file again; exit 1 for anything that is or was wrong."""
    header, rows = eventfile.read(file)
    try:
        known = msgspec.convert(header, EventFileManifest)
    except msgspec.ValidationError as error:
        raise EventFileError(file, 1, f"a strange manifest ({error})", "restore it") from None
    try:
        report = check(
            rows,
            expect_liveness=known.expect_liveness,
            mode=known.mode,
            undisturbed_ns=known.undisturbed_ns,
            changes_max=known.changes_max,
        )
    except ValueError as error:
        raise EventFileError(file, None, str(error), "give the rows of one run") from error
    digest = digest_of_rows(rows)
    damage = eventfile.damage(rows)
    if known.digest is not None and known.digest != digest:
        damage.append("the digest is not the recorded one: rows were changed, lost or moved")
    if as_json:
        click.echo(json.dumps(_facts(known, rows, digest, damage, report)))
    else:
        _tell(file, known, rows, digest, damage, report)
    if report.violated or damage or known.stuck or known.exception:
        raise click.exceptions.Exit(1)


def _facts(
    known: EventFileManifest, rows: Sequence[Event], digest: str, damage: list[str], report: Report
) -> dict[str, Any]:
    return {
        "rows": len(rows),
        "digest": digest,
        "as_recorded": None if known.digest is None else digest == known.digest,
        "damage": damage,
        "stuck": known.stuck,
        "exception": known.exception,
        "violated": list(report.violated),
        "properties": properties(report),
    }


def _tell(
    file: str,
    known: EventFileManifest,
    rows: Sequence[Event],
    digest: str,
    damage: list[str],
    report: Report,
) -> None:
    same = "as recorded" if digest == known.digest else "NOT the recorded one"
    if known.digest is None:
        same = "none was recorded"
    lines = [f"{file}: {len(rows):,} rows, digest {digest}, {same}"]
    lines += [f"damage: {what}" for what in damage[:DAMAGE_SHOWN_MAX]]
    if len(damage) > DAMAGE_SHOWN_MAX:
        lines.append(f"damage: {len(damage) - DAMAGE_SHOWN_MAX} more of this kind")
    if known.stuck is not None:
        lines.append(f"stuck, as recorded: {known.stuck}")
    if known.exception is not None:
        lines.append(f"exception, as recorded: {(known.exception.splitlines() or [''])[-1]}")
    lines += verdicts(report)
    for violation in report.violations[:2]:
        lines += ["", str(violation), *violation_story(rows, violation)]
    for line in lines:
        click.echo(one_line(line))
