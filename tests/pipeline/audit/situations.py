"""Situations for the audit, each the rows of a small run: those that the tests of the checkers
tell, and legal ones in which something was changed at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from tests.pipeline.audit.played import Played
from tests.pipeline.audit.reported import LEGAL, WRONG, told_all
from tests.verify.broken_traces import BROKEN
from tests.verify.collected_traces import collected
from tests.verify.random_traces import held_to, legal_tales
from tests.verify.trace_builder import TraceBuilder, calm, odyssey, renumbered

from phalanx.config import lan
from phalanx.explore import story as stories
from phalanx.explore.journal_observer import JournalObserver
from phalanx.explore.random_walk import Walk, play
from phalanx.journal import schema as ev
from phalanx.sim.generators import MEMBERS, Kind, scenario_of
from phalanx.sim.mutants import apply
from phalanx.sim.mutation_testing import run_mutant
from phalanx.sim.scenario.model import Scenario
from phalanx.sim.scenario.toml_file import load
from phalanx.sim.world import World

BROKEN_STEPS_MAX = 50_000
"""Of a run that may never settle; one of a correct protocol takes some thousands."""


def broken() -> list[Played]:
    """One for each property, that breaks it; the name is that of the property."""
    return [Played(name, how.tale().rows, how.settled, how.mode) for name, how in BROKEN.items()]


def reported() -> list[Played]:
    """Legal ones in which members are told everything, and some with one thing wrong."""
    found = [Played(name, rows(), settled, "flow") for name, (rows, settled) in LEGAL.items()]
    return found + [
        Played(name, wrong.rows(), wrong.settled, "flow") for name, wrong in WRONG.items()
    ]


def kept() -> list[Played]:
    """Legal ones, as a simulator and as real members would leave them."""
    return [
        Played("calm", calm().rows, True, "hold"),
        Played("odyssey", odyssey().rows, True, "flow"),
        Played("odyssey without a clock", odyssey().rows, False, "flow"),
        Played("calm, torn off", torn_off(), True, "hold", ended=False),
    ]


def torn_off() -> list[ev.Event]:
    """All that a wrote from its first message on is missing, and others delivered that."""
    rows = calm().rows
    sent = next(row.lseq for row in rows if row.member == "a" and isinstance(row, ev.Sent))
    return [row for row in rows if row.member != "a" or row.lseq < sent]


def simulated(scenario: Scenario, name: str = "run") -> Played:
    """A run of the simulator, as it would be written."""
    outcome = World(scenario, None).run()
    return Played(
        name,
        outcome.rows,
        outcome.exception is None and not outcome.exhausted,
        lan(**scenario.config).mode,
        scenario.undisturbed_ns(),
        scenario.changes_max,
    )


def by_seed(seeds: Mapping[Kind, range]) -> Iterator[Played]:
    """Runs that chance makes."""
    for kind, some in seeds.items():
        for seed in some:
            yield simulated(scenario_of(seed, *MEMBERS[kind], kind), f"{kind}-{seed}")


def mutated(mutant: str, kind: Kind, seed: int) -> Played:
    """A run of a protocol that has one rule broken."""
    with apply(mutant):
        made = scenario_of(seed, *MEMBERS[kind], kind)
        scenario = msgspec.structs.replace(made, steps_max=BROKEN_STEPS_MAX)
        return simulated(scenario, f"{mutant}-{kind}-{seed}")


def walked(what: int | Path, name: str) -> Played:
    """A random walk of a small group, or a story in a file."""
    observer = JournalObserver()
    if isinstance(what, int):
        walk = Walk(what, observer=observer)
        setting, finding = walk.setting, walk.run()
    else:
        story = stories.load(what)
        setting, finding = story.setting, stories.play(story, observer)
    return Played(
        name,
        observer.rows,
        finding is None or finding.check in AT_END,
        "hold" if setting.hold else "flow",
        observer.settling_ns,
        setting.changes_max,
    )


SEEN: dict[str, tuple[Kind, int]] = {
    "safe-without-stability": ("storm", 6),
    "part-of-large-message-lost": ("fixed", 2),
}
"""Where journals show what the simulator knows by itself: that somebody had not got a message that
is safe, and what was submitted in one go with others."""


def caught(mutant: str, seeds: range, folder: Path) -> Played:
    """The first run in which a checker catches a mutant: of a seed, or of its file."""
    if mutant in SEEN:
        kind, seed = SEEN[mutant]
        with apply(mutant):
            return simulated(scenario_of(seed, *MEMBERS[kind], kind), mutant)
    result = run_mutant(mutant, seeds, play, directed=folder)
    assert not result.survived, f"{mutant} survived {result.seeds_needed} seeds and {folder}"
    with apply(mutant):
        if result.scenario is None:
            assert result.seed is not None
            if result.ground == "walk":
                return walked(result.seed, mutant)
            kind = cast("Kind", result.ground)
            return simulated(scenario_of(result.seed, *MEMBERS[kind], kind), mutant)
        file = folder / result.scenario
        return simulated(load(file), mutant) if file.suffix == ".toml" else walked(file, mutant)


AT_END = frozenset({"J4", "J6", "J8", "J2f", "JC"})
"""What a crowd finds once nothing more happens; at anything else it ends there."""

MANY = "".join(chr(0x4E00 + i) for i in range(70))
"""Names of more members than one mask holds."""


def crowd(without: str = "") -> TraceBuilder:
    """All move on, and somebody may have missed a message."""
    tale = TraceBuilder(MANY).send(MANY[0], 1, service="CAUSAL")
    tale.deliver("".join(m for m in MANY if m not in without), MANY[0], 1)
    return tale.install(MANY, "v2", MANY, 1)


# ---------------------------------------------------------------------------- told by others


def told(patch: pytest.MonkeyPatch) -> list[Played]:
    """Every trace that the tests of the checkers put to them."""
    found: list[Played] = []
    for rows, settled, known in collected(patch):
        facts = {
            name: known[name] for name in ("mode", "undisturbed_ns", "changes_max") if name in known
        }
        if len({(row.run, row.group) for row in rows}) == 1:
            found.append(Played(f"told {len(found)}", list(rows), settled, **facts))
    return found


# ---------------------------------------------------------------------------- changed at random


def legal(count: int) -> list[TraceBuilder]:
    """Random legal traces, always the same."""
    found: list[TraceBuilder] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(legal_tales())
    def draw(tale: TraceBuilder) -> None:
        found.append(tale)

    draw()
    return found[:count]


def changed(count: int) -> list[Played]:
    """Random legal traces with one or two things changed: settled ones and others."""
    found = []
    for i, tale in enumerate(legal(count)):
        dice = Random(f"changed {i}")
        rows = list(tale.rows)
        for _ in range(dice.choice((0, 1, 1, 1, 2))):
            rows = dice.choice(CHANGES)(dice, rows) if rows else rows
        known = {n: v for n, v in held_to(tale).items() if n == "mode"}
        if rows:
            found.append(Played(f"changed {i}", rows, dice.random() < 0.7, **known))
    return found


def misreported(count: int) -> list[Played]:
    """Runs in which one or two rows of what members are told are missing or changed at random:
    simulated ones, and the one in which they are told everything."""
    whole = [simulated(scenario_of(seed, 3, 3, "membership")) for seed in range(4)]
    whole += [simulated(scenario_of(seed, 3, 3, "storm")) for seed in range(2)]
    whole.append(Played("told all", told_all().rows, True, "flow"))
    found = []
    for i in range(count):
        dice, run = Random(f"misreported {i}"), whole[i % len(whole)]
        rows = list(run.rows)
        for _ in range(dice.choice((1, 1, 2))):
            rows = _misreport(dice, rows)
        settled = run.settled and dice.random() < 0.8
        found.append(replace(run, name=f"misreported {i}", rows=rows, settled=settled))
    return found


def altered(count: int) -> list[Played]:
    """Simulated runs with one or two things changed at random, each another."""
    found: list[Played] = []
    whole = [
        simulated(scenario_of(seed, 3, 3, kind))
        for kind in ("fixed", "membership", "storm")
        for seed in range(20, 24)
    ]
    for i in range(count):
        dice, run = Random(f"altered {i}"), whole[i % len(whole)]
        rows = list(run.rows)
        for _ in range(dice.choice((1, 1, 2))):
            rows = dice.choice((*CHANGES, name_stranger, claim_stable))(dice, rows)
        settled = run.settled and dice.random() < 0.7
        found.append(replace(run, name=f"altered {i}", rows=rows, settled=settled))
    return found


TOLD = (ev.Stable, ev.Ordered, ev.NotSent, ev.MergedComponent, ev.Queue, ev.Transitional, ev.Life)


def _misreport(dice: Random, rows: Rows) -> Rows:
    table = dice.choice(
        [t for t in (*TOLD, ev.ViewInstalled) if any(isinstance(r, t) for r in rows)]
    )
    at = dice.choice([i for i, row in enumerate(rows) if isinstance(row, table)])
    if table is not ev.ViewInstalled and dice.random() < 0.2:
        return renumbered(rows[:at] + rows[at + 1 :])
    out = list(rows)
    out[at] = msgspec.structs.replace(rows[at], **_columns(dice, rows[at], rows))
    return out


def _columns(dice: Random, row: ev.Event, rows: Rows) -> dict[str, Any]:
    """Other columns of a row."""
    people = sorted({(r.member, r.incarnation) for r in rows})
    some = dice.sample(people, dice.randrange(min(3, len(people)) + 1))
    names, incarnations = [name for name, _ in some], [incarnation for _, incarnation in some]
    view = dice.choice(sorted({r.view for r in rows if isinstance(r, ev.ViewInstalled)}))
    by = dice.choice((-2, -1, 1, 2))
    match row:
        case ev.Stable():
            named: dict[str, Any] = {"members": names, "member_incarnations": incarnations}
            all_: dict[str, Any] = {"members": None, "member_incarnations": None}
            return dice.choice([named, all_, {"view": view}, {"upto": max(1, row.upto + by)}])
        case ev.Ordered():
            return dice.choice([{"view": view}, {"upto": max(1, row.upto + by)}])
        case ev.NotSent():
            named = {"members": names, "member_incarnations": incarnations}
            return dice.choice([named, {"rest": 1 - min(row.rest, 1)}, {"last": row.last + 1}])
        case ev.MergedComponent():
            upto = [max(0, number + by) for number in row.delivered_upto]
            ways: list[dict[str, Any]] = [{"delivered_upto": upto}, {"component": view}]
            ways.append({"members": names, "member_incarnations": incarnations})
            return dice.choice([*ways, {"alone_last": [n + 1 for n in row.alone_last]}])
        case ev.Queue():
            column = dice.choice(("accepted", "submitted", "refused"))
            return {column: max(0, getattr(row, column) + by)}
        case ev.Transitional():
            return {"members": names, "member_incarnations": incarnations}
        case ev.ViewInstalled():
            column = dice.choice(("joined", "left"))
            return {column: names, f"{column}_incarnations": incarnations}
        case _:
            return {"reason": dice.choice(("left", "name-in-use", "failed", None))}


Rows = list[ev.Event]


def _drop(dice: Random, rows: Rows) -> Rows:
    at = dice.randrange(len(rows))
    return renumbered(rows[:at] + rows[at + 1 :])


def _tear(dice: Random, rows: Rows) -> Rows:
    at = dice.randrange(len(rows))
    return rows[:at] + rows[at + 1 :]


def _cut_off(dice: Random, rows: Rows) -> Rows:
    at = dice.choice(rows)
    return [
        r
        for r in rows
        if (r.member, r.incarnation) != (at.member, at.incarnation) or r.lseq < at.lseq
    ]


def _lose(dice: Random, rows: Rows) -> Rows:
    who = dice.choice(rows)
    return [r for r in rows if (r.member, r.incarnation) != (who.member, who.incarnation)]


def _repeat(dice: Random, rows: Rows) -> Rows:
    at = dice.randrange(len(rows))
    to = dice.randrange(at, len(rows))
    return renumbered([*rows[: to + 1], rows[at], *rows[to + 1 :]])


def _swap(dice: Random, rows: Rows) -> Rows:
    who = dice.choice(rows)
    own = [
        i for i, r in enumerate(rows) if (r.member, r.incarnation) == (who.member, who.incarnation)
    ]
    if len(own) < 2:
        return rows
    i = dice.randrange(len(own) - 1)
    a, b = own[i], own[i + 1]
    out = list(rows)
    out[a], out[b] = rows[b], rows[a]
    return renumbered(out)


def _change(dice: Random, rows: Rows) -> Rows:
    """One column of one row that tells of messages or views. Not the frame of a message in a
    batch: the checkers look at one member's batch, the audit at every member's."""
    some = [i for i, r in enumerate(rows) if isinstance(r, ev.Deliver | ev.Sent | ev.ViewInstalled)]
    if not some:
        return rows
    at = dice.choice(some)
    row = rows[at]
    vids = sorted({r.view for r in rows if isinstance(r, ev.ViewInstalled)}) or ["v1"]
    ways: list[dict[str, Any]] = [{"view": dice.choice(vids)}]
    if isinstance(row, ev.Deliver):
        ways += [
            {"pos": (row.pos or 0) + dice.choice((-1, 1, 2))},
            {"pos": None},
            {"batch": (row.batch or 0) + dice.choice((-1, 1))},
            {"region": "TRANSITIONAL" if row.region == "REGULAR" else "REGULAR"},
            {"frame": row.frame + 1} if row.batch is None else {"frame": row.frame},
            {"service": dice.choice(("BASIC", "CAUSAL", "AGREED", "SAFE"))},
            {"origin": dice.choice(vids)},
            {"to": None, "to_incarnations": None},
            {"to": [row.member], "to_incarnations": [row.incarnation]},
            {"last": row.last + 1},
            {"first": row.first + 1, "last": row.last + 1},
            {"sim_ns": 0},
        ]
    elif isinstance(row, ev.Sent):
        ways += [
            {"phase": 1 - row.phase},
            {"service": dice.choice(("BASIC", "CAUSAL", "AGREED", "SAFE"))},
            {"last": row.last + 1},
            {"to": [row.member], "to_incarnations": [row.incarnation]},
            {"dep_senders": [], "dep_incarnations": [], "dep_numbers": []},
        ]
    elif isinstance(row, ev.ViewInstalled):
        ways += [
            {"transitional": [], "transitional_incarnations": []},
            {"previous": dice.choice(vids)},
            {"members": row.members[:-1], "member_incarnations": row.member_incarnations[:-1]},
            {"joins": row.joins + 1},
        ]
    out = list(rows)
    out[at] = msgspec.structs.replace(row, **dice.choice(ways))
    return out


def name_stranger(dice: Random, rows: Rows) -> Rows:
    """One member's row of a view names another incarnation of a member, which left no journal."""
    some = [i for i, row in enumerate(rows) if isinstance(row, ev.ViewInstalled)]
    if not some:
        return rows
    at = dice.choice(some)
    row = rows[at]
    assert isinstance(row, ev.ViewInstalled)
    who = dice.randrange(len(row.members))
    incarnations = [n + 5 * (i == who) for i, n in enumerate(row.member_incarnations)]
    out = list(rows)
    out[at] = msgspec.structs.replace(row, member_incarnations=incarnations)
    return out


def claim_stable(dice: Random, rows: Rows) -> Rows:
    """A receipt of stability speaks of messages that were never sent."""
    some = [i for i, row in enumerate(rows) if isinstance(row, ev.Stable)]
    if not some:
        return rows
    at = dice.choice(some)
    row = rows[at]
    assert isinstance(row, ev.Stable)
    out = list(rows)
    out[at] = msgspec.structs.replace(row, upto=row.upto + 1_000_000)
    return out


CHANGES = (_drop, _tear, _cut_off, _lose, _repeat, _swap, _change, _change, _change, _change)
