"""A member's place in the protocol: its view, the change under way, and how views are closed.

The state that the rules of PROTOCOLS B.7 speak of, under their names:

    F    faulty in the context of the view; X of them are out of it already
    fb   left out of the join under way; fa  found faulty in it; pc  its context

`check` installs every view that is closed. What makes the state change is in `kernel`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Protocol

import msgspec

from phalanx.config import Config
from phalanx.core.effects import Action, Stage
from phalanx.core.frames import (
    Component,
    Context,
    Join,
    Said,
)
from phalanx.core.ids import MemberId, View
from phalanx.core.membership.contexts import (
    NOBODY,
    Members,
    Reach,
    join_view,
    members_of,
    origin,
    ranked,
    removal_view,
    united,
)
from phalanx.core.membership.ledger import Ledger
from phalanx.core.membership.past import Past

NEVER = 1 << 62
CALM_CHANGES = 256
"""After so many times `change_ns` without anybody being late, all is forgotten."""

IDLE: Literal["IDLE"] = "IDLE"
COLLECT: Literal["COLLECT"] = "COLLECT"
COMMIT: Literal["COMMIT"] = "COMMIT"


class Change(msgspec.Struct, frozen=True):
    """A view to install: `closing` is the past of the frames that closed it."""

    before: View
    view: View
    cause: Literal["removal", "join"]
    closing: Reach
    origins: dict[MemberId, Component]
    components: tuple[Component, ...]
    joins: dict[MemberId, Join]
    phase: int
    """1 if a further change is under way: nothing can be sent in the view as such."""
    keeps: Members
    """Members of a join under way that are not in the view."""


class Owner(Protocol):
    """What the protocol needs of the member it belongs to."""

    def say(self, said: Said) -> tuple[int, Reach]:
        """Send a control frame: its number, and its past with itself."""

    def attempt(self) -> None:
        """Broadcast an Attempt for the present view."""

    def install(self, change: Change) -> None:
        """The view has changed."""

    def unspoken(self) -> list[MemberId]:
        """Members of the view that have not sent a frame in it."""

    def delivered(self) -> Join:
        """An empty proposal that says how far this member has delivered."""

    def stepped(self, action: Action) -> None:
        """For the journal."""


class Views(ABC):
    """State and closed sets. `now` is set by whoever calls in."""

    def __init__(self, me: MemberId, view: View, config: Config, owner: Owner) -> None:
        self.me = me
        self.view = view
        self.now = 0
        self._config = config
        self._owner = owner
        self.context = Context(boot=view.members)
        self.context_id = view.context
        self.out: Members = NOBODY
        """X."""
        self.faulty: Members = NOBODY
        """F."""
        self.phase = 0
        self.stage: Stage = IDLE
        self.components: tuple[Component, ...] = ()
        self.before: Members = NOBODY
        """fb."""
        self.after: Members = NOBODY
        """fa."""
        self.proposal: Context | None = None
        """pc."""
        self.proposal_id = b""
        self.leaving = False
        self.goodbyes: Members = NOBODY
        """While leaving: who has named this member."""
        self._ledger = Ledger()
        self._past = Past(view)
        self._stash: list[tuple[MemberId, Component]] = []
        self._collect_until = NEVER
        self._answer_until = NEVER
        self._speak_until = NEVER
        self._strain = 0
        """How often of late members did not answer in time: then they get more of it."""
        self._strained_ns = 0

    # -------------------------------------------------------------- what can be asked

    @property
    def component(self) -> Component:
        return Component(self.view.id, self.view.members, self.view.context)

    @property
    def changing(self) -> bool:
        """A change is under way."""
        return self.stage is not IDLE or self.faulty != self.out or self.phase == 1

    @property
    def joining(self) -> Members:
        """Members of all components of the join under way."""
        return united(self.components)

    def announced(self) -> tuple[Component, ...]:
        """The components whose members a frame sent now speaks of."""
        return self.components if self.stage is not IDLE else (self.component,)

    def barred(self, member: MemberId) -> bool:
        """Its frames enter only as the past of others'."""
        if member == self.me:
            return False
        if self.stage is IDLE:
            return member in self.faulty
        if member in self.before or member in self.after:
            return True
        return member in self.faulty and member in self.view.members

    def admissible(self, member: MemberId, proposal: bool) -> bool:
        """Its frames may enter for their own sake; of strangers only proposals, in COLLECT."""
        if self.barred(member):
            return False
        if member in self.view.members:
            return True
        if self.stage is IDLE:
            return False
        return (self.stage is COLLECT and proposal) or member in self.joining

    def deadline(self) -> int:
        return min(self._collect_until, self._answer_until, self._speak_until)

    # -------------------------------------------------------------- closed sets

    def check(self) -> None:
        """Install every view that is closed, the smallest sets first."""
        again = not self.leaving
        while again:
            again = False
            for out in self._ledger.named(self.context_id):
                if self.out < out and self._is_closed(self.context, self.context_id, out):
                    self._install_removal(out)
                    again = True
                    break
            if again or self.stage is not COMMIT:
                continue
            assert self.proposal is not None
            for out in (NOBODY, *self._ledger.named(self.proposal_id)):
                if self._is_closed(self.proposal, self.proposal_id, out):
                    self._install_join(out)
                    again = True
                    break

    def _is_closed(self, context: Context, digest: bytes, out: Members) -> bool:
        rest = members_of(context) - out
        return self.me in rest and self._ledger.is_closed(context, digest, out)

    def _install_removal(self, out: Members) -> None:
        before = self.view
        rest = members_of(self.context) - out
        closing = self._ledger.closing(self.context_id, rest, out)
        here = self.component
        self.view = removal_view(before, self.context_id, rest)
        self.out = out
        self._installed(before, "removal", closing, dict.fromkeys(ranked(rest), here), (), {})

    def _install_join(self, out: Members) -> None:
        before, components, digest = self.view, self.components, self.proposal_id
        assert self.proposal is not None
        rest = members_of(self.proposal) - out
        closing = self._ledger.closing(digest, rest, out)
        origins: dict[MemberId, Component] = {}
        for member in ranked(rest):
            where = origin(components, member)
            assert where is not None
            origins[member] = where
        self.view = join_view(origins.values(), digest, rest)
        joins = self._ledger.joins(digest)
        for where in origins.values():
            self._past.add_view(where.view)
        self._past.joined(closing)
        self._past.add_context(digest)
        self.context, self.context_id = self.proposal, digest
        self.out, self.faulty = out, self.after
        self.stage, self.proposal, self.proposal_id = IDLE, None, b""
        self.components, self.before, self.after = (), NOBODY, NOBODY
        self._installed(before, "join", closing, origins, components, joins)

    def _installed(
        self,
        before: View,
        cause: Literal["removal", "join"],
        closing: Reach,
        origins: dict[MemberId, Component],
        components: tuple[Component, ...],
        joins: dict[MemberId, Join],
    ) -> None:
        self._past.add_view(self.view.id)
        if self.stage is IDLE:
            self._ledger.forget((self.context_id,))
        self.phase = 1 if self.faulty != self.out or self.stage is not IDLE else 0
        keeps = self.joining - frozenset(self.view.members) if self.stage is not IDLE else NOBODY
        if not self.phase:
            self._answer_until = NEVER
        self.watch()
        self._owner.stepped("CLOSED")
        self._owner.install(
            Change(
                before,
                self.view,
                cause,
                closing,
                origins,
                components,
                joins,
                self.phase,
                keeps,
            )
        )
        if self.stage is IDLE:
            self._replay()

    def _change_ns(self) -> int:
        """How long members have to answer. On a network that is slower than the settings say,
        changes would else break each other off for ever."""
        change = self._config.change_ns
        if self._strain and self.now - self._strained_ns > CALM_CHANGES * change:
            self._strain = 0
        return change << self._strain

    def watch(self) -> None:
        """A view of several has begun: its members must speak in it in time."""
        self._speak_until = self.now + self._change_ns()

    @abstractmethod
    def _replay(self) -> None:
        """The change is over: what was put off comes up again."""
