"""The membership protocol: from suspicions and foreign components to agreed views.

A member is IDLE in a view, or it collects components that want to join (COLLECT), or it has
proposed a joint view (COMMIT). Faults in the view are named by FA, proposals by JOIN; both name
a context, and what all the others of a context have named is closed: the next view
(`contexts`). The rules are those of PROTOCOLS B.7; the names too:

    F    faulty in the context of the view; X of them are out of it already
    fb   left out of the join under way; fa  found faulty in it; pc  its context
    ev   per context, the past of the control frames that count as evidence
    og   origin of each member of the view

The phase is 1 from the first control frame of a change, one's own or another's, to the install
that ends it. Frames carry (view, phase); everything else about what is delivered where
follows from that tag (`changeover`).

Handlers run to completion; `check` installs what they closed. Nothing here knows time but for
the deadlines, and nothing about packets: the owner inserts frames in causal order, says what
is to be said, and keeps the messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

import msgspec

from phalanx.config import Config
from phalanx.core.effects import Action, Stage
from phalanx.core.frames import (
    Announce,
    Attempt,
    Component,
    Context,
    Fault,
    Join,
    Leave,
    Said,
)
from phalanx.core.ids import MEMBERS_MAX, MemberId, View, ViewId
from phalanx.core.membership.contexts import (
    NOBODY,
    Members,
    Reach,
    context_digest,
    covers,
    epoch,
    extend,
    join_view,
    members_of,
    names_twice,
    normal,
    origin,
    ranked,
    removal_view,
    united,
)

NEVER = 1 << 62
PAST_VIEWS_MAX = 256
STASH_MAX = 64
JOINS_AHEAD_MAX = 1 << 20
"""A component whose epoch is further ahead than this is not believed."""

IDLE: Literal["IDLE"] = "IDLE"
COLLECT: Literal["COLLECT"] = "COLLECT"
COMMIT: Literal["COMMIT"] = "COMMIT"


class Entry(msgspec.Struct, frozen=True):
    """A frame that entered, as far as membership is concerned."""

    sender: MemberId
    number: int
    view: ViewId
    phase: int
    announce: Announce | None
    reach: Reach

    @property
    def said(self) -> Said | None:
        return None if self.announce is None else self.announce.said


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


class Kernel:
    """One member's part in the protocol. `now` is set by whoever calls in."""

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
        self._joins: dict[bytes, dict[MemberId, tuple[int, Reach, Join]]] = {}
        self._faults: dict[bytes, dict[MemberId, dict[Members, tuple[int, Reach]]]] = {}
        self._evidence: dict[bytes, Reach] = {}
        self._past: dict[ViewId, None] = {view.id: None}
        self._past_contexts: dict[bytes, None] = {view.context: None}
        self._newest: dict[MemberId, tuple[int, int]] = {}
        self._stash: list[tuple[MemberId, Component]] = []
        self._coloured: list[tuple[MemberId, int, ViewId]] = []
        """Frames of changes that entered and are not below a join that was installed."""
        self._collect_until = NEVER
        self._answer_until = NEVER
        self._speak_until = NEVER

    # -------------------------------------------------------------- what can be asked

    @property
    def component(self) -> Component:
        return Component(self.view.id, self.view.members)

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

    def admissible(self, member: MemberId, control: bool) -> bool:
        """Its frames may enter for their own sake."""
        if self.barred(member):
            return False
        if member in self.view.members:
            return True
        if self.stage is IDLE:
            return False
        return (self.stage is COLLECT and control) or member in self.joining

    def is_past(self, view: ViewId) -> bool:
        return view in self._past

    def deadline(self) -> int:
        return min(self._collect_until, self._answer_until, self._speak_until)

    # -------------------------------------------------------------- what happens

    def foreign(self, member: MemberId, view: ViewId) -> None:
        """Somebody outside the view can be heard, and hears this component."""
        if (
            self.stage is IDLE
            and self.faulty == self.out
            and not self.leaving
            and member not in self.view.members
            and view not in self._past
        ):
            self._start(own=True)

    def attempted(self, attempt: Attempt) -> None:
        """An AJ came (S0 Fig. 5)."""
        member, component = attempt.sender, attempt.component
        if self.leaving:
            return
        inside = member in self.view.members
        if not inside:
            self.foreign(member, component.view)
        if self.barred(member):
            return
        if not inside and (
            component.view in self._past or epoch(component.view) < self._epoch_of(member)
        ):
            return
        if self.stage is COLLECT:
            if self._acceptable((component,)):
                self._unite((component,), self._strays((component,)))
        elif self.stage is IDLE and inside and component.view == self.view.id:
            self._start(own=False)
        elif len(self._stash) < STASH_MAX:
            self._stash.append((member, component))

    def entered(self, entry: Entry, process: bool) -> None:
        """A frame entered; `process` unless only as the past of another."""
        member, said = entry.sender, entry.said
        self._index(entry)
        if self.leaving:
            if (isinstance(said, Fault) and self.me in said.faulty) or (
                isinstance(said, Join) and self.me in said.failed_before
            ):
                self.goodbyes |= {member}
            return
        if said is not None or entry.phase == 1:
            self._coloured.append((member, entry.number, entry.view))
            if entry.view == self.view.id or self.stage is not IDLE:
                self.phase = 1
        if process and isinstance(said, Join | Fault):
            context = self._context_of(entry)
            extend(self._evidence.setdefault(context, {}), entry.reach)
        if process and said is not None:
            old = entry.view in self._past or epoch(entry.view) < self._epoch_of(member)
            if member in self.view.members or not old:
                self._handle(entry, said)
        self.check()

    def heard(self, member: MemberId, view: ViewId) -> None:
        """A frame of this member came, whether it enters or not: where it is now."""
        if epoch(view) > self._epoch_of(member):
            if len(self._newest) >= 4 * MEMBERS_MAX:
                self._newest.clear()
            self._newest[member] = epoch(view)

    def proves(self, announce: Announce, members: Members) -> bool:
        """Somebody speaks from a view of a context of mine that I have not closed: it is closed,
        and what closed it counts (PROTOCOLS B.2 item 12). Whether that was installed."""
        context = announce.context
        if context == self.proposal_id and self.proposal is not None:
            out = members_of(self.proposal) - members
        elif context == self.context_id:
            out = members_of(self.context) - members
            if not self.out < out:
                return False
        else:
            return False
        evidence = self._evidence.setdefault(context, {})
        for member in ranked(members):
            if out:
                found = self._faults.get(context, {}).get(member, {}).get(out)
            else:
                joined = self._joins.get(context, {}).get(member)
                found = joined and joined[:2]
            if found is not None:
                extend(evidence, found[1])
        before = self.view
        self.check()
        return self.view is not before

    def has_moved(self, member: MemberId, view: ViewId, members: Members, context: bytes) -> bool:
        """A member that I know in an older view speaks from one that is not mine to reach."""
        if member == self.me:
            return False
        inside = member in self.view.members
        if inside and self.stage is IDLE and context not in self._past_contexts:
            return True
        if self.me in members or (self.stage is COLLECT and not inside):
            return False
        known = origin(self.components, member) if self.stage is not IDLE else None
        if known is None:
            return inside and epoch(view) > epoch(self.view.id)
        return epoch(view) > epoch(known.view)

    def moved(self, member: MemberId, component: Component) -> None:
        """Follow it if it is not of my view and I can, else give it up."""
        if self.stage is COMMIT and member not in self.view.members:
            both = normal((*self.components, component))
            if both != self.components and self._believable((component,)):
                self._unite((component,), self._strays((component,)), "FOLLOW")
                self.check()
                return
        self.break_with((member,))

    def break_with(self, members: Iterable[MemberId]) -> None:
        """Hold these for failed (S0: break). Self and the unknown are passed over."""
        if self.leaving:
            return
        known = self.joining if self.stage is not IDLE else NOBODY
        inside = frozenset(self.view.members)
        gone = frozenset(m for m in members if m != self.me and (m in inside or m in known))
        if self.stage is IDLE:
            if not gone <= self.faulty:
                self.faulty |= gone
                self._say_fault(joint=False)
        elif self.stage is COLLECT:
            if gone:
                self.before |= gone
                self._commit()
        elif not gone <= self.before | self.after:
            self.after |= gone - self.before
            self._say_fault(joint=True)
        self.check()

    def leave(self) -> None:
        """Say goodbye: the last frame."""
        self.leaving = True
        self._owner.stepped("LEAVE")
        self._owner.say(Leave())

    @property
    def has_left(self) -> bool:
        """All that matter have named this member."""
        rest = frozenset(self.view.members) - {self.me} - self.faulty - self.before - self.after
        return self.leaving and rest <= self.goodbyes

    def watch(self) -> None:
        """A view of several has begun: its members must speak in it in time."""
        self._speak_until = self.now + self._config.change_ns

    def spoken(self) -> None:
        """All members of the view have spoken in it."""
        self._speak_until = NEVER

    def expire(self) -> list[MemberId]:
        """A deadline has come. Members that did not answer in time, for `break_with`."""
        now, late = self.now, []
        if now >= self._collect_until and self.stage is COLLECT:
            self._collected()
            self.check()
        if now >= self._answer_until:
            self._answer_until = now + self._config.change_ns
            late = self._unanswered()
        if now >= self._speak_until:
            self._speak_until = now + self._config.change_ns
            if not self.changing:
                late = self._owner.unspoken()
        return late

    def _unanswered(self) -> list[MemberId]:
        """T_join and T_fa: who has not sent what closes the context."""
        if self.stage is COMMIT:
            assert self.proposal is not None
            wanted, rest = self.after, members_of(self.proposal) - self.after
            joins = self._joins.get(self.proposal_id, {})
            absent = frozenset(m for m in rest if m not in joins)
            context = self.proposal_id
        elif self.stage is IDLE and self.faulty != self.out:
            wanted, rest = self.faulty, frozenset(self.view.members) - self.faulty
            absent, context = NOBODY, self.context_id
        else:
            if not self.changing:
                self._answer_until = NEVER
            return []
        if wanted:
            faults = self._faults.get(context, {})
            absent |= frozenset(m for m in rest if wanted not in faults.get(m, {}))
        return [m for m in ranked(absent) if m != self.me]

    # -------------------------------------------------------------- saying

    def _start(self, own: bool) -> None:
        self.stage = COLLECT
        self.components = (self.component,)
        self.before, self.after = self.faulty - self.out, NOBODY
        self._collect_until = self.now + self._config.collect_ns
        self._owner.stepped("START")
        if own:
            self._owner.attempt()

    def _collected(self) -> None:
        """Alpha is over. Nobody answered and nothing changed: forget it."""
        if self.components == (self.component,) and not self.before and self.phase == 0:
            self.stage, self.components = IDLE, ()
            self._collect_until = NEVER
            self._owner.stepped("FORGET")
        else:
            self._commit()

    def _commit(self, action: Action = "COMMIT") -> None:
        self.stage = COMMIT
        self._collect_until = NEVER
        self.before = (self.before | self.after) - {self.me}
        self.after = NOBODY
        self.proposal = Context(components=self.components, failed_before=ranked(self.before))
        self.proposal_id = context_digest(self.proposal)
        self._owner.stepped(action)
        empty = self._owner.delivered()
        self._say(Join(self.proposal.failed_before, empty.delivered))

    def _say_fault(self, joint: bool) -> None:
        self._owner.stepped("FA")
        if joint:
            after = ranked(self.after)
            self._say(Fault(self.proposal_id, after, after, True))
        else:
            new = ranked(self.faulty - self.out)
            self._say(Fault(self.context_id, ranked(self.faulty), new, False))

    def _say(self, said: Join | Fault) -> None:
        number, reach = self._owner.say(said)
        self.phase = 1
        self._answer_until = self.now + self._config.change_ns
        announce = Announce(self.announced(), self.context_id, (), (), said)
        entry = Entry(self.me, number, self.view.id, 1, announce, reach)
        self._index(entry)
        self._coloured.append((self.me, number, self.view.id))
        extend(self._evidence.setdefault(self._context_of(entry), {}), reach)

    # -------------------------------------------------------------- hearing

    def _context_of(self, entry: Entry) -> bytes:
        assert entry.announce is not None
        said = entry.announce.said
        if isinstance(said, Fault):
            return said.context
        assert isinstance(said, Join)
        context = Context(
            components=entry.announce.components, failed_before=ranked(said.failed_before)
        )
        return context_digest(context)

    def _index(self, entry: Entry) -> None:
        said = entry.said
        if isinstance(said, Join):
            joins = self._joins.setdefault(self._context_of(entry), {})
            joins.setdefault(entry.sender, (entry.number, entry.reach, said))
        elif isinstance(said, Fault):
            faults = self._faults.setdefault(said.context, {}).setdefault(entry.sender, {})
            faults.setdefault(frozenset(said.faulty), (entry.number, entry.reach))

    def _handle(self, entry: Entry, said: Said) -> None:
        if isinstance(said, Join):
            self._on_join(entry, said)
        elif isinstance(said, Fault):
            self._on_fault(entry, said)
        else:
            self.break_with((entry.sender,))

    def _on_join(self, entry: Entry, join: Join) -> None:
        member = entry.sender
        assert entry.announce is not None
        components = entry.announce.components
        if self._context_of(entry) == self.context_id:
            return
        inside = member in self.view.members
        mine = any(c.view == self.view.id for c in components)
        if self.stage is IDLE:
            if not (inside and mine):
                return
            self._start(own=False)  # AJ and JOIN in one (PROTOCOLS B.2 item 16)
        if not self._acceptable(components):
            return
        failed: Members = frozenset(join.failed_before) if inside or mine else NOBODY
        if self.me in failed:
            if mine:
                self.break_with((member,))
            return
        strays = self._strays(components)
        if self.stage is COLLECT:
            self.phase = 1
            self._unite(components, failed | strays)
        elif member in self.joining and member not in self.before | self.after:
            self._unite(components, failed | strays)

    def _on_fault(self, entry: Entry, fault: Fault) -> None:
        member, context, faulty = entry.sender, fault.context, frozenset(fault.faulty)
        assert entry.announce is not None
        joint = self.stage is COMMIT and context == self.proposal_id
        if member not in self.view.members and not joint:
            return  # its own change, not mine
        if self.me in faulty:
            mine = fault.joint and any(c.view == self.view.id for c in entry.announce.components)
            if context in (self.context_id, self.proposal_id) or mine:
                self.break_with((member,))
            return
        new = frozenset(fault.new)
        if joint:
            if not faulty <= self.after:
                self.after |= faulty
                self._say_fault(joint=True)
        elif context == self.context_id and self.stage is IDLE:
            if not faulty <= self.faulty:
                self.faulty |= faulty
                self._say_fault(joint=False)
        elif self.stage is COLLECT:
            self.before |= new & (self.joining | frozenset(self.view.members))
        elif self.stage is COMMIT and member in self.joining - self.before - self.after:
            add = new & self.joining
            if not add <= self.before:
                self.before |= add
                self._commit()

    def _unite(
        self, components: tuple[Component, ...], failed: Members, action: Action = "COMMIT"
    ) -> None:
        """Take components and failures in; while committed, propose anew if that is news."""
        both = normal((*self.components, *components))
        news = both != self.components or not failed <= self.before
        self.components, self.before = both, self.before | failed
        if news and self.stage is COMMIT:
            self._commit(action)

    def _strays(self, components: tuple[Component, ...]) -> Members:
        """Members of my view that stand in a newer one without me: they have moved."""
        inside = frozenset(self.view.members) - {self.me}
        away = NOBODY
        for component in components:
            if self.me not in component.members and component.view != self.view.id:
                if epoch(component.view) > epoch(self.view.id):
                    away |= inside & frozenset(component.members)
        return away

    def _acceptable(self, components: tuple[Component, ...]) -> bool:
        """Nothing of it was merged or left before, and it counts me where I am."""
        if not self._believable(components):
            return False
        for component in normal((*self.components, *components)):
            if component.view != self.view.id and component.view in self._past:
                return False
        mine = [c.view for c in components if self.me in c.members]
        return not mine or (self.view.id in mine and all(v in self._past for v in mine))

    def _believable(self, components: tuple[Component, ...]) -> bool:
        """It can be: not too many, one holder of each name, no epoch out of sight."""
        both = normal((*self.components, *components))
        if len(united(both)) > MEMBERS_MAX or names_twice(both, self.before | self.after):
            return False
        return all(c.view.joins <= self.view.id.joins + JOINS_AHEAD_MAX for c in components)

    def _epoch_of(self, member: MemberId) -> tuple[int, int]:
        return self._newest.get(member, (-1, 0))

    # -------------------------------------------------------------- closed sets

    def check(self) -> None:
        """Install every view that is closed, the smallest sets first."""
        again = not self.leaving
        while again:
            again = False
            for out in self._named(self.context_id):
                if self.out < out and self._is_closed(self.context, self.context_id, out):
                    self._install_removal(out)
                    again = True
                    break
            if again or self.stage is not COMMIT:
                continue
            assert self.proposal is not None
            for out in (NOBODY, *self._named(self.proposal_id)):
                if self._is_closed(self.proposal, self.proposal_id, out):
                    self._install_join(out)
                    again = True
                    break

    def _named(self, context: bytes) -> list[Members]:
        """The fault sets that were named in a context, small ones first."""
        faults = self._faults.get(context, {})
        sets = {out for named in faults.values() for out in named}
        return sorted(sets, key=lambda out: (len(out), ranked(out)))

    def _is_closed(self, context: Context, digest: bytes, out: Members) -> bool:
        rest = members_of(context) - out
        if self.me not in rest:
            return False
        joins, faults = self._joins.get(digest, {}), self._faults.get(digest, {})
        evidence = self._evidence.get(digest, {})
        for member in rest:
            if not context.boot:
                join = joins.get(member)
                if join is None or not covers(evidence, member, join[0]):
                    return False
            if out:
                fault = faults.get(member, {}).get(out)
                if fault is None or not covers(evidence, member, fault[0]):
                    return False
        return True

    def _closing(self, digest: bytes, rest: Members, out: Members) -> Reach:
        closing: Reach = {}
        for member in ranked(rest):
            if out:
                extend(closing, self._faults[digest][member][out][1])
            else:
                extend(closing, self._joins[digest][member][1])
        return closing

    def _install_removal(self, out: Members) -> None:
        before = self.view
        rest = members_of(self.context) - out
        closing = self._closing(self.context_id, rest, out)
        here = self.component
        self.view = removal_view(before, self.context_id, rest)
        self.out = out
        self._installed(before, "removal", closing, dict.fromkeys(ranked(rest), here), (), {})

    def _install_join(self, out: Members) -> None:
        before, components, digest = self.view, self.components, self.proposal_id
        assert self.proposal is not None
        rest = members_of(self.proposal) - out
        closing = self._closing(digest, rest, out)
        self.view = join_view(components, digest, rest)
        origins: dict[MemberId, Component] = {}
        for member in ranked(rest):
            where = origin(components, member)
            assert where is not None
            origins[member] = where
        joins = {m: join for m, (_, _, join) in self._joins.get(digest, {}).items()}
        for where in origins.values():
            self._remember(where.view)
        above = []
        for member, number, view in self._coloured:
            if covers(closing, member, number):
                self._remember(view)
            else:
                above.append((member, number, view))
        self._coloured = above
        self._past_contexts[digest] = None
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
        self._remember(self.view.id)
        self._forget_evidence()
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
            stash, self._stash = self._stash, []
            for member, component in stash:
                if (
                    component.view == self.view.id
                    and member in self.view.members
                    and self.stage is IDLE
                    and self.faulty == self.out
                ):
                    self._start(own=False)

    def _remember(self, view: ViewId) -> None:
        self._past[view] = None
        while len(self._past) > PAST_VIEWS_MAX:
            del self._past[next(iter(self._past))]
        while len(self._past_contexts) > PAST_VIEWS_MAX:
            del self._past_contexts[next(iter(self._past_contexts))]

    def _forget_evidence(self) -> None:
        """When a change is over, evidence of other contexts is dropped (PROTOCOLS B.6 item 18)."""
        if self.stage is not IDLE:
            return
        kept = (self.context_id, self.proposal_id)
        for store in (self._joins, self._faults, self._evidence):
            for context in [c for c in store if c not in kept]:
                del store[context]
