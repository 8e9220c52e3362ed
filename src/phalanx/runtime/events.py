"""The events that a group delivers to its application.

    View            a new view: the members of the group
    ├── Merged      a view that merged several, with what each of them had delivered
    Transitional    the view is ending: later safe messages are known at `members` only
    Message         a message, in the order of its service
    NotSent         own messages that do not go to receivers that have left the view
    EventsLost      messages that were dropped because they were not read in time

Any two members that install the same next view delivered the same messages in the view before. A
`Batch` holds many events and creates each when it is accessed; `bodies()` returns the bodies alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, overload

import msgspec

from phalanx.core.effects import (
    Deliver,
    MergedComponent,
    MessageRange,
    Region,
    Service,
    ViewInstalled,
)
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.roles import Role, Roles

Cause = Literal["boot", "removal", "join", "role"]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A new view with these `members`, in the same order at each of them.

    `transitional` are the members that came from the same previous view as this member: all of
    them delivered the same messages in it.
    """

    id: ViewId
    members: tuple[MemberId, ...]
    joined: tuple[MemberId, ...] = ()
    left: tuple[MemberId, ...] = ()
    transitional: tuple[MemberId, ...] = ()
    previous: ViewId | None = None
    cause: Cause = "boot"
    """`join`: views were united. `role`: members changed roles, nobody came or went. `removal`: any
    other change of one view; nobody has left if the members to be joined went away meanwhile."""
    roles_set: tuple[Role, ...] = ()
    """The roles as they were agreed, with their serial numbers."""

    @property
    def roles(self) -> dict[MemberId, frozenset[str]]:
        """The operations that members offer: of those that have called `set_role`."""
        return {role.member: frozenset(role.operations) for role in self.roles_set}


class Merged(View, frozen=True, kw_only=True):
    """A view that merged several. `sides` has for each its view and members, how far it had
    delivered each sender's messages, and which of these it alone delivered while it was apart:
    messages above all that the other sides have, sent since its members met the sender. What a
    sender had sent before is not in there: a member that joins takes over the state of a group
    from its members. Numbers of messages to other members do not interrupt a range."""

    sides: tuple[MergedComponent, ...] = ()


def view_of(effect: ViewInstalled, roles: Roles = ()) -> View:
    """The event for an installed view with these roles."""
    view = effect.view
    common = {
        "id": view.id,
        "members": view.members,
        "joined": effect.joined,
        "left": effect.left,
        "transitional": effect.transitional,
        "previous": effect.previous,
        "cause": effect.cause,
        "roles_set": roles,
    }
    if effect.merged:
        return Merged(**common, sides=effect.merged)  # type: ignore[arg-type]
    return View(**common)  # type: ignore[arg-type]


class Transitional(msgspec.Struct, frozen=True, kw_only=True):
    """The view is ending. Agreed and safe messages between this event and the next view are not
    known to be at all members of the view: they are at `members`, which install the next view
    together."""

    view: ViewId
    members: tuple[MemberId, ...]


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message. `position` is its position in the agreed order of the view, None for basic and
    causal messages; `transitional` is set after the event `Transitional`."""

    sender: MemberId
    body: bytes
    number: int
    service: Service
    view: ViewId
    position: int | None = None
    transitional: bool = False


class NotSent(msgspec.Struct, frozen=True):
    """Own messages `first` to `last` do not go to `members`, which were receivers and have left the
    view. `rest` is the number of remaining receivers; with 0 the messages go to nobody.

    If the messages were already `sent`, during a view change in mode `flow`, these members may have
    delivered them in a view without this member.
    """

    first: int
    last: int
    members: tuple[MemberId, ...] = ()
    rest: int = 0
    sent: bool = False


class EventsLost(msgspec.Struct, frozen=True):
    """`count` messages are missing here: they were not read in time, with `slow = "lose"`."""

    count: int


Event = View | Transitional | Message | NotSent | EventsLost


class Messages:
    """Messages `first` to `last` of one sender, consecutive in the order of delivery."""

    __slots__ = ("_bodies", "_effect")

    def __init__(self, effect: Deliver) -> None:
        self._effect = effect
        self._bodies: list[bytes] | None = None

    @property
    def sender(self) -> MemberId:
        return self._effect.sender

    @property
    def first(self) -> int:
        return self._effect.first

    @property
    def last(self) -> int:
        return self._effect.last

    @property
    def service(self) -> Service:
        return self._effect.service

    @property
    def view(self) -> ViewId:
        return self._effect.view

    @property
    def position(self) -> int | None:
        return self._effect.pos

    @property
    def transitional(self) -> bool:
        return self._effect.region is Region.TRANSITIONAL

    @property
    def bodies(self) -> list[bytes]:
        if self._bodies is None:
            self._bodies = self._effect.bodies()
        return self._bodies

    def __len__(self) -> int:
        return self._effect.last - self._effect.first + 1

    def __iter__(self) -> Iterator[Message]:
        effect = self._effect
        sender, service, view, pos = effect.sender, effect.service, effect.view, effect.pos
        late = effect.region is Region.TRANSITIONAL
        for k, body in enumerate(self.bodies):
            at = None if pos is None else pos + k
            yield Message(sender, body, effect.first + k, service, view, at, late)

    def __repr__(self) -> str:
        return f"Messages({self.sender} {self.first}..{self.last} {self.service.name})"


Run = Messages | Message | View | Transitional | NotSent | EventsLost


class Batch(Sequence[Event]):
    """Events in order, created when they are accessed. `runs` has the same events with consecutive
    messages of one sender together, and `bodies()` the bodies only: the fast ways to read."""

    __slots__ = ("_events", "runs")

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self._events: list[Event] | None = None

    def bodies(self) -> list[bytes]:
        """The bodies of all messages, in order."""
        out: list[bytes] = []
        for run in self.runs:
            if type(run) is Messages:
                out += run.bodies
            elif type(run) is Message:
                out.append(run.body)
        return out

    def _all(self) -> list[Event]:
        if self._events is None:
            out: list[Event] = []
            for run in self.runs:
                if type(run) is Messages:
                    out += run
                else:
                    out.append(run)  # type: ignore[arg-type]
            self._events = out
        return self._events

    def __len__(self) -> int:
        return sum(len(run) if type(run) is Messages else 1 for run in self.runs)

    @overload
    def __getitem__(self, at: int) -> Event: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Event]: ...
    def __getitem__(self, at: int | slice) -> Event | Sequence[Event]:
        return self._all()[at]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._all())

    def __repr__(self) -> str:
        return f"Batch({self.runs!r})"


__all__ = [
    "Batch",
    "Event",
    "EventsLost",
    "Merged",
    "MergedComponent",
    "Message",
    "MessageRange",
    "Messages",
    "NotSent",
    "Run",
    "Transitional",
    "View",
]
