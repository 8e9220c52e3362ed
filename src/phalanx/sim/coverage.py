"""Scenario coverage: counts of the situations that a run went through, from its members' effects.

A sweep that never merges three components or never loses a member during a join proves little;
these counts show it. They only observe: they influence neither the run nor its verdict.

    views_boot, views_removal, views_join,     views installed, by cause
    views_role
    merges_2, merges_3_or_more                 joint views, by the components that went in
    joined_1, joined_2, joined_3_or_more       ... by how many were new to an installer
    restarted_joined                           ... with a process that had been restarted
    concurrent_first                           views in which the first proposals of two members
                                               differ: both began the change
    sent_in_change                             messages sent in phase 1
    fetched, repeated                          requests for frames, and packets that their senders
                                               repeated because of one
    forwarded                                  packets of other senders that members passed on, as
                                               relays or because of a request
    attempts, commits, forgotten               joins begun, proposed, given up
    fault_in_join, judged_in_join              a failure reported, or detected, while joining
    leave_in_join                              a member left while joining
    followed                                   members that others drew into a view
    suspected, semi, faulty, cleared           verdicts of the detector
    suspected_alive, faulty_alive              ... on a process that lives
    left_out_t_change, left_out_told,          members left out without one: no answer in time,
    left_out_moved                             reported by another, moved to another view
    early_t_change, early_t_speak              living members left out because they did not answer
                                               a proposal, or speak in a view, in time
    initiator_crashed                          crashes of the member that proposed first in its
                                               view, before it got to the next one
    proof_by_tag                               views installed on the word of a member that speaks
                                               from them, though a larger proposal was issued (R3)
    transit                                    views installed in a step that proposes a further
                                               change
    future_frames                              frames that waited for the view they were sent in
    late_frames                                frames of an earlier view that were dropped
    markers                                    views that ended with safe messages in doubt
    transitional, transitional_safe            messages delivered after such a marker
    carried                                    messages delivered in a later view than sent in
    held                                       messages sent in a later view than submitted in
    large_across, subset_across                large ones, and ones to some, delivered in a
                                               later view than their sender submitted them in
    from_crashed                               messages delivered after their sender had crashed
    window_closed_across                       views installed while the window was closed
    not_sent                                   messages without a receiver left
    stopped_left, stopped_name_in_use          members that stopped by themselves
    stopped_for_nothing                        ... for a name that no other process had
    contested                                  members that stay alone, for another has their name
    contested_for_nothing                      ... though no other process had it
    uncontested                                ... that look for their group again
    slow_reader                                times that a member was behind with reading while
                                               another of its view had something to say
    operator_break                             members that live and that an operator breaks with
    lower_namesake                             processes that start with a lower incarnation than a
                                               living one of their name
    third_namesake                             ... with one between those of two living ones
    long_pause                                 members removed in a pause of 2 s or more
    carried_subset_lost                        messages to some, delivered in a later view than sent
                                               in, which has a later process of a receiver's name
    large_group                                views of nine or more members installed
    hello_near_delay                           runs with joins in which HELLOs come about as often
                                               as packets take to travel
    one_way_flaps                              directions of links that were cut, with losses, and
                                               opened three times or more, the other being open
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any

from phalanx.core.effects import (
    PROTOCOL_EVIDENCE,
    Accepted,
    Deliver,
    Effect,
    LinkStats,
    NameContested,
    NotSent,
    PeerSuspicion,
    Sent,
    Service,
    Stopped,
    Transitional,
    ViewChangeStep,
    ViewInstalled,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.wire.packet_codec import FRAGMENT, HEADER_BYTES
from phalanx.core.wire.packets import ANOTHER
from phalanx.sim.process import SimProcess
from phalanx.sim.scenario.model import SECOND, Scenario

_REPEATED = Struct("<8xHH12xB")
"""Of the header of a fragment (`packet_codec`): its sender, who transmits it, and whether it is
repeated."""
_JOINING = ("COLLECT", "COMMIT")
_JUDGED = {"OPERATIONAL": "cleared", "SUSPECTED": "suspected", "SEMI": "semi", "FAULTY": "faulty"}
_LONG_PAUSE_NS = 2 * SECOND
_LARGE = 9
_PROPOSALS = ("COMMIT", "FA", "FOLLOW")
_ACTIONS = {"START": "attempts", "COMMIT": "commits", "FORGET": "forgotten", "FOLLOW": "followed"}


class _Life:
    """State of one process that the counts depend on."""

    __slots__ = (
        "accepted",
        "closed",
        "began",
        "current",
        "frame_max",
        "members",
        "proposed",
        "stage",
        "view",
        "waiting",
    )

    def __init__(self, view: View, frame_max: int) -> None:
        self.view = view.id
        self.members = view.members
        self.frame_max = frame_max
        self.stage = "IDLE"
        self.proposed = False
        """It has issued a proposal in its view."""
        self.began = False
        """That was the first proposal of any member of its view."""
        self.current = b""
        """The digest of its last proposal."""
        self.closed = False
        """Its window is closed."""
        self.accepted = 0
        """Its last message that was accepted."""
        self.waiting = 0
        """Its last message that was accepted before it came to its view."""


class ScenarioCoverage:
    """Counts of one run. Feed it with the effects of every step that has any."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._lives: dict[MemberId, _Life] = {}
        self._merges: set[ViewId] = set()
        self._first: dict[ViewId, bytes | None] = {}
        """Per view, the first proposal that a member issued in it; None once another differed."""
        self._crashed: set[MemberId] = set()
        self._ended: set[MemberId] = set()
        """Crashed, or stopped by themselves."""
        self._installs = False
        """The step that is noted has installed a view."""
        self._large: dict[tuple[MemberId, int], ViewId] = {}
        self._subset: dict[tuple[MemberId, int], ViewId] = {}
        self._behind: list[MemberId] = []
        """Members behind with reading, with no message submitted by another member since."""
        self._paused: list[MemberId] = []
        """Members in a long pause that have not been removed yet."""
        self._handlers: dict[type, Callable[[MemberId, _Life, Any], None]] = {
            Accepted: self._accepted,
            LinkStats: lambda me, life, effect: self.linked([effect]),
            ViewChangeStep: self._stepped,
            NotSent: self._not_sent,
            PeerSuspicion: self._judged,
            Sent: self._sent,
            NameContested: self._contested,
            Stopped: self._stopped,
            Transitional: self._marked,
            ViewInstalled: self._installed,
            WindowClosed: self._window,
            WindowOpened: self._window,
        }

    def note(self, process: SimProcess, effects: Sequence[Effect]) -> None:
        """A step of this process had these effects."""
        if process.me in self._paused:
            self._paused.remove(process.me)  # it takes steps again
        handlers = self._handlers
        self._installs = False
        for effect in effects:
            handler = handlers.get(type(effect))
            if handler is not None:
                life = self._lives.get(process.me)
                if life is None:
                    life = self._lives[process.me] = _Life(process.view, process.frame_max)
                handler(process.me, life, effect)

    def transmitted(self, packets: Sequence[bytes]) -> None:
        """A member has transmitted these packets."""
        passed_on = sum(map(is_of_another, packets))
        if passed_on:
            self._count("forwarded", passed_on)

    def linked(self, links: Sequence[LinkStats]) -> None:
        """A view, or a process, has ended with these statistics."""
        for stats in links:
            if stats.asked:
                self._count("fetched", stats.asked)
            if stats.repeated:
                self._count("repeated", stats.repeated)

    def has_proposed(self, member: MemberId) -> bool:
        """Whether a process has made a proposal in its view."""
        life = self._lives.get(member)
        return life is not None and life.proposed

    def situations(self, counted: Mapping[str, int]) -> None:
        """A process has ended whose member has counted these itself."""
        for case, times in counted.items():
            self._count(case, times)

    def crashed(self, member: MemberId) -> None:
        """This process has just crashed."""
        self._crashed.add(member)
        self._ended.add(member)
        life = self._lives.get(member)
        if life is not None and life.began:
            self._count("initiator_crashed")
        self._handlers[Deliver] = self._delivered

    def leave_requested(self, member: MemberId) -> None:
        """The application of this process has just asked it to leave."""
        life = self._lives.get(member)
        if life is not None and life.stage in _JOINING:
            self._count("leave_in_join")

    def stopped_for_nothing(self) -> None:
        """A process has just stopped for its name, though no other process had it."""
        self._count("stopped_for_nothing")

    def contested_for_nothing(self) -> None:
        """A name was reported as contested, though no other process had it."""
        self._count("contested_for_nothing")

    def paused(self, member: MemberId, for_ns: int) -> None:
        """This process has just been paused for `for_ns`."""
        if for_ns >= _LONG_PAUSE_NS and member not in self._paused:
            self._paused.append(member)

    def reads(self, member: MemberId, level: int) -> None:
        """The application of this process has just fallen behind with reading, or caught up."""
        if member in self._behind:
            self._behind.remove(member)
        if level:
            self._behind.append(member)

    def operator_break(self) -> None:
        """An operator has just made a process treat a live member of its view as failed."""
        self._count("operator_break")

    def started(self, member: MemberId, rivals: Sequence[MemberId]) -> None:
        """This process has just started, while these of its name live."""
        higher = any(rival.incarnation > member.incarnation for rival in rivals)
        if higher:
            self._count("lower_namesake")
        if higher and any(rival.incarnation < member.incarnation for rival in rivals):
            self._count("third_namesake")

    def ended(self, scenario: Scenario, flapped: int) -> None:
        """The run is over, in which so many directions of links came and went."""
        if flapped:
            self._count("one_way_flaps", flapped)
        if scenario.hello_near_delay() and "views_join" in self.counts:
            self._count("hello_near_delay")

    def _count(self, case: str, times: int = 1) -> None:
        self.counts[case] = self.counts.get(case, 0) + times

    # ------------------------------------------------------------------ views

    def _installed(self, me: MemberId, life: _Life, effect: ViewInstalled) -> None:
        self._count(f"views_{effect.cause}")
        self._installs = True
        life.view, life.members = effect.view.id, effect.view.members
        life.proposed = life.began = False
        if len(life.members) >= _LARGE:
            self._count("large_group")
        if effect.previous is None:
            return
        self._handlers[Deliver] = self._delivered  # messages may now cross views
        life.waiting = life.accepted
        if self._paused:
            removed = [member for member in self._paused if member in effect.left]
            if removed:
                self._count("long_pause", len(removed))
            self._paused = [member for member in self._paused if member not in removed]
        if life.closed:
            self._count("window_closed_across")
        if effect.cause == "join":
            life.stage = "IDLE"
            self._joined(effect)

    def _joined(self, effect: ViewInstalled) -> None:
        new = len(effect.joined)
        if new:
            self._count(f"joined_{new}" if new < 3 else "joined_3_or_more")
        if any(m.incarnation > 1 for m in effect.joined):
            self._count("restarted_joined")
        if effect.view.id not in self._merges:
            self._merges.add(effect.view.id)
            parts = len(effect.merged)
            if parts > 1:
                self._count("merges_2" if parts == 2 else "merges_3_or_more")

    def _stepped(self, me: MemberId, life: _Life, effect: ViewChangeStep) -> None:
        joining = life.stage in _JOINING or effect.stage in _JOINING
        life.stage = effect.stage
        if effect.action in _PROPOSALS:
            life.current = effect.context
            if self._installs:
                self._installs = False
                self._count("transit")
            if not life.proposed:
                life.proposed = True
                self._proposed(life, effect.context)
        elif effect.action == "CLOSED" and effect.context != life.current:
            self._count("proof_by_tag")
        if effect.action in _ACTIONS:
            self._count(_ACTIONS[effect.action])
        if joining and set(effect.failed_after) - set(effect.failed_before):
            self._count("fault_in_join")
        elif joining and effect.action == "LEAVE":
            self._count("leave_in_join")

    def _proposed(self, life: _Life, proposal: bytes) -> None:
        """A member has issued its first proposal in its view."""
        life.began = life.view not in self._first
        first = self._first.setdefault(life.view, proposal)
        if first is not None and first != proposal:
            self._first[life.view] = None
            self._count("concurrent_first")

    def _judged(self, me: MemberId, life: _Life, effect: PeerSuspicion) -> None:
        if effect.evidence in PROTOCOL_EVIDENCE:
            self._count(f"left_out_{effect.evidence.lower()}")
            if effect.evidence == "T_CHANGE" and effect.target not in self._ended:
                self._count("early_t_change" if life.proposed else "early_t_speak")
            return
        self._count(_JUDGED[effect.state])
        if effect.state in ("SUSPECTED", "FAULTY") and effect.target not in self._ended:
            self._count(f"{effect.state.lower()}_alive")
        if effect.state == "FAULTY" and life.stage in _JOINING:
            self._count("judged_in_join")

    def _marked(self, me: MemberId, life: _Life, effect: Transitional) -> None:
        self._count("markers")

    def _stopped(self, me: MemberId, life: _Life, effect: Stopped) -> None:
        self._ended.add(me)
        self._count(f"stopped_{effect.reason.replace('-', '_')}")

    def _contested(self, me: MemberId, life: _Life, effect: NameContested) -> None:
        self._count("uncontested" if effect.rival is None else "contested")

    # ------------------------------------------------------------------ messages

    def _accepted(self, me: MemberId, life: _Life, effect: Accepted) -> None:
        life.accepted = effect.last
        for member in self._behind:
            if member != me and member in life.members:
                self._count("slow_reader")
                self._behind.remove(member)
                break
        if effect.first == effect.last and effect.size > life.frame_max:
            self._large[me, effect.last] = life.view
        if effect.to is not None:
            for number in range(effect.first, effect.last + 1):
                self._subset[me, number] = life.view

    def _sent(self, me: MemberId, life: _Life, effect: Sent) -> None:
        if effect.phase:
            self._count("sent_in_change", effect.last - effect.first + 1)
        if effect.first <= life.waiting:
            self._count("held", min(effect.last, life.waiting) - effect.first + 1)

    def _delivered(self, me: MemberId, life: _Life, effect: Deliver) -> None:
        messages = effect.last - effect.first + 1
        if effect.origin != effect.view:
            self._count("carried", messages)
            if effect.to is not None and _any_replaced(effect.to, life.members):
                self._count("carried_subset_lost", messages)
        if effect.region:
            self._count("transitional", messages)
            if effect.service is Service.SAFE:
                self._count("transitional_safe", messages)
        if effect.sender in self._crashed:
            self._count("from_crashed", messages)
        message = (effect.sender, effect.last)
        if self._large.get(message, effect.view) != effect.view:
            self._count("large_across")
        if effect.to is not None and self._subset.get(message, effect.view) != effect.view:
            self._count("subset_across", messages)

    def _not_sent(self, me: MemberId, life: _Life, effect: NotSent) -> None:
        self._count("not_sent", effect.last - effect.first + 1)

    def _window(self, me: MemberId, life: _Life, effect: WindowClosed | WindowOpened) -> None:
        life.closed = isinstance(effect, WindowClosed)


def is_of_another(packet: bytes) -> bool:
    """Whether a packet repeats a fragment of another member of the view than the one that transmits
    it."""
    if packet[1] != FRAGMENT:
        return False
    sender, via, repeat = _REPEATED.unpack_from(packet, HEADER_BYTES)
    return bool(repeat) and via not in (sender, ANOTHER)


def _any_replaced(receivers: Sequence[MemberId], members: Sequence[MemberId]) -> bool:
    """Whether a view has, in place of one of the receivers, another process of its name."""
    names = {member.name for member in members}
    return any(r not in members and r.name in names for r in receivers)
