"""Runs, lives, and the time axis of each run.

A run has one axis: simulated time, or the clock of the machine that all its members shared. Members
on several machines have no common clock; they are placed by their wall clocks, which may differ.
Nothing is computed from that placement: no latency, no order.

Two small queries read the journals and the first and last row of each. All later queries join
`Axis.journals` and get small numbers in place of names and instants: run, life, microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from phalanx.errors import PipelineError
from phalanx.pipeline.history.clocks import NO_BOOT
from phalanx.pipeline.report.model import Caps, Clock, Ended
from phalanx.pipeline.schemas import EVENTS, JOURNALS
from phalanx.pipeline.tables import Tables

REACHING = ("life", "view_installed", "view_change_step", "peer_suspicion", "sent", "deliver")
RUN = ("cluster", "run", "group")
_KEYS = [f"`{name}` string" for name in RUN]
_GIVE = "name a run and a group that are there, or leave the options out"
_JOURNALS = T.StructType(
    [
        T.StructField("journal", T.StringType(), False),
        T.StructField("run_no", T.IntegerType(), False),
        T.StructField("life", T.IntegerType(), False),
        T.StructField("lane", T.IntegerType(), False),
        T.StructField("shift_ns", T.LongType(), False),
    ]
)
_LIVES = T.StructType(
    [
        T.StructField("run_no", T.IntegerType(), False),
        T.StructField("member", T.StringType(), False),
        T.StructField("incarnation", T.LongType(), False),
        T.StructField("life", T.IntegerType(), False),
        T.StructField("lane", T.IntegerType(), False),
    ]
)

Member = tuple[str, int]


@dataclass(slots=True)
class JournalSpan:
    """One journal: what is known of it, and where its rows lie on the axis of its run."""

    name: str
    member: str
    incarnation: int
    machine: int
    rows: int
    torn: bool
    ended: Ended
    shift_ns: int
    """Added to the clock of its rows it gives nanoseconds since the run began."""
    begin: int
    end: int


@dataclass(slots=True)
class RunAxis:
    """One run: its journals, and its lives as the page numbers them."""

    cluster: str
    run: str
    group: str
    mode: str | None
    clock: Clock
    began: str | None
    span: int
    journals: list[JournalSpan]
    lives: dict[Member, int] = field(default_factory=dict)
    lanes: list[str] = field(default_factory=list)
    lanes_left_out: int = 0

    def lane(self, member: str) -> int:
        return self.lanes.index(member)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.cluster, self.run, self.group


class Axis:
    """The runs that are shown, in order, and the frames that other queries join."""

    def __init__(self, tables: Tables, runs: list[RunAxis], left_out: int, caps: Caps) -> None:
        self.tables = tables
        """Of the runs that are shown."""
        self.runs = runs
        self.left_out = left_out
        self.caps = caps
        rows = [
            (j.name, no, run.lives[j.member, j.incarnation], run.lane(j.member), j.shift_ns)
            for no, run in enumerate(runs)
            for j in run.journals
        ]
        self._journals = tables.spark.createDataFrame(rows, _JOURNALS)
        keys = [(no, *run.key) for no, run in enumerate(runs)]
        self._runs = tables.spark.createDataFrame(keys, f"run_no int, {', '.join(_KEYS)}")
        lives = [
            (no, member, incarnation, life, run.lane(member))
            for no, run in enumerate(runs)
            for (member, incarnation), life in run.lives.items()
        ]
        self._lives = tables.spark.createDataFrame(lives, _LIVES)

    def place(self, frame: DataFrame) -> DataFrame:
        """The rows of the runs that are shown, with `run_no`, `life`, `lane` and `at`."""
        return self._with_micros(frame, at="")

    def place_intervals(self, frame: DataFrame) -> DataFrame:
        """The intervals (`from_...`, `to_...`) of the runs that are shown, with `run_no`, `life`,
        `lane`, `begin` and `end`."""
        return self._with_micros(frame, begin="from_", end="to_")

    def _with_micros(self, frame: DataFrame, **columns: str) -> DataFrame:
        """With columns of microseconds since the run began, each of the times with this prefix."""
        placed = frame.join(F.broadcast(self._journals), "journal")
        times = {
            name: micros(F.coalesce(f"{prefix}sim_ns", f"{prefix}t_ns") + F.col("shift_ns"))
            for name, prefix in columns.items()
        }
        return placed.withColumns(times).drop("shift_ns")

    def of_run(self, frame: DataFrame) -> DataFrame:
        """The rows of the runs that are shown, with `run_no`."""
        return frame.join(F.broadcast(self._runs), [*RUN])

    def name(self, frame: DataFrame, member: str, incarnation: str, life: str) -> DataFrame:
        """Another life that a row names, as its number: `life`; with `<life>_lane`. Both are null
        for a life that is not shown."""
        names = self._lives.select(
            "run_no",
            F.col("member").alias(member),
            F.col("incarnation").alias(incarnation),
            F.col("life").alias(life),
            F.col("lane").alias(f"{life}_lane"),
        )
        return frame.join(F.broadcast(names), ["run_no", member, incarnation], "left")


def micros(ns: Column) -> Column:
    return F.floor(ns / 1000).cast("long")


def open_axis(tables: Tables, caps: Caps, group: str | None = None, run: str | None = None) -> Axis:
    """The runs in the tables, the largest first, no more than the page can show. PipelineError if
    there is none."""
    known = [row.asDict() for row in tables["journals"].collect()]
    reach = reaches(tables)
    runs: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for journal in known:
        wanted = (group is None or journal["group"] == group) and run in (None, journal["run"])
        if wanted and journal["rows"]:
            runs.setdefault((journal["cluster"], journal["run"], journal["group"]), []).append(
                journal
            )
    if not runs:
        wanted_text = " ".join(f"{k} {v!r}" for k, v in (("group", group), ("run", run)) if v)
        raise PipelineError(wanted_text or "the journals", "there is nothing to show", _GIVE)
    order = sorted(runs, key=lambda key: (-sum(j["rows"] for j in runs[key]), key))
    shown = sorted(order[: caps.runs])
    made = [_run(key, runs[key], reach) for key in shown]
    names = [journal.name for run in made for journal in run.journals]
    if len(names) < len(known):
        tables = only(tables, names)
    _number_lives(tables, made, caps)
    return Axis(tables, made, len(order) - len(shown), caps)


def only(tables: Tables, journals: Sequence[str]) -> Tables:
    """The tables of these journals: what is not shown is not read again."""
    these = F.col("journal").isin(*journals)
    frames = {name: tables[name].where(these) for name in (*EVENTS, JOURNALS)}
    return Tables(tables.spark, frames)


def reaches(tables: Tables) -> dict[str, tuple[int, int]]:
    """Of each journal the first and last instant of its rows, by its own clock."""
    clock = F.coalesce(F.col("sim_ns"), F.col("t_ns"))
    parts = [
        tables[name].groupBy("journal").agg(F.min(clock).alias("a"), F.max(clock).alias("b"))
        for name in REACHING
    ]
    whole = reduce(DataFrame.unionByName, parts).groupBy("journal")
    found = whole.agg(F.min("a").alias("a"), F.max("b").alias("b"))
    return {row.journal: (row.a, row.b) for row in found.collect()}


def _run(
    key: tuple[str, str, str],
    known: Sequence[dict[str, Any]],
    reach: dict[str, tuple[int, int]],
) -> RunAxis:
    clocks = list(dict.fromkeys(map(_clock_of, known)))
    clock: Clock = "wall"
    if all(j["end_sim_ns"] is not None for j in known):
        clock = "simulated"
    elif len(clocks) == 1:
        clock = "machine"
    # All journals of one boot are shifted alike, so that what happened on one machine keeps its
    # order and its distances even where members of others are only placed.
    shifts = dict.fromkeys(clocks, 0)
    if clock == "wall":
        for j in reversed(known):
            shifts[_clock_of(j)] = j["wall_ns"] - j["mono_ns"]
    reach = {j["journal"]: _reach(j, reach.get(j["journal"]), clock) for j in known}
    start = min(reach[j["journal"]][0] + shifts[_clock_of(j)] for j in known)
    journals = []
    for j in sorted(known, key=lambda j: (j["member"], j["incarnation"], j["journal"])):
        first, last = reach[j["journal"]]
        shift = shifts[_clock_of(j)] - start
        journals.append(
            JournalSpan(
                name=j["journal"],
                member=j["member"],
                incarnation=j["incarnation"],
                machine=0 if clock == "simulated" else clocks.index(_clock_of(j)),
                rows=j["rows"],
                torn=bool(j["torn"]),
                ended="STOP" if j["stopped"] else "OPEN",
                shift_ns=shift,
                begin=(first + shift) // 1000,
                end=(last + shift) // 1000,
            )
        )
    modes = {j["mode"] for j in known}
    return RunAxis(
        *key,
        mode=modes.pop() if len(modes) == 1 else None,
        clock=clock,
        began=None if clock == "simulated" else _began(known, start, clock),
        span=max(1, *(j.end for j in journals)),
        journals=journals,
    )


def _reach(
    journal: dict[str, Any], row_times: tuple[int, int] | None, clock: Clock
) -> tuple[int, int]:
    """From its first row that the page shows something of to its end."""
    end: int = journal["end_sim_ns" if clock == "simulated" else "end_t_ns"]
    first, last = row_times or (end, end)
    return first, max(last, end)


def _clock_of(journal: dict[str, Any]) -> str:
    boot: str = journal["boot_id"]
    return f"journal {journal['journal']}" if boot in NO_BOOT else boot


def _began(known: Sequence[dict[str, Any]], start: int, clock: Clock) -> str | None:
    if clock == "machine":
        start += known[0]["wall_ns"] - known[0]["mono_ns"]
    try:
        return datetime.fromtimestamp(start / 1e9, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # a clock that was never set to anything
        return None


def _number_lives(tables: Tables, runs: Iterable[RunAxis], caps: Caps) -> None:
    """Every life with a journal, and every one that a view names: nobody is left out silently."""
    numbered = {run.key: run for run in runs}
    named = tables["view_installed"].select(
        *RUN, F.explode(F.arrays_zip("members", "member_incarnations")).alias("m")
    )
    named = named.select(*RUN, "m.members", "m.member_incarnations").distinct()
    found: dict[tuple[str, str, str], set[Member]] = {}
    for row in named.collect():
        found.setdefault((row.cluster, row.run, row.group), set()).add(
            (row.members, row.member_incarnations)
        )
    for key, run in numbered.items():
        everyone = sorted(found.get(key, set()) | {(j.member, j.incarnation) for j in run.journals})
        lanes = list(dict.fromkeys(member for member, _ in everyone))
        run.lanes, run.lanes_left_out = lanes[: caps.lanes], len(lanes[caps.lanes :])
        kept = set(run.lanes)
        run.lives = {m: i for i, m in enumerate(m for m in everyone if m[0] in kept)}
        run.journals = [j for j in run.journals if j.member in kept]
