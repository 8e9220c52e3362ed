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

from phalanx.core.effects import Action
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
from phalanx.core.ids import MEMBERS_MAX, MemberId, ViewId
from phalanx.core.membership.contexts import (
    NOBODY,
    Members,
    context_digest,
    epoch,
    members_of,
    normal,
    origin,
    ranked,
)
from phalanx.core.membership.doubts import Doubts
from phalanx.core.membership.ledger import Entry, context_of
from phalanx.core.membership.views import COLLECT, COMMIT, IDLE, NEVER

STASH_MAX = 64
STRAIN_MAX = 3
"""Members get up to this power of two more time to answer."""


class Kernel(Doubts):
    """One member's part in the protocol."""

    # -------------------------------------------------------------- what happens

    def foreign(self, member: MemberId, view: ViewId) -> None:
        """Somebody outside the view can be heard, and hears this component."""
        if (
            self.stage is IDLE
            and self.faulty == self.out
            and not self.leaving
            and member not in self.view.members
            and not self._past.has_view(view)
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
        if not inside and self._is_old(member, component.view):
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
        self._ledger.write(entry)
        if self.leaving:
            if (isinstance(said, Fault) and self.me in said.faulty) or (
                isinstance(said, Join) and self.me in said.failed_before
            ):
                self.goodbyes |= {member}
            return
        if said is not None or entry.phase == 1:
            self._past.coloured(member, entry.number, entry.view)
            self._colour(entry)
        if process and isinstance(said, Join | Fault):
            self._ledger.count(entry)
        if process and said is not None:
            if member in self.view.members or not self._is_old(member, entry.view):
                self._handle(entry, said)
        self.check()

    def _colour(self, entry: Entry) -> None:
        """A frame of a change entered: what is sent from now on follows it. The changes of
        strangers that take no part in a join of ours are none of our business."""
        if entry.view == self.view.id or (self.stage is not IDLE and entry.sender in self.joining):
            self.phase = 1
            if self._answer_until == NEVER:
                self._answer_until = self.now + self._change_ns()

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
        self._ledger.adopt(context, members, out)
        before = self.view
        self.check()
        return self.view is not before

    def has_moved(self, member: MemberId, view: ViewId, members: Members, context: bytes) -> bool:
        """A member that I know in an older view speaks from one that is not mine to reach."""
        if member == self.me:
            return False
        inside = member in self.view.members
        if inside and self.stage is IDLE and not self._past.has_context(context):
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
            self._answer_until = now + self._change_ns()
            late = self._unanswered()
        if now >= self._speak_until:
            self._speak_until = now + self._change_ns()
            if not self.changing:
                late = self._owner.unspoken()
        if late:
            self._strain = min(self._strain + 1, STRAIN_MAX)
            self._strained_ns = now
        return late

    def _unanswered(self) -> list[MemberId]:
        """T_join and T_fa: who has not sent what closes the context. Also who spoke of a change
        that there is not: it is in another one, or somebody lied."""
        if self.stage is COMMIT:
            assert self.proposal is not None
            context, wanted = self.proposal_id, self.after
            rest = members_of(self.proposal) - self.after
            absent = [m for m in rest if not self._ledger.has_joined(context, m)]
        elif self.stage is IDLE and self.faulty != self.out:
            context, wanted = self.context_id, self.faulty
            rest, absent = frozenset(self.view.members) - self.faulty, []
        elif self.stage is IDLE and self.phase:
            return [m for m in self._past.colourers(self.view.id) if m != self.me]
        else:
            if not self.changing:
                self._answer_until = NEVER
            return []
        if wanted:
            absent += [m for m in rest if not self._ledger.has_named(context, m, wanted)]
        return [m for m in ranked(frozenset(absent)) if m != self.me]

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
        self._answer_until = self.now + self._change_ns()
        announce = Announce(self.announced(), self.context_id, (), (), said)
        entry = Entry(self.me, number, self.view.id, 1, announce, reach)
        self._ledger.write(entry)
        self._ledger.count(entry)
        self._past.coloured(self.me, number, self.view.id)

    # -------------------------------------------------------------- hearing

    def _handle(self, entry: Entry, said: Said) -> None:
        if isinstance(said, Join):
            self._on_join(entry, said)
        elif isinstance(said, Fault):
            self._on_fault(entry, said)
        else:
            self.break_with((entry.sender,))

    def _on_join(self, entry: Entry, join: Join) -> None:
        member = entry.sender
        components = entry.announce.components
        if context_of(entry) == self.context_id:
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
        if len(self.before | failed) > MEMBERS_MAX:
            return
        if self.stage is COLLECT:
            self.phase = 1
            self._unite(components, failed | strays)
        elif member in self.joining and member not in self.before | self.after:
            self._unite(components, failed | strays)

    def _on_fault(self, entry: Entry, fault: Fault) -> None:
        member, context, faulty = entry.sender, fault.context, frozenset(fault.faulty)
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

    def _replay(self) -> None:
        stash, self._stash = self._stash, []
        for member, component in stash:
            if (
                component.view == self.view.id
                and member in self.view.members
                and self.stage is IDLE
                and self.faulty == self.out
            ):
                self._start(own=False)
