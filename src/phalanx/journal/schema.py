"""What a member saw, as rows of tables: the schema, written once.

One class a table, one row an event. Rows describe ranges: `first` to `last` are message
numbers of one sender that share every other column. Common columns come first. Members
are named by name and incarnation; a view by the text of its ViewId, `joins.removals:digest`.
`lseq` numbers a member's rows without gaps; rows of one `step` are atomic. `sim_ns` is the
simulator's one clock, None outside it: clocks of two machines are never compared.

Every column is an int, a str, None, or a list of those, so that any columnar format can be
derived from these annotations.

The version of the schema grows with every table or column that is added, so that an older
phalanx says "newer" of a file and not "corrupt". Every older version can be read: a column that
is added has a default and stands last in its table, and none is ever taken away.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.core.effects import Evidence

SCHEMA_VERSION = 7
"""1: everything up to `corrupt`; 2: `gap`; 3: `link`; 4: `submit.digest`; 5: evidence `MOVED`; 6:
what else an application is told: `ordered`, `merge_side`, `queue`, whom receipts, markers and lost
receivers name, who joined and left, why a member stopped."""

ServiceName = Literal["BASIC", "CAUSAL", "AGREED", "SAFE"]
ProfileName = Literal["T", "F", "X", "M"]


class Row(msgspec.Struct, frozen=True, kw_only=True, tag_field="table", gc=False):
    """Columns that every table has."""

    run: str
    profile: ProfileName
    group: str
    node: str
    inc: int
    lseq: int
    step: int
    t_ns: int
    sim_ns: int | None = None


class Submit(Row, frozen=True, kw_only=True, tag="submit"):
    """The application handed over messages first..last, and they were accepted."""

    first: int
    last: int
    service: ServiceName
    bytes: int
    to: list[str] | None = None
    """Names of the addressed members; None is the whole view."""
    to_incs: list[int] | None = None
    """Their incarnations, in the same order."""
    digest: int | None = None
    """CRC-32 of the bodies put together, where the recorder was asked for it."""


class Send(Row, frozen=True, kw_only=True, tag="send"):
    """Messages first..last left for the network, the last part of a large one with them.

    `deps` are the direct delivery-level dependencies of `first`: for each other sender the
    last of its non-basic messages delivered here since the row before; the own previous
    message is implied. Of three lists of equal length: sender names, their incarnations,
    message numbers.
    """

    first: int
    last: int
    service: ServiceName
    vid: str
    phase: int
    frame: int
    to: list[str] | None = None
    to_incs: list[int] | None = None
    dep_nodes: list[str] = []
    dep_incs: list[int] = []
    dep_numbers: list[int] = []


class Deliver(Row, frozen=True, kw_only=True, tag="deliver"):
    """Messages first..last of a sender went up to the application, consecutively."""

    sender: str
    sender_inc: int
    first: int
    last: int
    service: ServiceName
    vid: str
    phase: int
    region: Literal["REGULAR", "TRANSITIONAL"]
    frame: int
    origin_vid: str
    """The view the messages were sent in."""
    pos: int | None = None
    """Agreed position of `first` in the view, counting what was not addressed here too."""
    batch: int | None = None
    to: list[str] | None = None
    to_incs: list[int] | None = None
    digest: int | None = None
    """CRC-32 of the bodies put together, where the recorder was asked for it."""


class ViewInstall(Row, frozen=True, kw_only=True, tag="view_install"):
    """The member is in this view from here on."""

    vid: str
    joins: int
    removals: int
    members: list[str]
    member_incs: list[int]
    context: str
    cause: Literal["BOOT", "REMOVE", "JOIN"]
    prev_vid: str | None = None
    trans: list[str] = []
    trans_incs: list[int] = []
    components: list[str] = []
    """The views that were merged into this one."""
    joined: list[str] | None = None
    """Members that were not in the view before; null in older journals."""
    joined_incs: list[int] | None = None
    left: list[str] | None = None
    """Members of the view before that are not in this one; null in older journals."""
    left_incs: list[int] | None = None


class MergeSide(Row, frozen=True, kw_only=True, tag="merge_side"):
    """What a merged view reports of one of its components. The row follows that of the view."""

    vid: str
    """The merged view."""
    side_vid: str
    """The component."""
    members: list[str]
    """Members of the component."""
    member_incs: list[int]
    senders: list[str]
    """Senders of which the component had delivered messages when its members agreed to merge, or
    which they had met."""
    sender_incs: list[int]
    upto: list[int]
    """Per sender, the highest number of a message delivered; 0 if there was none."""
    alone: list[str]
    """Senders of messages that no other component had delivered."""
    alone_incs: list[int]
    alone_first: list[int]
    alone_last: list[int]


class TransMarker(Row, frozen=True, kw_only=True, tag="trans_marker"):
    """From position `at_pos` of the closing view on, deliveries are transitional: safe messages
    among them are not known to be everywhere."""

    vid: str
    at_pos: int
    members: list[str] | None = None
    """Members that move on together, as the application was told; null in older journals."""
    member_incs: list[int] | None = None


class CtxStep(Row, frozen=True, kw_only=True, tag="ctx_step"):
    """A step of a membership change; the failed are named with their incarnation, `ada.2`."""

    context: str
    stage: Literal["IDLE", "COLLECT", "COMMIT"]
    action: Literal["START", "FORGET", "COMMIT", "FA", "FOLLOW", "CLOSED", "LEAVE"]
    components: list[str] = []
    failed_before: list[str] = []
    failed_after: list[str] = []


class Suspect(Row, frozen=True, kw_only=True, tag="suspect"):
    """The detector changed its mind about a member."""

    target: str
    target_inc: int
    state: Literal["OPERATIONAL", "SUSPECTED", "SEMI", "FAULTY"]
    prev_state: Literal["OPERATIONAL", "SUSPECTED", "SEMI", "FAULTY"]
    evidence: Literal[Evidence, "CHANNEL_DOWN", "BITMAP"]
    relay: str | None = None


class NotSent(Row, frozen=True, kw_only=True, tag="not_sent"):
    """Own messages first..last do not go to members that they were addressed to and that are gone;
    if `rest` is 0, to nobody."""

    first: int
    last: int
    to: list[str] | None = None
    """The members that are gone; null in older journals, where it is all of them."""
    to_incs: list[int] | None = None
    rest: int = 0
    """Addressed members that are left."""


class Stable(Row, frozen=True, kw_only=True, tag="stable"):
    """Every member of the view has the sender's messages up to this number. If the view ended
    before that was so, `members` names those that move on together: they deliver what is new since
    the row before, or do not come to the next view."""

    sender: str
    sender_inc: int
    upto: int
    vid: str
    members: list[str] | None = None
    """Null: all members of the view."""
    member_incs: list[int] | None = None


class AllDelivered(Row, frozen=True, kw_only=True, tag="all_delivered"):
    """Every member of the view has delivered the own messages up to this number that belong to the
    view. If the view ended before that was known, `members` names those that have moved on
    together. Written where the application asked for it."""

    upto: int
    vid: str
    members: list[str] | None = None
    """Null: all members of the view."""
    member_incs: list[int] | None = None


class Ordered(Row, frozen=True, kw_only=True, tag="ordered"):
    """The place of own messages up to this number in the order of the view can no longer change."""

    upto: int
    vid: str


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


class Refuse(Row, frozen=True, kw_only=True, tag="refuse"):
    """Packets that were dropped as nonsense, by reason."""

    reason: str
    count: int


class Life(Row, frozen=True, kw_only=True, tag="life"):
    """START first, and STOP last unless the member ended uncleanly. CRASH only where known."""

    op: Literal["START", "STOP", "CRASH", "RECOVER"]
    reason: str | None = None
    """Of a STOP: `left`, `name-in-use`, `incarnation-used`, `failed`, or `ended` where the run
    ended. Null in older journals."""


class Clock(Row, frozen=True, kw_only=True, tag="clock"):
    """What the wall clock said, so that instants can be asked for."""

    wall_ns: int
    boot_id: str


class Topology(Row, frozen=True, kw_only=True, tag="topology"):
    """Ground truth of a simulation: the node can exchange packets with these from now on. A name
    is there as often as processes bear it."""

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


class Link(Row, frozen=True, kw_only=True, tag="link"):
    """What happened on the link with a peer since the view began: the last row of a view and a
    peer holds the whole. Written when the view or the life ends, and every few seconds."""

    peer: str
    peer_inc: int
    vid: str
    frames: int
    """Of the peer, that are here."""
    missed: int
    """Frames of it that were known to exist before they came whole: lost, or overtaken."""
    asked: int
    """Times that a frame of it was asked for."""
    repeated: int
    """Own packets that were sent again because the peer asked."""


Event = (
    Submit
    | Send
    | Deliver
    | ViewInstall
    | TransMarker
    | CtxStep
    | Suspect
    | NotSent
    | Stable
    | Ordered
    | AllDelivered
    | MergeSide
    | Queue
    | Window
    | Refuse
    | Life
    | Clock
    | Topology
    | Corrupt
    | Gap
    | Link
)

EQUAL_LENGTHS: dict[type[Row], tuple[tuple[str, ...], ...]] = {
    Send: (("dep_nodes", "dep_incs", "dep_numbers"),),
    ViewInstall: (("members", "member_incs"), ("trans", "trans_incs")),
    MergeSide: (
        ("members", "member_incs"),
        ("senders", "sender_incs", "upto"),
        ("alone", "alone_incs", "alone_first", "alone_last"),
    ),
}
"""Per table, the columns whose lists belong together."""
NAMED: dict[type[Row], tuple[tuple[str, str], ...]] = {
    Submit: (("to", "to_incs"),),
    Send: (("to", "to_incs"),),
    Deliver: (("to", "to_incs"),),
    NotSent: (("to", "to_incs"),),
    ViewInstall: (("joined", "joined_incs"), ("left", "left_incs")),
    TransMarker: (("members", "member_incs"),),
    Stable: (("members", "member_incs"),),
    AllDelivered: (("members", "member_incs"),),
}
"""Per table, columns of names that may be null, and of their incarnations: null in older files."""
RANGES = (Submit, Send, Deliver, NotSent, Gap)
"""Tables with a range first..last."""

TABLES: dict[str, type[Row]] = {
    "submit": Submit,
    "send": Send,
    "deliver": Deliver,
    "view_install": ViewInstall,
    "trans_marker": TransMarker,
    "ctx_step": CtxStep,
    "suspect": Suspect,
    "not_sent": NotSent,
    "stable": Stable,
    "window": Window,
    "refuse": Refuse,
    "life": Life,
    "clock": Clock,
    "topology": Topology,
    "corrupt": Corrupt,
    "gap": Gap,
    "link": Link,
    "ordered": Ordered,
    "merge_side": MergeSide,
    "queue": Queue,
    "all_delivered": AllDelivered,
}
