"""What a member saw, as rows of tables: the schema, written once.

One class a table, one row an event. Rows describe ranges: `first` to `last` are message
numbers of one sender that share every other column. Common columns come first. Members
are named by name and incarnation; a view by the text of its ViewId, `joins.removals:digest`.
`lseq` numbers a member's rows without gaps; rows of one `step` are atomic. `sim_ns` is the
simulator's one clock, None outside it: clocks of two machines are never compared.

Every column is an int, a str, None, or a list of those, so that any columnar format can be
derived from these annotations.

A fact has one name on every layer. A row that records an effect has the effect's name, its table
the same in lower case, and its columns the names of the effect's fields: docs/facts.md lists them,
with the exceptions and their reasons.

The version of the schema grows with every table or column that is added, so that an older
phalanx says "newer" of a file and not "corrupt". Every older version can be read: a column that
is added has a default and stands last in its table, and none is ever taken away. `renamed` has the
names of earlier versions.

The tables of the membership service are in `service_schema`.
"""

from __future__ import annotations

from typing import Literal

from phalanx.core.effects import Action, Evidence, PeerState, Stage
from phalanx.journal import service_schema as service
from phalanx.journal.row import ProfileName as ProfileName
from phalanx.journal.row import Row as Row

SCHEMA_VERSION = 10
"""1: everything up to `corrupt`; 2: `gap`; 3: `link_stats`; 4: `accepted.digest`; 5: evidence
`MOVED`; 6: the other reports to an application: `ordered`, `merged_component`, `queue`, the members
that receipts, markers and lost receivers name, who joined and left, why a member stopped; 7:
`all_delivered`; 8: tables and columns have the names of the effects and their fields
(`renamed`); 9: roles in `view_installed`, cause `role`, `channel_report`; 10: the tables of the
membership service (`service_schema`), profile `S`."""

ViewCause = Literal["boot", "removal", "join", "role"]
ServiceName = Literal["BASIC", "CAUSAL", "AGREED", "SAFE"]


class Accepted(Row, frozen=True, kw_only=True, tag="accepted"):
    """The application handed over messages first..last, and they were accepted."""

    first: int
    last: int
    service: ServiceName
    size: int
    """Bytes of their bodies together."""
    to: list[str] | None = None
    """Names of the addressed members; None is the whole view."""
    to_incarnations: list[int] | None = None
    """Their incarnations, in the same order."""
    digest: int | None = None
    """CRC-32 of the bodies put together, where the recorder was asked for it."""


class Sent(Row, frozen=True, kw_only=True, tag="sent"):
    """Messages first..last left for the network, the last part of a large one with them.

    `dep_...` are the direct delivery-level dependencies of `first`: for each other sender the
    last of its non-basic messages delivered here since the row before; the own previous
    message is implied. Three lists of equal length: sender names, their incarnations, message
    numbers.
    """

    first: int
    last: int
    service: ServiceName
    view: str
    phase: int
    frame: int
    to: list[str] | None = None
    to_incarnations: list[int] | None = None
    dep_senders: list[str] = []
    dep_incarnations: list[int] = []
    dep_numbers: list[int] = []


class Deliver(Row, frozen=True, kw_only=True, tag="deliver"):
    """Messages first..last of a sender went up to the application, consecutively."""

    sender: str
    sender_incarnation: int
    first: int
    last: int
    service: ServiceName
    view: str
    phase: int
    region: Literal["REGULAR", "TRANSITIONAL"]
    frame: int
    origin: str
    """The view the messages were sent in."""
    pos: int | None = None
    """Agreed position of `first` in the view, counting what was not addressed here too."""
    batch: int | None = None
    to: list[str] | None = None
    to_incarnations: list[int] | None = None
    digest: int | None = None
    """CRC-32 of the bodies put together, where the recorder was asked for it."""


class ViewInstalled(Row, frozen=True, kw_only=True, tag="view_installed"):
    """The member is in this view from here on."""

    view: str
    joins: int
    removals: int
    members: list[str]
    member_incarnations: list[int]
    context: str
    cause: ViewCause
    previous: str | None = None
    transitional: list[str] = []
    transitional_incarnations: list[int] = []
    components: list[str] = []
    """The views that were merged into this one."""
    joined: list[str] | None = None
    """Members that were not in the view before; null in older journals."""
    joined_incarnations: list[int] | None = None
    left: list[str] | None = None
    """Members of the view before that are not in this one; null in older journals."""
    left_incarnations: list[int] | None = None
    role_members: list[str] = []
    """Members that have set a role, in the order of members."""
    role_incarnations: list[int] = []
    role_serials: list[int] = []
    """Per role its serial number, which grows with each change."""
    role_operations: list[str] = []
    """Per role the operations that the member offers, divided by blanks."""


class MergedComponent(Row, frozen=True, kw_only=True, tag="merged_component"):
    """A component of a merged view, as the view reports it. The row follows that of the view."""

    view: str
    """The merged view."""
    component: str
    """The component."""
    members: list[str]
    """Members of the component."""
    member_incarnations: list[int]
    delivered: list[str]
    """Senders of which the component had delivered messages, or which its members had met."""
    delivered_incarnations: list[int]
    delivered_upto: list[int]
    """Per sender, the highest number of a message delivered; 0 if there was none."""
    alone: list[str]
    """Senders of messages that no other component knew, sent since members of this one met the
    sender."""
    alone_incarnations: list[int]
    alone_first: list[int]
    alone_last: list[int]


class Transitional(Row, frozen=True, kw_only=True, tag="transitional"):
    """From position `pos` of the closing view on, deliveries are transitional: safe messages
    among them are not known to be everywhere."""

    view: str
    pos: int
    members: list[str] | None = None
    """Members that move on together, as reported to the application; null in older journals."""
    member_incarnations: list[int] | None = None


class ViewChangeStep(Row, frozen=True, kw_only=True, tag="view_change_step"):
    """A step of a membership change; the failed are named with their incarnation, `ada.2`."""

    context: str
    stage: Stage
    action: Action
    components: list[str] = []
    failed_before: list[str] = []
    failed_after: list[str] = []


class PeerSuspicion(Row, frozen=True, kw_only=True, tag="peer_suspicion"):
    """The detector changed its mind about a member."""

    target: str
    target_incarnation: int
    state: PeerState
    previous: PeerState
    evidence: Evidence
    relay: str | None = None


class NotSent(Row, frozen=True, kw_only=True, tag="not_sent"):
    """Own messages first..last do not go to members that they were addressed to and that are gone;
    if `rest` is 0, to nobody."""

    first: int
    last: int
    members: list[str] | None = None
    """The members that are gone; null in older journals, where it is all of them."""
    member_incarnations: list[int] | None = None
    rest: int = 0
    """Addressed members that are left."""


class Stable(Row, frozen=True, kw_only=True, tag="stable"):
    """Every member of the view has the sender's messages up to this number. If the view ended
    before that was so, `members` names those that move on together: they deliver what is new since
    the row before, or do not come to the next view."""

    sender: str
    sender_incarnation: int
    upto: int
    view: str
    members: list[str] | None = None
    """Null: all members of the view."""
    member_incarnations: list[int] | None = None


class AllDelivered(Row, frozen=True, kw_only=True, tag="all_delivered"):
    """Every member of the view has delivered the own messages up to this number that belong to the
    view. If the view ended before that was known, `members` names those that have moved on
    together. Written where the application asked for it."""

    upto: int
    view: str
    members: list[str] | None = None
    """Null: all members of the view."""
    member_incarnations: list[int] | None = None


class Ordered(Row, frozen=True, kw_only=True, tag="ordered"):
    """The place of own messages up to this number in the order of the view can no longer change."""

    upto: int
    view: str


class Queue(Row, frozen=True, kw_only=True, tag="queue"):
    """The queue between the application and the protocol. Written when accepted messages are
    refused later, and once at the end. All counts are of messages since the start: `accepted` is
    the sum of `submitted`, `refused` and those that still wait."""

    accepted: int
    submitted: int
    refused: int
    reason: str | None = None
    """Why the last ones were refused: the name of the error."""


class Window(Row, frozen=True, kw_only=True, tag="window"):
    """Submitting stopped or may go on."""

    op: Literal["CLOSED", "OPENED"]
    bytes: int
    frames: int


class Refused(Row, frozen=True, kw_only=True, tag="refused"):
    """Packets that were dropped as nonsense, by reason."""

    reason: str
    count: int


class Life(Row, frozen=True, kw_only=True, tag="life"):
    """START first, and STOP last unless the member ended uncleanly. CRASH only where known."""

    op: Literal["START", "STOP", "CRASH"]
    reason: str | None = None
    """Of a STOP: `left`, `name-in-use`, `incarnation-used`, `failed`, or `ended` where the run
    ended. Null in older journals."""


class Clock(Row, frozen=True, kw_only=True, tag="clock"):
    """What the wall clock said, so that instants can be asked for."""

    wall_ns: int
    boot_id: str


class Topology(Row, frozen=True, kw_only=True, tag="topology"):
    """Ground truth of a simulation: the member can exchange packets with these from now on. A name
    is there as often as processes have it."""

    component: list[str]


class Corrupt(Row, frozen=True, kw_only=True, tag="corrupt"):
    """A stretch of a journal that could not be read."""

    file: str
    offset: int
    length: int


class Gap(Row, frozen=True, kw_only=True, tag="gap"):
    """Rows first..last were not kept, and why. It stands where the last of them would."""

    first: int
    last: int
    reason: str


class ChannelReport(Row, frozen=True, kw_only=True, tag="channel_report"):
    """A channel of a mesh opened or broke, or this member or the peer refused one."""

    op: Literal["UP", "DOWN", "REFUSED", "REJECTED"]
    address: str
    """Where the peer is, host:port."""
    peer: str | None = None
    """The name of the member at the other end; null where it has not said one."""
    reason: str | None = None
    """Why it broke or was refused; null of one that opened."""


class LinkStats(Row, frozen=True, kw_only=True, tag="link_stats"):
    """What happened on the link with a peer since the view began: the last row of a view and a
    peer holds the whole. Written when the view or the life ends, and every few seconds."""

    peer: str
    peer_incarnation: int
    view: str
    frames: int
    """Of the peer, that are here."""
    missed: int
    """Frames of it that were known to exist before they came whole: lost, or overtaken."""
    asked: int
    """Times that a frame of it was asked for."""
    repeated: int
    """Own packets that were sent again because the peer asked."""


Event = (
    Accepted
    | Sent
    | Deliver
    | ViewInstalled
    | Transitional
    | ViewChangeStep
    | PeerSuspicion
    | NotSent
    | Stable
    | Ordered
    | AllDelivered
    | MergedComponent
    | Queue
    | Window
    | Refused
    | Life
    | Clock
    | Topology
    | Corrupt
    | Gap
    | LinkStats
    | ChannelReport
    | service.ServiceRow
)

EQUAL_LENGTHS: dict[type[Row], tuple[tuple[str, ...], ...]] = {
    Sent: (("dep_senders", "dep_incarnations", "dep_numbers"),),
    ViewInstalled: (
        ("members", "member_incarnations"),
        ("transitional", "transitional_incarnations"),
        ("role_members", "role_incarnations", "role_serials", "role_operations"),
    ),
    MergedComponent: (
        ("members", "member_incarnations"),
        ("delivered", "delivered_incarnations", "delivered_upto"),
        ("alone", "alone_incarnations", "alone_first", "alone_last"),
    ),
    **service.SERVICE_EQUAL_LENGTHS,
}
"""Per table, the columns whose lists belong together."""
NAMED: dict[type[Row], tuple[tuple[str, str], ...]] = {
    Accepted: (("to", "to_incarnations"),),
    Sent: (("to", "to_incarnations"),),
    Deliver: (("to", "to_incarnations"),),
    NotSent: (("members", "member_incarnations"),),
    ViewInstalled: (("joined", "joined_incarnations"), ("left", "left_incarnations")),
    Transitional: (("members", "member_incarnations"),),
    Stable: (("members", "member_incarnations"),),
    AllDelivered: (("members", "member_incarnations"),),
}
"""Per table, columns of names that may be null, and of their incarnations: null if the names are,
and in older files."""
RANGES = (Accepted, Sent, Deliver, NotSent, Gap)
"""Tables with a range first..last."""
NUMBER_MAX = (1 << 44) - 2
"""No member numbers more messages or rows: a million a second for half a year."""

TABLES: dict[str, type[Row]] = {
    "accepted": Accepted,
    "sent": Sent,
    "deliver": Deliver,
    "view_installed": ViewInstalled,
    "transitional": Transitional,
    "view_change_step": ViewChangeStep,
    "peer_suspicion": PeerSuspicion,
    "not_sent": NotSent,
    "stable": Stable,
    "window": Window,
    "refused": Refused,
    "life": Life,
    "clock": Clock,
    "topology": Topology,
    "corrupt": Corrupt,
    "gap": Gap,
    "link_stats": LinkStats,
    "ordered": Ordered,
    "merged_component": MergedComponent,
    "queue": Queue,
    "all_delivered": AllDelivered,
    "channel_report": ChannelReport,
    **service.SERVICE_TABLES,
}
