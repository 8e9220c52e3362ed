"""The log of one member on the logger "phalanx".

INFO: joining, every view (who joined, who left and why, how long the change took), merges, leaving.
WARNING: conditions that an operator should look at. This member cannot send and for which members
it waits, its own application reads too slowly, packets are refused or not sent, the event loop runs
late, settings differ. DEBUG: suspicions, the steps of a view change, the state of the outbox.

The core does not log. The lines are made here from its effects, and from samples that
`StatusSampler` takes four times a second. A warning that could repeat is limited to one line in
REPEAT_NS for each kind, with a count of the events since the last line. No text is formatted for a
level that is off.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from phalanx.config import Config
from phalanx.core import effects as fx
from phalanx.core.ids import MemberId
from phalanx.core.member.blocked import Wait
from phalanx.runtime.short_names import ShortNames

log = logging.getLogger("phalanx")

REPEAT_NS = 10_000_000_000
"""A warning of one kind is logged at most once in this time."""
BLOCKED_NS = 1_000_000_000
"""A member that could send nothing for this long logs a warning."""
VIEWS_MAX = 50
"""Lines about views in REPEAT_NS."""
ADDRESSES_MAX = 4
"""Lines about changed addresses in REPEAT_NS."""
MEMBERS_SHOWN_MAX = 32

REASONS: dict[fx.Evidence | None, str] = {
    None: "it left",
    "SILENCE": "silent, and no answer to probes",
    "RELAY": "silent, and no answer to probes",
    "DIRECT": "silent, and no answer to probes",
    "STALLED": "alive, but it acknowledges nothing",
    "T_CHANGE": "no answer to the view change in time",
    "TOLD": "left out by another member",
    "MOVED": "it is in another view",
    "REPLACED": "a later process has its name",
    "OPERATOR": "removed by an operator",
}
WAITS: dict[Wait, str] = {
    "unread": "its application reads events too slowly",
    "unacknowledged": "it has not acknowledged",
    "unanswered": "it has not answered the view change",
}
UNSENT = {
    "unsent": "the system had no room for them",
    "unreachable": "the network refused them: no route, interface down, address gone or firewall",
    "oversized": "they are larger than any datagram",
    "truncated": "they arrived only in part",
    "malformed": "introductions that cannot be decoded",
    "table-full": "introductions of more members than there is room for",
    "queue-full": "copies for peers of a mesh that read too slowly",
}
"""The counts of a transport that are logged, and what happened to the packets."""
STRANGERS = ("cluster", "group")
"""Reasons to refuse packets that belong to other groups: expected, so logged as INFO."""
FIRST_STEPS: tuple[fx.Action, ...] = ("START", "COMMIT", "FA", "FOLLOW")
"""The steps that a view change can begin with."""


class Limiter:
    """Allows a few lines for each key in REPEAT_NS, and counts the events beyond that."""

    def __init__(self) -> None:
        self._period_ns: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def count(self, now: int, key: str, count: int = 1, lines: int = 1) -> int:
        """The number of events to report now, suppressed ones included; 0 if `lines` lines were
        logged in this period already."""
        if now >= self._period_ns.get(key, 0):
            self._period_ns[key] = now + REPEAT_NS
            self._lines[key] = 0
        count += self._suppressed.pop(key, 0)
        if self._lines[key] >= lines:
            self._suppressed[key] = count
            return 0
        self._lines[key] += 1
        return count


class EventLog:
    """The log of one member. Only the event loop's thread calls it."""

    def __init__(self, group: str, me: MemberId, config: Config) -> None:
        self._names = ShortNames()
        self._who = f"{group}/{self._names.of(me)}"
        self._me = me
        self._config = config
        self._limiter = Limiter()
        self._evidence: dict[MemberId, fx.PeerSuspicion] = {}
        """Why members of the view are about to be removed."""
        self._began_ns: int | None = None
        """When the view change that is under way began."""
        self._left_ns = 0
        self._following = 0
        self._stuck_ns: int | None = None
        """Since when no message was sent although some wait."""
        self._warned = False
        self._reader_is_slow = False
        """The log says that the application reads too slowly."""
        self._counts: dict[str, int] = {}
        self._dropped = 0

    # -------------------------------------------------------------- effects

    def effect(self, now: int, effect: fx.Effect) -> None:
        """Log an effect of a kind that does not come with every message."""
        match effect:
            case fx.ViewInstalled():
                self._view(now, effect)
            case fx.PeerSuspicion(target, state, previous, evidence):
                if state == "FAULTY":
                    self._evidence[target] = effect
                else:
                    self._evidence.pop(target, None)
                self._debug("%s was %s and is %s (%s)", target, previous, state, evidence)
            case fx.ViewChangeStep(action=action, failed_after=failed):
                if action == "FORGET":
                    self._began_ns = None
                elif action in FIRST_STEPS and self._began_ns is None:
                    self._began_ns = now
                self._debug("view change: %s, without %s", action, failed)
            case fx.Refused(reason, count):
                self._refused(now, reason, count)
            case fx.WindowClosed(size, frames):
                self._debug("outbox full: %d bytes in %d frames in the window", size, frames)
            case fx.WindowOpened(size, frames):
                self._debug("outbox has room: %d bytes in %d frames in the window", size, frames)
            case fx.NotSent(first, last, members):
                self._debug("messages %d to %d do not go to %s", first, last, members)
            case fx.RolesInstalled(_, roles):
                for role in roles:
                    self._debug("role of %s: %s", role.member, " ".join(role.operations))
            case fx.SettingsDiffer(peer, theirs):
                self._settings_differ(peer, theirs)
            case fx.NameContested(rival):
                self._name_contested(rival)

    def _view(self, now: int, effect: fx.ViewInstalled) -> None:
        took = None if self._began_ns is None else now - self._began_ns
        self._began_ns = None
        views = self._limiter.count(now, "views", lines=VIEWS_MAX)
        if views and log.isEnabledFor(logging.INFO):
            parts = [f"{views - 1} views not shown"] if views > 1 else []
            parts.append(f"view {effect.view.id} of {self._members(effect.view.members)}")
            if effect.joined:
                parts.append(f"joined: {self._members(effect.joined)}")
            if effect.left:
                gone = [
                    f"{self._names.of(m)} ({self._reason(m)})"
                    for m in effect.left[:MEMBERS_SHOWN_MAX]
                ]
                parts.append(f"left: {', '.join(gone)}{_more(effect.left)}")
            if effect.merged:
                own_first = sorted(
                    (self._me not in side.members, side.members) for side in effect.merged
                )
                sides = (self._members(members) for _, members in own_first)
                parts.append(f"merged: {' | '.join(sides)}")
            parts.append(effect.cause if took is None else f"{effect.cause}, took {_time(took)}")
            log.info("%s: %s", self._who, "; ".join(parts))
        # A suspicion survives the view change, except for one that was caused by a late answer.
        self._evidence = {
            member: judged
            for member, judged in self._evidence.items()
            if member in effect.view.members and judged.evidence != "T_CHANGE"
        }

    def _reason(self, member: MemberId) -> str:
        judged = self._evidence.get(member)
        if judged is None:
            return REASONS[None]
        here = "silent here too, " if judged.previous == "SUSPECTED" else ""
        return (here if judged.evidence == "TOLD" else "") + REASONS[judged.evidence]

    def _refused(self, now: int, reason: str, count: int) -> None:
        level = logging.INFO if reason in STRANGERS else logging.WARNING
        total = self._limiter.count(now, f"refused {reason}", count)
        if total and log.isEnabledFor(level):
            log.log(level, "%s: %d packets refused as %r", self._who, total, reason)

    def _settings_differ(self, peer: MemberId, theirs: tuple[tuple[str, str], ...]) -> None:
        named = [
            f"{name} is {value!r} there, {str(getattr(self._config, name))!r} here"
            for name, value in theirs
        ]
        log.warning(
            "%s: refuses %s, whose settings differ (%s): no view is formed with it; "
            "give all members of the group the same settings",
            self._who,
            self._names.of(peer),
            "; ".join(named) or "unknown to this release",
        )

    def _name_contested(self, rival: MemberId | None) -> None:
        if rival is None:
            log.info("%s: nobody else has this name any more; looks for its group again", self._who)
            return
        log.warning(
            "%s: another process has this name: %s; this member stays alone until that one is "
            "gone: stop one of the two (with trusted=True this one stops by itself)",
            self._who,
            rival,
        )

    # -------------------------------------------------------------- joining and leaving

    def joins(self, address: str) -> None:
        log.info("%s: joins as %s, from %s", self._who, self._me, address)

    def leaves(self, now: int) -> None:
        self._left_ns = now
        log.info("%s: leaves", self._who)

    def left(self, now: int) -> None:
        log.info("%s: left, took %s", self._who, _time(now - self._left_ns))

    def stopped(self, why: Exception) -> None:
        log.warning("%s: stopped: %s", self._who, why)

    # -------------------------------------------------------------- samples

    def sending(
        self, now: int, following: int, waiting: int, blocked_by: Mapping[MemberId, Wait]
    ) -> None:
        """Log that no message is sent, or that messages are sent again. `following` is the next
        message to send, `waiting` the bytes that wait, `blocked_by` the members they wait for."""
        if not blocked_by or following != self._following:
            if self._warned and self._stuck_ns is not None:
                log.info("%s: sends again after %s", self._who, _time(now - self._stuck_ns))
            self._following = following
            self._stuck_ns = now if blocked_by else None
            self._warned = False
        elif self._stuck_ns is None:
            self._stuck_ns = now  # the message that waits came after the last sample
        elif now - self._stuck_ns >= BLOCKED_NS:
            if self._limiter.count(now, "blocked"):
                self._warned = True
                log.warning(
                    "%s: nothing sent for %s, %d bytes wait for %s",
                    self._who,
                    _time(now - self._stuck_ns),
                    waiting,
                    self._reasons(blocked_by),
                )

    def _reasons(self, blocked_by: Mapping[MemberId, Wait]) -> str:
        shown = list(blocked_by.items())[:MEMBERS_SHOWN_MAX]
        texts = (f"{self._names.of(member)} ({WAITS[why]})" for member, why in shown)
        return ", ".join(texts) + _more(tuple(blocked_by))

    def reading(self, now: int, level: int, waiting: int) -> None:
        """Log that the lag of this member's own application has changed."""
        if level and self._limiter.count(now, f"unread {level}"):
            self._reader_is_slow = True
            what = "this member sends nothing" if level > 1 else "the other members wait"
            text = "%s: the application reads events too slowly, %d bytes are unread: %s"
            log.warning(text, self._who, waiting, what)
        elif not level and self._reader_is_slow:
            self._reader_is_slow = False
            log.info("%s: the application has read its events", self._who)

    def counted(self, now: int, address: str, counts: Mapping[str, int], dropped: int = 0) -> None:
        """Log what the transport's counts show, and messages dropped because they were not read."""
        for kind, meaning in UNSENT.items():
            if new := self._grown(kind, counts):
                self._lost(now, kind, new, f"{kind}: {meaning}")
        gone, changed = self._grown("address-lost", counts), self._grown("address-changed", counts)
        if (gone or changed) and self._limiter.count(now, "address", lines=ADDRESSES_MAX):
            now_sends = f"sends from {address} now" if changed else "sends nothing until it has one"
            log.warning("%s: the address of its interface is gone, %s", self._who, now_sends)
        if dropped > self._dropped:
            self._lost(now, "dropped", dropped - self._dropped, "messages not read in time")
            self._dropped = dropped

    def _grown(self, kind: str, counts: Mapping[str, int]) -> int:
        before, self._counts[kind] = self._counts.get(kind, 0), counts.get(kind, 0)
        return self._counts[kind] - before

    def _lost(self, now: int, kind: str, count: int, meaning: str) -> None:
        total = self._limiter.count(now, kind, count)
        if total:
            log.warning("%s: %d lost here, %s", self._who, total, meaning)

    # -------------------------------------------------------------- formatting

    def _members(self, members: tuple[MemberId, ...]) -> str:
        return self._names.listed(members[:MEMBERS_SHOWN_MAX]) + _more(members)

    def _debug(self, text: str, *values: object) -> None:
        if log.isEnabledFor(logging.DEBUG):
            shown = (self._shown(value) for value in values)
            log.debug(f"%s: {text}", self._who, *shown)

    def _shown(self, value: object) -> object:
        if isinstance(value, MemberId):
            return self._names.of(value)
        return self._members(value) if isinstance(value, tuple) else value


def _more(members: tuple[MemberId, ...]) -> str:
    rest = len(members) - MEMBERS_SHOWN_MAX
    return f" and {rest} more" if rest > 0 else ""


def _time(ns: int) -> str:
    if ns >= 1_000_000_000:
        return f"{ns / 1e9:.1f} s"
    return f"{ns / 1e6:.0f} ms" if ns >= 1_000_000 else "under 1 ms"
