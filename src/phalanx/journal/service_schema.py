"""What a process of the membership service saw, as rows of tables: the second half of the schema.

The rules of `schema` hold here too. All processes of a service write to one group, SERVICE_GROUP,
with profile `S`. `member` is a server or an interface, and `incarnation` one life of its process: a
server that comes back with its disk is the same server (`process_started`) in another life.

A server is written `name.incarnation`, as in the service's own texts; the id of a state of a set or
of a view of a group is `number:digest`. A member of a group is `interface/number`. Empty texts in
lists stand for what is not there.
"""

from __future__ import annotations

from typing import Literal

from phalanx.journal.row import Row

SERVICE_GROUP = "@service"
"""The group of all journals of a service."""

HeldWhen = Literal["FOUNDED", "RESTORED", "LAST"]


class ProcessStarted(Row, frozen=True, kw_only=True, tag="process_started"):
    """A process of the service began: a server, or the interface of a host."""

    kind: Literal["SERVER", "INTERFACE"]
    process: str
    """The server or interface with the incarnation that it has among the others."""


class SetConfigured(Row, frozen=True, kw_only=True, tag="set_configured"):
    """A set of the configuration that this process belongs to."""

    set: str
    level: int
    above: str | None
    """The set above; null at the top."""
    parent: str | None
    """The name of the server that links it upwards."""
    servers: list[str]
    """Names of its servers, in rank order."""
    interfaces: list[str]
    """Interfaces whose own server is in this set, at level 1."""


class SetStateHeld(Row, frozen=True, kw_only=True, tag="set_state_held"):
    """The state of a set that a server holds without a commit that led there, or as its last."""

    op: HeldWhen
    set: str
    vid: str
    """The state, `number:digest`."""
    lineage: str
    members: list[str]
    """Servers of the set, in rank order."""
    parent: str | None
    kids: list[str]
    """Child sets, one for each parent of it."""
    kid_servers: list[str]
    """The parents of these child sets."""
    names: list[str]
    """Names that are registered in the set."""
    name_uids: list[str]
    """The groups that have these names."""
    busy: int
    """1 if a change was under way, as far as this server knew."""
    digest: str | None = None
    """A digest of the whole state, where the recorder was asked for it."""


class SetEntryAsked(Row, frozen=True, kw_only=True, tag="set_entry_asked"):
    """At its end, a server still waited to enter a set."""

    set: str


class SetStateApplied(Row, frozen=True, kw_only=True, tag="set_state_applied"):
    """The log of a set has a new last state at this server."""

    set: str
    vid: str
    """The state, `number:digest`."""
    bases: list[str]
    """The state that it follows, or two for a union."""
    change: str
    """The change that was committed: its first coordinator and that server's count."""
    way: Literal["CHANGE", "FORK", "UNION", "ENTRY"]
    """How the state follows."""
    lineage: str
    members: list[str]
    """Servers of the set, in rank order; the commit names them."""
    parent: str | None
    joined: list[str]
    """Servers that were not in the state before at this server."""
    left: list[str]
    """Servers of the state before that are not in this one."""
    isolated: list[str]
    """Servers of `left` that did not ask to leave."""
    entries: list[str]
    """Kinds of entries of the change."""
    entry_counts: list[int]
    """How many of each kind."""
    digest: str | None = None
    """A digest of the whole state, where the recorder was asked for it."""


class SetStateStable(Row, frozen=True, kw_only=True, tag="set_state_stable"):
    """All members of the state have applied it, as this server has learned: its entries may be
    acted upon outside."""

    set: str
    vid: str
    """The state, `number:digest`."""
    members: list[str]
    """Servers of the set, in rank order."""


class ChangeAcknowledged(Row, frozen=True, kw_only=True, tag="change_acknowledged"):
    """A server has acknowledged a change, on this base."""

    set: str
    base: str
    """The state at which it was acknowledged."""
    change: str
    coordinator: str


class ChangeWithdrawn(Row, frozen=True, kw_only=True, tag="change_withdrawn"):
    """A server has no acknowledged change any more, without a commit."""

    set: str
    base: str
    """The state at which it was acknowledged."""
    change: str


class SetLeft(Row, frozen=True, kw_only=True, tag="set_left"):
    """The server is not a member of the set any more."""

    set: str


class GroupRecordChanged(Row, frozen=True, kw_only=True, tag="group_record_changed"):
    """A set changed what it holds of a group: the move of a group, a claim, a call."""

    set: str
    at_vid: str
    """The state of the set that has it."""
    uid: str
    cause: str
    """The rule or the call."""
    name: str
    own: str | None
    """The view of the group that the set owns; null if it owns none."""
    ended: str | None
    """Why the group has ended."""
    below: list[str]
    """Child sets that are known to own it."""
    moves: list[str]
    """Ids of hand-overs under way."""
    move_targets: list[str]
    """Where each goes: `up`, or a child set."""
    recall: int
    """1 if the set above asks for the group."""
    pin: str | None
    """The call that holds it in its scope."""


class GroupViewInstalled(Row, frozen=True, kw_only=True, tag="group_view_installed"):
    """A set that owns a group has a view of it."""

    set: str
    at_vid: str
    """The state of the set that has it."""
    uid: str
    vid: str
    """The view, `number:digest`."""
    preds: list[str]
    """The views that it follows."""
    members: list[str]
    """Members of the group, in rank order."""
    parts: list[str]
    """For each member the view that it comes from; empty for one that joins."""
    cause: str
    name: str
    attributes: list[str]
    """For each member its attributes, as a JSON object; no list if none has any."""


class GroupRecordHeld(Row, frozen=True, kw_only=True, tag="group_record_held"):
    """What a set holds of a group in the last state of this server."""

    set: str
    at_vid: str
    """The state of the set that has it."""
    uid: str
    name: str
    scope: str
    own: str | None
    """The view of the group that the set owns; null if it owns none."""
    members: list[str]
    """Members of that view."""
    ended: str | None
    """Why the group has ended."""
    below: list[str]
    """Child sets that are known to own it."""
    moves: list[str]
    """Ids of hand-overs under way."""
    move_targets: list[str]
    """Where each goes: `up`, or a child set."""
    pin: str | None
    """The call that holds it in its scope."""


class GroupServed(Row, frozen=True, kw_only=True, tag="group_served"):
    """Ground truth of a simulation: members of a group that this server, as the speaker of the
    owner, serves by fresh answers at this instant."""

    set: str
    uid: str
    vid: str
    """The view that the set owns."""
    members: list[str]
    """The members."""


class HomeTaken(Row, frozen=True, kw_only=True, tag="home_taken"):
    """The home of an interface: the server that it is polled by."""

    op: Literal["RESTORED", "TAKEN", "LAST"]
    home: str
    seq: int
    """Counts the choices of the interface."""
    path: list[str]
    """At the end, the sets from the home to the top, by its last poll."""


class MembershipHeld(Row, frozen=True, kw_only=True, tag="membership_held"):
    """A member of a group at its interface, when the process began and ended."""

    op: Literal["RESTORED", "LAST"]
    group_member: str
    uid: str
    vid: str | None
    """The last view that it received; null before the first."""
    over: int
    """1 if the membership has ended."""
    parent_member: str
    """In a subgroup, the member of the same client in the parent group; empty elsewhere."""


class GroupViewDelivered(Row, frozen=True, kw_only=True, tag="group_view_delivered"):
    """Members of a group at this interface have received their next view."""

    uid: str
    vid: str
    """The view, `number:digest`."""
    previous: str | None
    """The view before at these members; null for the first one."""
    to: list[str]
    """The members at this interface."""
    to_parts: list[str]
    """For each of them the view that this one says it comes from; empty if it joins, and `-` if the
    view does not name it."""
    members: list[str]
    """Members of the group, in rank order."""
    cause: str
    """The rule or the call."""


class MembershipEnded(Row, frozen=True, kw_only=True, tag="membership_ended"):
    """The membership of members of a group at this interface is over."""

    uid: str
    previous: str | None
    """The last view of these members; null if they had none."""
    to: list[str]
    """The members at this interface."""
    ended: int
    """1 if the group has ended, 0 if they were excluded."""


class CallMade(Row, frozen=True, kw_only=True, tag="call_made"):
    """A client made a call, or made it again."""

    call: str
    """The id of the call; repetitions have the same."""
    kind: str
    name: str
    group_member: str
    scope: str


class CallFinished(Row, frozen=True, kw_only=True, tag="call_finished"):
    """A call has its result."""

    call: str
    """The id of the call."""
    uid: str
    vid: str | None
    """The view that the result names."""
    error: str
    """The error; empty if it succeeded."""
    group_member: str
    """The member that a join has made."""


class CallFailed(Row, frozen=True, kw_only=True, tag="call_failed"):
    """A server answered a call with an error, or an interface refused its arguments."""

    call: str
    """The id of the call."""
    error: str
    """The error by its name, with the argument or right that it names."""


ServiceRow = (
    ProcessStarted
    | SetConfigured
    | SetStateHeld
    | SetEntryAsked
    | SetStateApplied
    | SetStateStable
    | ChangeAcknowledged
    | ChangeWithdrawn
    | SetLeft
    | GroupRecordChanged
    | GroupViewInstalled
    | GroupRecordHeld
    | GroupServed
    | HomeTaken
    | MembershipHeld
    | GroupViewDelivered
    | MembershipEnded
    | CallMade
    | CallFinished
    | CallFailed
)

SERVICE_EQUAL_LENGTHS: dict[type[Row], tuple[tuple[str, ...], ...]] = {
    SetStateHeld: (("kids", "kid_servers"), ("names", "name_uids")),
    SetStateApplied: (("entries", "entry_counts"),),
    GroupRecordChanged: (("moves", "move_targets"),),
    GroupViewInstalled: (("members", "parts"),),
    GroupRecordHeld: (("moves", "move_targets"),),
    GroupViewDelivered: (("to", "to_parts"),),
}
"""Per table, the columns whose lists belong together."""

SERVICE_TABLES: dict[str, type[Row]] = {
    "process_started": ProcessStarted,
    "set_configured": SetConfigured,
    "set_state_held": SetStateHeld,
    "set_entry_asked": SetEntryAsked,
    "set_state_applied": SetStateApplied,
    "set_state_stable": SetStateStable,
    "change_acknowledged": ChangeAcknowledged,
    "change_withdrawn": ChangeWithdrawn,
    "set_left": SetLeft,
    "group_record_changed": GroupRecordChanged,
    "group_view_installed": GroupViewInstalled,
    "group_record_held": GroupRecordHeld,
    "group_served": GroupServed,
    "home_taken": HomeTaken,
    "membership_held": MembershipHeld,
    "group_view_delivered": GroupViewDelivered,
    "membership_ended": MembershipEnded,
    "call_made": CallMade,
    "call_finished": CallFinished,
    "call_failed": CallFailed,
}
