"""Histories of explored members, and the safety checks on sets of them.

A history is the sequence of events that one member's application saw. It only grows, and so does
the set of violations in a set of histories: a violation in one state is there in every later state.
The reduction of the search rests on that (`state_space`). `check_codes` lists the codes of the
checks and the properties that they test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise

import msgspec

from phalanx.core.effects import (
    Accepted,
    Deliver,
    Effect,
    Region,
    Sent,
    Service,
    Transitional,
    ViewInstalled,
)
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership.proposals import epoch
from phalanx.explore.check_codes import described

Message = tuple[int, int]
"""Whose, and which of its messages."""
Private = dict[Message, tuple[int, ...]]
"""Messages that are for some members only, and for whom."""


class Installed(msgspec.Struct, frozen=True):
    view: ViewId
    members: tuple[int, ...]
    previous: ViewId | None
    cause: str
    components: tuple[ViewId, ...]
    together: tuple[int, ...]


class Said(msgspec.Struct, frozen=True):
    number: int
    view: ViewId
    basic: bool = False


class DeliveredEvent(msgspec.Struct, frozen=True):
    message: Message
    view: ViewId
    origin: ViewId
    basic: bool = False
    ordered: bool = False
    """Agreed or safe."""
    safe: bool = False
    """Safe, and not after the transitional marker."""


class Marked(msgspec.Struct, frozen=True):
    """The transitional marker of a view."""

    view: ViewId
    pos: int


class Addressed(msgspec.Struct, frozen=True):
    """An own message is for some members only."""

    number: int
    to: tuple[int, ...]


class Broke(msgspec.Struct, frozen=True):
    error: str


Event = Installed | Said | DeliveredEvent | Marked | Addressed | Broke


def events_of(effects: Sequence[Effect], index: dict[MemberId, int]) -> tuple[Event, ...]:
    """What of these effects a history keeps."""
    out: list[Event] = []
    for effect in effects:
        match effect:
            case ViewInstalled(view, previous, together, cause):
                members = tuple(index[m] for m in view.members)
                with_me = tuple(index[m] for m in together)
                parts = tuple(m.view for m in effect.merged)
                out.append(Installed(view.id, members, previous, cause, parts, with_me))
            case Sent(first, last):
                basic = effect.service is Service.BASIC
                out += [Said(number, effect.view, basic) for number in range(first, last + 1)]
            case Deliver(sender, first, last):
                out += [
                    DeliveredEvent(
                        (index[sender], number),
                        effect.view,
                        effect.origin,
                        effect.service is Service.BASIC,
                        effect.service >= Service.AGREED,
                        effect.service is Service.SAFE and effect.region is Region.REGULAR,
                    )
                    for number in range(first, last + 1)
                ]
            case Transitional(view, pos):
                out.append(Marked(view, pos))
            case Accepted(first, last) if effect.to is not None:
                to = tuple(index[m] for m in effect.to)
                out += [Addressed(number, to) for number in range(first, last + 1)]
    return tuple(out)


class Finding(msgspec.Struct, frozen=True):
    """A violation: the code of the check (`check_codes`), and a description."""

    check: str
    text: str

    def __str__(self) -> str:
        return described(self.check, self.text)


class MemberHistory(msgspec.Struct, frozen=True):
    """A history, divided into views."""

    events: tuple[Event, ...]
    views: tuple[Installed, ...]
    delivered: tuple[tuple[Message, ...], ...]
    """In each view, in order."""
    ordered: tuple[tuple[Message, ...], ...]
    """Of those, what is agreed or safe."""
    safe: tuple[frozenset[Message], ...]
    """Of those, what is safe and not transitional."""
    markers: dict[ViewId, int]
    causes: dict[int, frozenset[Message]]
    """Of each own message, what was delivered or sent here before."""
    addressed: dict[int, tuple[int, ...]]
    """Of own messages that are for some members only, for whom."""
    wrong: Finding | None
    """With this history alone."""


class MemberHistories:
    """All histories met so far, by number, and the verdicts on sets of them."""

    def __init__(self, hold: bool) -> None:
        self.stories: list[MemberHistory] = []
        self._hold = hold
        self._numbers: dict[tuple[int, tuple[Event, ...]], int] = {}
        self._verdicts: dict[tuple[int, ...], Finding | None] = {}

    def begin(self, me: int, events: tuple[Event, ...]) -> int:
        return self._number(me, events)

    def extend(self, me: int, history: int, events: tuple[Event, ...]) -> int:
        if not events:
            return history
        return self._number(me, self.stories[history].events + events)

    def _number(self, me: int, events: tuple[Event, ...]) -> int:
        key = (me, events)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.stories)
            self.stories.append(_story_of(me, events, self._hold))
        return number

    def verdict(self, histories: tuple[int, ...]) -> Finding | None:
        """The first thing that is wrong with these, one of each process in turn."""
        if histories not in self._verdicts:
            stories = [self.stories[history] for history in histories]
            self._verdicts[histories] = next(self._findings(stories), None)
        return self._verdicts[histories]

    def _findings(self, stories: list[MemberHistory]) -> Iterator[Finding]:
        for story in stories:
            if story.wrong is not None:
                yield story.wrong
        private = private_messages(dict(enumerate(stories)))
        if private:
            yield from _addressees(stories, private)
        for p, q in combinations(range(len(stories)), 2):
            yield from _successors(p, q, stories[p], stories[q], private)
            yield from _safe(p, q, stories[p], stories[q], private)
            yield from _safe(q, p, stories[q], stories[p], private)
            yield from _joins(p, q, stories[p], stories[q])
            yield from _places(p, q, stories[p], stories[q], self._hold)
        yield from _causality(stories)


def private_messages(stories: dict[int, MemberHistory]) -> Private:
    """The messages of these members that are for some members only, and for whom."""
    return {
        (p, number): to for p, story in stories.items() for number, to in story.addressed.items()
    }


def shared(messages: Iterable[Message], p: int, q: int, private: Private) -> list[Message]:
    """Those of the messages that are for both members."""
    both = {p, q}
    return [m for m in messages if m not in private or both.issubset(private[m])]


def _story_of(me: int, events: tuple[Event, ...], hold: bool) -> MemberHistory:
    views: list[Installed] = []
    delivered: list[list[Message]] = []
    causes: dict[int, frozenset[Message]] = {}
    seen: set[Message] = set()
    wrong: Finding | None = None
    ordered: list[list[Message]] = []
    safe: list[set[Message]] = []
    markers: dict[ViewId, int] = {}
    addressed: dict[int, tuple[int, ...]] = {}
    for event in events:
        match event:
            case Installed():
                if me not in event.members:
                    wrong = wrong or Finding("J0", f"m{me} installs a view without itself")
                if views and not epoch(views[-1].view) < epoch(event.view):
                    text = f"m{me} goes from epoch {views[-1].view} to {event.view}"
                    wrong = wrong or Finding("JE", text)
                views.append(event)
                delivered.append([])
                ordered.append([])
                safe.append(set())
            case Said():
                if not event.basic:
                    causes[event.number] = frozenset(seen)
                    seen.add((me, event.number))
            case DeliveredEvent():
                if event.message in (m for place in delivered for m in place):
                    text = f"m{me} delivers {_named(event.message)} twice"
                    wrong = wrong or Finding("J7", text)
                if hold and event.origin != event.view:
                    text = f"m{me} delivers {_named(event.message)} in {event.view}"
                    wrong = wrong or Finding("J3s", f"{text}, but it was sent in {event.origin}")
                delivered[-1].append(event.message)
                if event.ordered:
                    ordered[-1].append(event.message)
                if event.safe:
                    safe[-1].add(event.message)
                if not event.basic:
                    seen.add(event.message)
            case Marked():
                markers[event.view] = event.pos
            case Addressed():
                addressed[event.number] = event.to
            case Broke():
                wrong = wrong or Finding("JX", f"m{me} raised {event.error}")
    per_view, in_order = tuple(map(tuple, delivered)), tuple(map(tuple, ordered))
    sure = tuple(map(frozenset, safe))
    facts = (per_view, in_order, sure, markers, causes, addressed)
    return MemberHistory(events, tuple(views), *facts, wrong)


def _named(message: Message) -> str:
    return f"message {message[1]} of m{message[0]}"


def _addressees(stories: list[MemberHistory], private: Private) -> Iterator[Finding]:
    """JA: who delivered a message that was for others."""
    for p, story in enumerate(stories):
        for message in (message for done in story.delivered for message in done):
            if p not in private.get(message, (p,)):
                yield Finding("JA", f"m{p} delivers {_named(message)}, which is for others")


def _successors(
    p: int, q: int, one: MemberHistory, two: MemberHistory, private: Private
) -> Iterator[Finding]:
    """J1, J1k, J2, JO, JM, JT: what two processes did after a view that both were in."""
    after = {
        old.view: (new, done, order)
        for (old, new), done, order in zip(
            pairwise(two.views), two.delivered, two.ordered, strict=False
        )
    }
    entered = {view.view: view for view in two.views}
    for (old, new), here, order in zip(
        pairwise(one.views), one.delivered, one.ordered, strict=False
    ):
        same = entered.get(new.view)
        if same is not None:
            if same.cause != new.cause:
                yield Finding("J1k", f"{new.view} is a {new.cause} at m{p}, a {same.cause} at m{q}")
            came = (q in new.together, p in same.together)
            if came != (new.previous == same.previous,) * 2:
                yield Finding("JT", f"who came along to {new.view} differs at m{p} and m{q}")
        if old.view not in after:
            continue
        other, there, their_order = after[old.view]
        if private:
            here, there = (tuple(shared(done, p, q, private)) for done in (here, there))
            order, their_order = (
                tuple(shared(done, p, q, private)) for done in (order, their_order)
            )
        if other.view != new.view:
            if q in new.members and p in other.members:
                text = f"from {old.view} m{p} goes to {new.view}, m{q} to {other.view}"
                yield Finding("J1", text)
        elif set(here) != set(there):
            text = ", ".join(_named(m) for m in sorted(set(here) ^ set(there)))
            yield Finding("J2", f"in {old.view} only one of m{p} and m{q} delivers {text}")
        elif order != their_order:
            yield Finding("JO", f"in {old.view} m{p} and m{q} deliver in different orders")
        elif one.markers.get(old.view) != two.markers.get(old.view):
            yield Finding("JM", f"the marker of {old.view} differs at m{p} and m{q}")


def _safe(
    p: int, q: int, one: MemberHistory, two: MemberHistory, private: Private
) -> Iterator[Finding]:
    """JS: what p delivered as safe, q delivered before it left the view."""
    left = {
        old.view: frozenset(done)
        for (old, _), done in zip(pairwise(two.views), two.delivered, strict=False)
    }
    for view, safe in zip(one.views, one.safe, strict=True):
        lacks = safe - left[view.view] if safe and view.view in left else frozenset()
        if lacks and private:
            lacks = frozenset(shared(lacks, p, q, private))
        if lacks:
            text = f"m{p} delivers {_named(min(lacks))} as safe in {view.view}"
            yield Finding("JS", f"{text}, m{q} leaves it without that")


def _joins(p: int, q: int, one: MemberHistory, two: MemberHistory) -> Iterator[Finding]:
    """J1x: each joined the other's component, and yet they are not together."""
    for old, new in pairwise(one.views):
        for older, newer in pairwise(two.views):
            if (
                old.view != older.view
                and new.view != newer.view
                and older.view in new.components
                and old.view in newer.components
                and q in new.members
                and p in newer.members
            ):
                yield Finding("J1x", f"m{p} joins into {new.view}, m{q} into {newer.view}")


def _places(
    p: int, q: int, one: MemberHistory, two: MemberHistory, hold: bool
) -> Iterator[Finding]:
    """J3: where two processes delivered the same message."""
    mine, theirs = ({v.view for v in story.views} for story in (one, two))
    there = {m: v.view for v, done in zip(two.views, two.delivered, strict=True) for m in done}
    for view, done in zip(one.views, one.delivered, strict=True):
        for message in done:
            other = there.get(message, view.view)
            if other != view.view and (hold or (view.view in theirs and other in mine)):
                text = f"{_named(message)} is delivered in {view.view} by m{p}"
                yield Finding("J3", f"{text}, in {other} by m{q}")


def _causality(stories: list[MemberHistory]) -> Iterator[Finding]:
    """J5, over chains of any length."""
    direct = {
        (p, number): causes
        for p, story in enumerate(stories)
        for number, causes in story.causes.items()
    }
    if not any(direct.values()):
        return
    for p, story in enumerate(stories):
        order = [message for done in story.delivered for message in done]
        for place, message in enumerate(order):
            late = _causes(message, direct) & set(order[place + 1 :])
            if late:
                text = f"m{p} delivers {_named(message)} before {_named(min(late))}"
                yield Finding("J5", f"{text}, which it follows")


def _causes(message: Message, direct: dict[Message, frozenset[Message]]) -> frozenset[Message]:
    found: set[Message] = set()
    rest = [message]
    while rest:
        more = direct.get(rest.pop(), frozenset()) - found
        found |= more
        rest += more
    return frozenset(found)
