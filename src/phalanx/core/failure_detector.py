"""Suspicion: how silence becomes a verdict (rules L-1 to L-7; S2 3).

A peer gives a sign when something of it comes in by any route: a packet of its own, one
repeated by others, word of others that they have heard it. What a peer is, follows from how
long it has been silent and how long nothing has come from it directly:

    silent    direct    state        what is done
    --------  --------  -----------  --------------------------------------------------------
    < half    < half    OPERATIONAL  it is probed shortly before the half: most often one lost
                                     keep-alive is all there is
    < half    >= half   SEMI         it stays a member, and one relay brings its frames
    >= half   any       SUSPECTED    it is probed on a path of its own, again and again
    >= whole  any       FAULTY       if PROBES_LEAST probes in a row were of no avail

where the whole is the peer's time-out. FAULTY is also who is heard but has long ceased to
acknowledge what it is sent (STALLED, rule L-7). That verdict falls once and
stands until `reset`.

We may be the one who was away: stopped, suspended, starved. Time between two steps that lie
too far apart counts as nobody's silence, and after it no verdict falls before new probes have
had time to be answered. S2 asks that every operational process suspects a faulty one; here
the signs that others pass on stand for what they think.

Signs cost no call: the owner writes `heard_ns` and `direct_ns`, and `check` looks at what has
changed since the last time. Nothing here knows what a sign is. Everything that changes a
peer's state is in this file.

A wrong verdict. Default settings, two live members that are alone and idle, one packet in 20
lost each way. The last sign came at 0. Lost must be the keep-alives of 250, 500 and 750 ms
(0.05 ** 3 = 1.3e-4) and every probe from 320 to 850 ms or its answer. A probe fails with
1 - 0.95 ** 2 = 0.0975; there are 17, and twelve if each is as late as `_next` can make it
(0.0975 ** 12 = 7e-13). Together 1e-16 at most. A test counts the probes.

Worse is one that stops for half the time-out. A verdict needs a silence of 425 ms before that:
the keep-alive of 250 ms lost (0.05), the stop in the last 75 of the next 250 ms (0.3), and the
six or seven probes until then (0.0975 ** 6 = 9e-7): 1e-8 for each stop, with no helper.
`bench/bench_detector.py` plays it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.config import MS, Config
from phalanx.core.deadline import NEVER
from phalanx.core.effects import Evidence, PeerState
from phalanx.core.ids import MemberId
from phalanx.core.prng import Prng

PROBES_LEAST = 4
"""Unanswered probes before a verdict: three, and one whose answer may still lie in a socket, if
the owner looks at its timer before it reads (rule L-5)."""
GAP_DECAY_BITS = 5
"""The worst gap of a peer is forgotten by one part in 32 at each sign."""
STRETCH_MAX = 4
"""A time-out grows with the measured gaps to at most so many times `fail_ns`."""
STALLED_AFTER = 4
"""Nothing acknowledged for so many times `fail_ns`, though heard. Where packets are lost at random
a frame must have been asked for so often by then that it would have come."""
STEPS = 8
"""When all is well, one check in this part of `fail_ns`."""
ASK = 4
"""Probes begin this part of half the time-out before a peer is suspected."""
AWAY = 4
"""A gap between two steps longer than this part of `fail_ns` was our own absence; as long is
the grace after it."""
PATIENCE = 16
"""Verdicts are put off by up to this part of `fail_ns`, at random: where a link is cut in both
directions, one end should be first to accuse, else third parties drop both (rule L-5)."""


class Probing(msgspec.Struct, frozen=True, gc=False):
    """Send the slot a probe; its answer is for `alive`, with the same nonce (31 bits; rule L-4).

    `helper` is a slot that may be asked to pass it on and to pass the answer back (-1: there is
    none): where only the link between us is cut, no other probe gets through. It is another one
    each time.
    """

    slot: int
    nonce: int
    helper: int = -1


class PeerVerdict(msgspec.Struct, frozen=True, gc=False):
    """The slot's state changed, or, SEMI before and after, its relay did (-1: none is known)."""

    slot: int
    state: PeerState
    previous: PeerState
    evidence: Evidence
    relay: int = -1


class WatchedPeer:
    """What is known of one slot. All but `member` is the detector's business."""

    __slots__ = (
        "member", "watched", "state", "relay",
        "seen_ns", "since_ns", "direct_seen_ns", "direct_since_ns", "gap_ns", "timeout_ns",
        "probes", "probe_due_ns", "first_nonce", "patience_ns", "lag_ns", "lag_mark_ns",
    )  # fmt: skip

    def __init__(self, member: MemberId, now: int, fail_ns: int, nonce: int) -> None:
        self.member = member
        self.watched = True
        self.state: PeerState = "OPERATIONAL"
        self.relay = -1
        self.seen_ns = self.direct_seen_ns = now
        """The last sign that a check has seen."""
        self.since_ns = self.direct_since_ns = now
        """Silence counts from here: the last sign, moved on by what we were away."""
        self.gap_ns = 0
        """The longest time between two signs, slowly forgotten."""
        self.timeout_ns = fail_ns
        self.probes = 0
        """Sent since the last sign, or since we were away."""
        self.probe_due_ns = 0
        self.first_nonce = nonce
        """Of the probes since the last packet of its own."""
        self.patience_ns = 0
        self.lag_ns = 0
        """For so long it has been heard without acknowledging; no sign, no lag."""
        self.lag_mark_ns: int | None = None


class FailureDetector:
    """Judges peers by slot: small integers from 0, stable until `reset`.

    The owner writes the three public lists, which stay the same objects for ever: at a sign of
    a slot `heard_ns[slot] = now`; at a packet that the slot itself transmitted also
    `direct_ns[slot] = now`; and at one that another brought or acknowledged, `relay[slot]`.
    """

    __slots__ = (
        "heard_ns", "direct_ns", "relay",
        "_config", "_prng", "_peers", "_me", "_nonce", "_stepped_ns", "_hold_ns", "_due_ns",
    )  # fmt: skip

    def __init__(self, config: Config, prng: Prng) -> None:
        self.heard_ns: list[int] = []
        self.direct_ns: list[int] = []
        self.relay: list[int] = []
        self._config = config
        self._prng = prng
        self._peers: list[WatchedPeer] = []
        self._me = -1
        self._nonce = prng.between(1, 1 << 30)
        self._stepped_ns = 0
        self._hold_ns = 0
        """No verdict before this."""
        self._due_ns = NEVER

    # -------------------------------------------------------------- whom to judge

    def reset(self, now: int, members: Sequence[MemberId], me: int) -> None:
        """Slots are `members` from here on. Who was watched goes on as it is; others, also who
        was held for failed, have a full time-out from now."""
        self._turn(now)
        before = {peer.member: slot for slot, peer in enumerate(self._peers)}
        after = {member: slot for slot, member in enumerate(members)}
        moved = [after.get(peer.member, -1) for peer in self._peers] + [-1]  # [-1] is -1
        peers: list[WatchedPeer] = []
        signs: list[tuple[int, int, int]] = []
        for slot, member in enumerate(members):
            peer, sign = WatchedPeer(member, now, self._config.fail_ns, self._nonce), (now, now, -1)
            if (was := before.get(member)) is not None:
                known = self._peers[was]
                if known.watched:
                    peer = known
                    peer.relay = moved[peer.relay]
                    peer.lag_ns, peer.lag_mark_ns = 0, None
                    sign = (self.heard_ns[was], self.direct_ns[was], moved[self.relay[was]])
                else:
                    peer.gap_ns, peer.timeout_ns = known.gap_ns, known.timeout_ns
            peer.watched = slot != me
            peers.append(peer)
            signs.append(sign)
        self._peers, self._me = peers, me
        self.heard_ns[:] = [heard for heard, _, _ in signs]
        self.direct_ns[:] = [direct for _, direct, _ in signs]
        self.relay[:] = [relay for _, _, relay in signs]
        self._due_ns = self._next(now)

    def ignore(self, slot: int) -> None:
        """The owner holds it for failed already: FAULTY until `reset`, without a word."""
        peer = self._peers[slot]
        peer.watched, peer.state = False, "FAULTY"

    def state(self, slot: int) -> PeerState:
        return self._peers[slot].state

    def relay_of(self, slot: int) -> int:
        """Who was chosen to bring the frames of a slot that is SEMI; -1 if nobody is."""
        return self._peers[slot].relay

    # -------------------------------------------------------------- what is learned of them

    def alive(self, now: int, slot: int, nonce: int, helper: int = -1) -> None:
        """A probe was answered, directly or through a helper. An answer to a probe from before
        the slot's last packet is no sign: it may have been under way for long."""
        self._turn(now)
        peer = self._peers[slot]
        if not peer.watched or not peer.first_nonce <= nonce < self._nonce:
            return
        self.heard_ns[slot] = now
        if helper < 0:
            self.direct_ns[slot] = now
        else:
            self.relay[slot] = helper
        self._sample(slot, peer, fresh=True)
        if peer.state == "SUSPECTED":
            self._due_ns = now

    def expect(self, now: int, slot: int, lag: bool) -> None:
        """Say whether the slot lags: it lacks acknowledgements of frames that were sent or
        repeated since, and none has come since this was said the last time (rule L-7).

        Lag is the time from sign to sign while this is repeated: who is silent is judged for
        silence, and who was stopped for long is not blamed for it at its first sign.
        """
        self._turn(now)
        peer, heard = self._peers[slot], max(self.heard_ns[slot], self.direct_ns[slot])
        if not lag:
            peer.lag_ns, peer.lag_mark_ns = 0, None
        elif peer.lag_mark_ns is None:
            peer.lag_mark_ns = now
        elif heard > peer.lag_mark_ns:
            peer.lag_ns += min(heard - peer.lag_mark_ns, self._config.fail_ns // 2)
            peer.lag_mark_ns = heard

    # -------------------------------------------------------------- the machine

    def check(self, now: int) -> list[Probing | PeerVerdict]:
        """Look at everybody. For when `deadline` has come; at other times it does no harm."""
        self._turn(now)
        out: list[Probing | PeerVerdict] = []
        for slot, peer in enumerate(self._peers):
            if not peer.watched:
                continue
            self._sample(slot, peer)
            state, evidence = self._verdict(now, peer)
            relay = self._relay(slot, peer) if state == "SEMI" else -1
            if (state, relay) != (peer.state, peer.relay):
                out.append(PeerVerdict(slot, state, peer.state, evidence, relay))
                self._enter(peer, state)
                peer.relay = relay
            if state != "FAULTY" and now >= max(peer.probe_due_ns, self._ask_ns(peer)):
                out.append(Probing(slot, self._nonce, self._helper(slot)))
                self._nonce += 1
                peer.probes += 1
                peer.probe_due_ns = now + self._pause_ns(state)
        self._due_ns = self._next(now)
        return out

    def deadline(self) -> int:
        """When to call `check`; often early, since signs come without a call."""
        return self._due_ns

    def story(self) -> list[str]:
        """A line for each slot, for a person."""
        return [
            f"  {peer.member}: {peer.state}"
            f", silent {(self._stepped_ns - peer.since_ns) // MS} ms"
            f", directly {(self._stepped_ns - peer.direct_since_ns) // MS} ms"
            f", time-out {peer.timeout_ns // MS} ms, {peer.probes} probes"
            f", lags {peer.lag_ns // MS} ms" + (f", relay {peer.relay}" if peer.relay >= 0 else "")
            for slot, peer in enumerate(self._peers)
            if slot != self._me
        ]

    def _turn(self, now: int) -> None:
        """Every step begins here: if the last one is too long ago, we were away (rule L-6)."""
        away = now - self._stepped_ns
        self._stepped_ns = now
        if away <= self._config.fail_ns // AWAY:
            return
        self._hold_ns = now + self._config.fail_ns // AWAY
        for slot, peer in enumerate(self._peers):
            # Signs that came before we were away, or were read first thing after, count; the gap
            # that they end says nothing about the peer.
            gap, timeout = peer.gap_ns, peer.timeout_ns
            self._sample(slot, peer)
            peer.gap_ns, peer.timeout_ns = gap, timeout
            peer.since_ns = min(now, peer.since_ns + away)
            peer.direct_since_ns = min(now, peer.direct_since_ns + away)
            peer.probes = 0
            peer.lag_ns = 0
            if peer.lag_mark_ns is not None:
                peer.lag_mark_ns = now

    def _sample(self, slot: int, peer: WatchedPeer, fresh: bool = False) -> None:
        """Take in the signs since the last check (rule L-3).

        Of several signs between two checks only the last is seen, so a gap may be taken for
        longer than it was, by one step at most: not in a quiet group, whose keep-alives are
        further apart than steps, and to no effect in a busy one, whose gaps are short.
        """
        config = self._config
        direct, heard = self.direct_ns[slot], max(self.heard_ns[slot], self.direct_ns[slot])
        if heard <= peer.seen_ns:
            return
        if direct > peer.direct_seen_ns:
            peer.direct_seen_ns = peer.direct_since_ns = direct
            peer.first_nonce = self._nonce
        since = heard
        if 0 < heard - peer.direct_since_ns < peer.timeout_ns and not fresh:
            # What others say in their keep-alives may be as old as those are apart: else a crash
            # would be found so much later whenever the last keep-alive was lost. Not of a peer
            # that is long SEMI: such signs are the only ones it gives.
            since = max(peer.since_ns, peer.direct_since_ns, heard - config.alive_idle_ns)
        gap = max(since - peer.since_ns, peer.gap_ns - (peer.gap_ns >> GAP_DECAY_BITS))
        # As long again, and again what it exceeded a keep-alive interval by. One lost keep-alive
        # makes a gap of at most two intervals and must change nothing: at one loss in 20
        # verdicts would be late half of the time.
        stretched = gap + gap - config.alive_idle_ns
        peer.gap_ns = gap
        peer.timeout_ns = min(max(stretched, config.fail_ns), STRETCH_MAX * config.fail_ns)
        peer.seen_ns, peer.since_ns = heard, since
        peer.probes = 0

    def _verdict(self, now: int, peer: WatchedPeer) -> tuple[PeerState, Evidence]:
        """The table above (rule L-2)."""
        silence = now - peer.since_ns
        half = peer.timeout_ns // 2
        held = now < self._hold_ns
        if peer.lag_ns >= STALLED_AFTER * self._config.fail_ns and not held:
            return "FAULTY", "STALLED"
        if silence >= half:
            whole = peer.timeout_ns + peer.patience_ns
            if peer.state == "SUSPECTED" and silence >= whole and not held:
                if peer.probes >= PROBES_LEAST:
                    return "FAULTY", "SILENCE"
            return "SUSPECTED", "SILENCE"
        if now - peer.direct_since_ns >= half:
            return "SEMI", "RELAY"
        return "OPERATIONAL", "DIRECT"

    def _enter(self, peer: WatchedPeer, state: PeerState) -> None:
        if state == "SUSPECTED":
            peer.patience_ns = self._prng.between(0, self._config.fail_ns // PATIENCE)
        peer.watched = state != "FAULTY"
        peer.state = state

    def _relay(self, slot: int, peer: WatchedPeer) -> int:
        """The one chosen already while it is fit, else who was of use last, else none
        (rule L-8)."""
        for relay in (peer.relay, self.relay[slot]):
            if relay >= 0 and relay not in (slot, self._me):
                if self._peers[relay].state == "OPERATIONAL":
                    return relay
        return -1

    def _quiet_ns(self, peer: WatchedPeer) -> int:
        """Since when it lacks the signs that it owes in its state."""
        return peer.since_ns if peer.state == "SEMI" else peer.direct_since_ns

    def _ask_ns(self, peer: WatchedPeer) -> int:
        """When to begin to probe it."""
        half = peer.timeout_ns // 2
        return self._quiet_ns(peer) + half - half // ASK

    def _pause_ns(self, state: PeerState) -> int:
        """How long until the next probe: at first half as long, for a peer that stops for half the
        time-out just after a keep-alive of its own was lost must have been asked often before."""
        return self._config.probe_ns >> (state == "OPERATIONAL")

    def _helper(self, slot: int) -> int:
        """Somebody operational, by turns: the nonce counts the probes."""
        n = len(self._peers)
        for helper in range(self._nonce, self._nonce + n):
            if helper % n not in (slot, self._me):
                if self._peers[helper % n].state == "OPERATIONAL":
                    return helper % n
        return -1

    def _next(self, now: int) -> int:
        """When the first state may change, and no later than a step; NEVER with nobody to watch.

        Probes of several peers drift together, for nothing is done sooner than a quarter of
        their interval from now: else a cut cable would wake us for each peer by itself.
        """
        due, step = NEVER, self._config.fail_ns // STEPS
        for peer in self._peers:
            if not peer.watched:
                continue
            due = min(due, now + step)
            quiet, half = self._quiet_ns(peer), peer.timeout_ns // 2
            if now - quiet <= self._config.alive_idle_ns:
                continue  # all is well: its next keep-alive will be in time
            due = min(due, max(self._ask_ns(peer), peer.probe_due_ns))
            for change in (quiet + half, peer.since_ns + peer.timeout_ns + peer.patience_ns):
                if change > now:
                    due = min(due, change)
        return max(due, now + min(step, self._config.probe_ns) // 4)
