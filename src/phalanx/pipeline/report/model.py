"""The data of the page: plain values, small enough to be embedded in it.

The page sends no queries and does not depend on journals. Large data is a struct of
columns, not a list of structs, which is half the size as JSON. Instants are whole microseconds
since the run began; lives, lanes and views are indices into the lists of their run.

The number of items drawn one by one is bounded (`Caps`), whatever the size of the journals. Where a
bound applies, the model has the total, and the page shows it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SERVICES = ("BASIC", "CAUSAL", "AGREED", "SAFE")

Clock = Literal["simulated", "machine", "wall"]
"""Of one simulation, of one machine, or of several, whose clocks are not comparable."""


Ended = Literal["STOP", "CRASH", "OPEN", "ABSENT"]
"""How a journal ends. OPEN: it just does; its member was killed, or lives on. ABSENT: views name
the life, and there is no journal of it."""


class Caps(msgspec.Struct, frozen=True):
    """How much is shown at most. All but `runs` and `examples` hold for all runs together."""

    runs: int = 8
    lanes: int = 64
    """Members of one run."""
    bands: int = 6_000
    sends: int = 6_000
    deliveries: int = 60_000
    marks: int = 8_000
    removals: int = 120
    steps: int = 60
    """Of the evidence of one removal."""
    examples: int = 5
    """Counter-examples of one guarantee."""
    buckets: int = 240
    """Of the time axis of one run."""

    def of_one(self, runs: int) -> Caps:
        """What each of so many runs may show."""
        names = ("bands", "sends", "deliveries", "marks", "removals")
        shares = {name: max(1, getattr(self, name) // max(1, runs)) for name in names}
        return msgspec.structs.replace(self, **shares)


class LifeBar(msgspec.Struct, frozen=True):
    """One incarnation of one member."""

    lane: int
    incarnation: int
    begin: int
    end: int
    ended: Ended
    rows: int = 0
    torn: bool = False
    machine: int = 0
    """Lives with the same number shared a clock."""


class ViewBand(msgspec.Struct, frozen=True):
    """A view that somebody installed. `tone` is one of TONES colours: views that exist at the same
    time differ in it as long as there are colours."""

    view: str
    label: str
    cause: str
    members: list[int]
    begin: int
    end: int
    tone: int


class Bands(msgspec.Struct):
    """Life `life` was in view `view` from `begin` to `end`. Views too short to be drawn are listed
    as one band of several (`count` > 1, `view` is -1)."""

    life: list[int] = []
    view: list[int] = []
    begin: list[int] = []
    end: list[int] = []
    count: list[int] = []
    total: int = 0
    """Installations of views in the journals."""


class Changes(msgspec.Struct):
    """A change of views was under way at life `life`."""

    life: list[int] = []
    begin: list[int] = []
    end: list[int] = []


class SendFlow(msgspec.Struct):
    """Ranges of messages as they were sent: a sample, and how many there were."""

    life: list[int] = []
    at: list[int] = []
    first: list[int] = []
    count: list[int] = []
    service: list[int] = []
    total: int = 0
    total_by_bucket: list[int] = []


class DeliveryFlow(msgspec.Struct):
    """Where and when the first message of the sampled range `send` was delivered."""

    send: list[int] = []
    life: list[int] = []
    at: list[int] = []


class Suspicions(msgspec.Struct):
    """The detector of `life` changed its mind about the life `target`."""

    life: list[int] = []
    target: list[int] = []
    at: list[int] = []
    state: list[str] = []
    evidence: list[str] = []
    total: int = 0


class Throughput(msgspec.Struct):
    """Messages by service and bucket of time: [service][bucket]."""

    bucket_us: int
    sent: list[list[int]]
    delivered: list[list[int]]


class Latency(msgspec.Struct, frozen=True):
    """From sending to delivery in microseconds, by service; to the sender itself, or to others
    whose clock is that of the sender."""

    service: int
    own: bool
    messages: int
    p50: float
    p90: float
    p99: float
    p999: float
    most: float


class LinkLoss(msgspec.Struct, frozen=True):
    """What the lane `to` delivered of the lane `by`. Latencies in microseconds, None where the two
    share no clock. Of frames, what the members counted, None where they did not."""

    by: int
    to: int
    messages: int
    p50: float | None = None
    p99: float | None = None
    frames: int | None = None
    """That came."""
    loss: float | None = None
    """The part of them that was missing first: lost, or overtaken."""
    repeated: int | None = None
    """Packets that `by` sent again because `to` asked."""


class EvidenceRow(msgspec.Struct, frozen=True):
    """A row of a journal that a counter-example points at."""

    member: str
    incarnation: int
    lseq: int
    at: int | None = None
    table: str = ""
    text: str = ""


class Example(msgspec.Struct, frozen=True):
    text: str
    who: list[str] = []
    rows: list[EvidenceRow] = []


class ReportFinding(msgspec.Struct, frozen=True):
    """What the audit says of one guarantee."""

    name: str
    verdict: Literal["holds", "violated", "unverifiable"]
    checked: int
    violations: int
    why: str = ""
    meaning: str = ""
    examples: list[Example] = []


class Step(msgspec.Struct, frozen=True):
    """What one member did or noticed on the way to a removal. `at` counts from the first step."""

    at: int
    who: str
    what: str
    evidence: str = ""


class RemovalEntry(msgspec.Struct, frozen=True):
    """A life was left out of the next view, first at `at`. `took` is from the first step to the
    last installation, `lead` from the first step to the first; where members share no clock, by
    that of each machine alone."""

    life: int
    at: int
    lead: int
    took: int
    fate: str
    """What its own journal says of it, in the words of `history.fates`."""
    view: int
    """That was closed; -1 where it is not known."""
    next_view: int
    by: list[str]
    steps: list[Step]
    steps_total: int


class RunModel(msgspec.Struct, kw_only=True):
    """One group in one run of one cluster: all that the page shows of it."""

    cluster: str
    run: str
    group: str
    mode: str | None
    clock: Clock
    began: str | None
    """What the wall clock said, ISO 8601."""
    span: int
    rows: int
    sent: int
    delivered: int
    lanes: list[str]
    lanes_left_out: int = 0
    lives: list[LifeBar]
    views: list[ViewBand]
    bands: Bands
    changes: Changes
    sends: SendFlow
    deliveries: DeliveryFlow
    suspicions: Suspicions
    throughput: Throughput
    latency: list[Latency]
    links: list[LinkLoss]
    findings: list[ReportFinding]
    removals: list[RemovalEntry]
    removals_total: int = 0


class Page(msgspec.Struct, kw_only=True):
    """Everything the page shows."""

    version: str
    made: str
    runs: list[RunModel]
    runs_left_out: int = 0
    services: tuple[str, ...] = SERVICES
