"""Convert the effects of a member to rows of its journal: one effect, one row.

A recorder belongs to one life of one member. Each call numbers its rows consecutively, so `lseq`
has no gaps, and is one `step`. `Transmit` and `Stopped` have no row: the owner of the member writes
the last row with `stop()`. A merged view has a row of its own and one for each component.

The recorder keeps the one thing that a single effect does not contain: the dependencies of a
message. Delivery makes the application's causality, so the dependencies of a send are, for each
other sender, its last message that was delivered here since the previous send row; the own
previous message is implied. Basic messages are outside that order.

This runs on the hot path: a row costs one struct and no loop over messages, except that
`digests=True` reads every submitted and every delivered byte once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, assert_never
from zlib import crc32

from phalanx.core import effects as fx
from phalanx.core.effects import roles_among
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.roles import Roles
from phalanx.journal import schema as ev

# By value: hashing an enum's member runs Python code, indexing with it does not.
_SERVICES: tuple[ev.ServiceName, ...] = ("BASIC", "CAUSAL", "AGREED", "SAFE")
_REGIONS: tuple[Literal["REGULAR", "TRANSITIONAL"], ...] = ("REGULAR", "TRANSITIONAL")

ChannelOp = Literal["UP", "DOWN", "REFUSED", "REJECTED"]

_Seldom = (
    fx.NotSent
    | fx.WindowClosed
    | fx.WindowOpened
    | fx.Transitional
    | fx.PeerSuspicion
    | fx.ViewChangeStep
    | fx.LinkStats
    | fx.Refused
)


class Recorder:
    """Numbers and words the rows of one member's life."""

    def __init__(
        self,
        run: str,
        group: str,
        member: MemberId,
        digests: bool = False,
    ) -> None:
        self.member = member
        self._run, self._group = run, group
        self._member, self._incarnation = member.name, member.incarnation
        self._digests = digests
        self._lseq = 0
        self._step = 0
        self._delivered: dict[MemberId, int] = {}  # by others, since the last send row
        self._view: ViewId | None = None  # the last view worded, and its words
        self._view_text = ""

    def start(self, now: int, sim_ns: int | None = None) -> ev.Life:
        """The first row of a life."""
        return ev.Life(op="START", **self._alone(now, sim_ns))

    def stop(self, now: int, sim_ns: int | None = None, reason: str = "ended") -> ev.Life:
        """The last row of a life that ended as intended, or because its name is another's."""
        return ev.Life(op="STOP", reason=reason, **self._alone(now, sim_ns))

    def queue(
        self,
        now: int,
        accepted: int,
        submitted: int,
        refused: int,
        reason: str | None = None,
        sim_ns: int | None = None,
    ) -> ev.Queue:
        """What became of messages in the queue in front of the member."""
        return ev.Queue(
            accepted=accepted,
            submitted=submitted,
            refused=refused,
            reason=reason,
            **self._alone(now, sim_ns),
        )

    def crash(self, now: int, sim_ns: int | None = None) -> ev.Life:
        """The last row of a life that was ended from outside; only a simulator knows that."""
        return ev.Life(op="CRASH", **self._alone(now, sim_ns))

    def clock(self, now: int, wall_ns: int, boot_id: str) -> ev.Clock:
        """What the wall clock says now."""
        return ev.Clock(wall_ns=wall_ns, boot_id=boot_id, **self._alone(now, None))

    def channel(
        self, now: int, op: ChannelOp, address: str, peer: str | None, reason: str | None
    ) -> ev.ChannelReport:
        """What happened to a channel of the transport."""
        return ev.ChannelReport(
            op=op, address=address, peer=peer, reason=reason, **self._alone(now, None)
        )

    def topology(
        self, now: int, component: Iterable[str], sim_ns: int | None = None
    ) -> ev.Topology:
        """Ground truth of a simulation, as a row of the member it is about."""
        return ev.Topology(component=sorted(component), **self._alone(now, sim_ns))

    def record(
        self, now: int, effects: Sequence[fx.Effect], sim_ns: int | None = None
    ) -> list[ev.Event]:
        """The rows of one step, in the order of its effects. No rows, no step number."""
        rows: list[ev.Event] = []
        common = self._common(now, sim_ns)
        lseq = self._lseq
        for effect in effects:
            match effect:
                case fx.Transmit() | fx.Stopped() | fx.SettingsDiffer() | fx.RolesInstalled():
                    continue
                case fx.NameContested():
                    continue
                case fx.Deliver():
                    row = self._deliver(effect, lseq + 1, common)
                case fx.Sent():
                    row = self._send(effect, lseq + 1, common)
                case fx.Accepted():
                    to, digest = effect.to, None
                    if self._digests and effect.bodies:
                        digest = crc32(b"".join(effect.bodies))
                    row = ev.Accepted(
                        first=effect.first,
                        last=effect.last,
                        service=_SERVICES[effect.service],
                        size=effect.size,
                        to=None if to is None else [m.name for m in to],
                        to_incarnations=None if to is None else [m.incarnation for m in to],
                        digest=digest,
                        lseq=lseq + 1,
                        **common,
                    )
                case fx.Stable():
                    members = effect.members
                    row = ev.Stable(
                        sender=self._member,
                        sender_incarnation=self._incarnation,
                        upto=effect.upto,
                        view=self._word(effect.view),
                        members=None if members is None else [m.name for m in members],
                        member_incarnations=None
                        if members is None
                        else [m.incarnation for m in members],
                        lseq=lseq + 1,
                        **common,
                    )
                case fx.AllDelivered(upto, view, members):
                    row = ev.AllDelivered(
                        upto=upto,
                        view=self._word(view),
                        members=None if members is None else [m.name for m in members],
                        member_incarnations=None
                        if members is None
                        else [m.incarnation for m in members],
                        lseq=lseq + 1,
                        **common,
                    )
                case fx.Ordered(upto, view):
                    row = ev.Ordered(upto=upto, view=self._word(view), lseq=lseq + 1, **common)
                case fx.ViewInstalled():
                    row = self._install(effect, roles_among(effects, effect), lseq + 1, common)
                case _:
                    row = self._seldom(effect, lseq + 1, common)
            lseq += 1
            rows.append(row)
            if type(effect) is fx.ViewInstalled and effect.merged:
                sides = self._sides(effect, lseq, common)
                lseq += len(sides)
                rows += sides
        if rows:
            self._lseq = lseq
            self._step += 1
        return rows

    # ------------------------------------------------------------------ one row each

    def _send(self, effect: fx.Sent, lseq: int, common: dict[str, Any]) -> ev.Event:
        since = self._delivered
        if since:
            self._delivered = {}
        to = effect.to
        return ev.Sent(
            first=effect.first,
            last=effect.last,
            service=_SERVICES[effect.service],
            view=self._word(effect.view),
            phase=effect.phase,
            frame=effect.frame,
            to=None if to is None else [m.name for m in to],
            to_incarnations=None if to is None else [m.incarnation for m in to],
            dep_senders=[m.name for m in since],
            dep_incarnations=[m.incarnation for m in since],
            dep_numbers=list(since.values()),
            lseq=lseq,
            **common,
        )

    def _deliver(self, effect: fx.Deliver, lseq: int, common: dict[str, Any]) -> ev.Event:
        sender = effect.sender
        service = effect.service
        if service is not fx.Service.BASIC and sender != self.member:
            self._delivered[sender] = effect.last
        digest = None
        if self._digests:
            end = effect.offset + sum(effect.lengths)
            digest = crc32(memoryview(effect.payload)[effect.offset : end])
        view = self._word(effect.view)
        to = effect.to
        return ev.Deliver(
            sender=sender.name,
            sender_incarnation=sender.incarnation,
            first=effect.first,
            last=effect.last,
            service=_SERVICES[service],
            view=view,
            phase=effect.phase,
            region=_REGIONS[effect.region],
            frame=effect.frame,
            origin=view if effect.origin == effect.view else str(effect.origin),
            pos=effect.pos,
            batch=effect.batch,
            to=None if to is None else [m.name for m in to],
            to_incarnations=None if to is None else [m.incarnation for m in to],
            digest=digest,
            lseq=lseq,
            **common,
        )

    def _seldom(self, effect: _Seldom, lseq: int, common: dict[str, Any]) -> ev.Event:
        """The rows of what does not come with every message."""
        match effect:
            case fx.WindowClosed(size, frames):
                return ev.Window(op="CLOSED", bytes=size, frames=frames, lseq=lseq, **common)
            case fx.WindowOpened(size, frames):
                return ev.Window(op="OPENED", bytes=size, frames=frames, lseq=lseq, **common)
            case fx.NotSent(first, last, members, rest, _):
                return ev.NotSent(
                    first=first,
                    last=last,
                    members=[m.name for m in members],
                    member_incarnations=[m.incarnation for m in members],
                    rest=rest,
                    lseq=lseq,
                    **common,
                )
            case fx.Transitional():
                return ev.Transitional(
                    view=self._word(effect.view),
                    pos=effect.pos,
                    members=[m.name for m in effect.members],
                    member_incarnations=[m.incarnation for m in effect.members],
                    lseq=lseq,
                    **common,
                )
            case fx.PeerSuspicion():
                return ev.PeerSuspicion(
                    target=effect.target.name,
                    target_incarnation=effect.target.incarnation,
                    state=effect.state,
                    previous=effect.previous,
                    evidence=effect.evidence,
                    relay=None if effect.relay is None else effect.relay.name,
                    lseq=lseq,
                    **common,
                )
            case fx.ViewChangeStep():
                return ev.ViewChangeStep(
                    context=effect.context.hex(),
                    stage=effect.stage,
                    action=effect.action,
                    components=[str(view) for view in effect.components],
                    failed_before=[str(member) for member in effect.failed_before],
                    failed_after=[str(member) for member in effect.failed_after],
                    lseq=lseq,
                    **common,
                )
            case fx.LinkStats():
                return ev.LinkStats(
                    peer=effect.peer.name,
                    peer_incarnation=effect.peer.incarnation,
                    view=self._word(effect.view),
                    frames=effect.frames,
                    missed=effect.missed,
                    asked=effect.asked,
                    repeated=effect.repeated,
                    lseq=lseq,
                    **common,
                )
            case fx.Refused(reason, count):
                return ev.Refused(reason=reason, count=count, lseq=lseq, **common)
            case _:
                assert_never(effect)

    def _install(
        self, effect: fx.ViewInstalled, roles: Roles, lseq: int, common: dict[str, Any]
    ) -> ev.Event:
        view = effect.view
        return ev.ViewInstalled(
            view=self._word(view.id),
            joins=view.id.joins,
            removals=view.id.removals,
            members=[m.name for m in view.members],
            member_incarnations=[m.incarnation for m in view.members],
            context=view.context.hex(),
            cause=effect.cause,
            previous=None if effect.previous is None else str(effect.previous),
            transitional=[m.name for m in effect.transitional],
            transitional_incarnations=[m.incarnation for m in effect.transitional],
            components=[str(merged.view) for merged in effect.merged],
            joined=[m.name for m in effect.joined],
            joined_incarnations=[m.incarnation for m in effect.joined],
            left=[m.name for m in effect.left],
            left_incarnations=[m.incarnation for m in effect.left],
            role_members=[role.member.name for role in roles],
            role_incarnations=[role.member.incarnation for role in roles],
            role_serials=[role.serial for role in roles],
            role_operations=[" ".join(role.operations) for role in roles],
            lseq=lseq,
            **common,
        )

    def _sides(self, effect: fx.ViewInstalled, lseq: int, common: dict[str, Any]) -> list[ev.Event]:
        """A row for each component of a merged view; the rows before have numbers up to `lseq`."""
        return [
            ev.MergedComponent(
                view=self._word(effect.view.id),
                component=str(side.view),
                members=[m.name for m in side.members],
                member_incarnations=[m.incarnation for m in side.members],
                delivered=[m.name for m, _ in side.delivered],
                delivered_incarnations=[m.incarnation for m, _ in side.delivered],
                delivered_upto=[number for _, number in side.delivered],
                alone=[some.sender.name for some in side.alone],
                alone_incarnations=[some.sender.incarnation for some in side.alone],
                alone_first=[some.first for some in side.alone],
                alone_last=[some.last for some in side.alone],
                lseq=lseq + index,
                **common,
            )
            for index, side in enumerate(effect.merged, start=1)
        ]

    def _alone(self, now: int, sim_ns: int | None) -> dict[str, Any]:
        """The common columns of a row that is a step of its own."""
        common = self._common(now, sim_ns)
        self._lseq += 1
        self._step += 1
        return {**common, "lseq": self._lseq}

    def _common(self, now: int, sim_ns: int | None) -> dict[str, Any]:
        """The columns that the rows of the next step share."""
        return {
            "run": self._run,
            "profile": "T",
            "group": self._group,
            "member": self._member,
            "incarnation": self._incarnation,
            "step": self._step + 1,
            "t_ns": now,
            "sim_ns": sim_ns,
        }

    def _word(self, view: ViewId) -> str:
        """A view's text; a member words one view many times over."""
        if view is not self._view:
            self._view = view
            self._view_text = str(view)
        return self._view_text
