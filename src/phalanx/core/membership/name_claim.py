"""One live process for each name (rules L-16 and L-17).

Before its first frame a member claims its name three times. A live holder answers, and the
claimant gives up. Of two that claim at the same moment the one with the smaller number of
the draw stays.

Two holders that could not hear each other may meet later: a partition heals, or a process that was
stopped goes on after another has taken its place. The member that a group has accepted stays:

    both are alone in their views             the later incarnation stops
    one is alone, the other in a group        the one that is alone stops; see below
    both are in groups                        the groups merge and leave the earlier incarnation
                                              out (rule N.3); then it is alone
    all of one group have later namesakes     no view can hold members of both: the members of the
    in the other                              earlier group go on alone
    both groups have the same names, and      nobody can unite them: of the group whose first member
    each has some of the later processes      is the earlier one, the members with a later namesake
                                              go on alone

A process must not use an incarnation that another process of its name had: those that met the other
would ignore it. They answer with Reused (`members_met`), and the process stops; one that has its
name already asks once more, as for Held.

No packet stops a member that is in a view with others. One that is alone and receives Held for its
name claims it once more, with a new draw; one stray packet does nothing.

Where packets could be forged (`Config.authentic` is false), even an answer to that claim stops only
a process that no group has accepted yet, since forged packets can part a member from its group
first. A process that was a member stays alone while its name is contested: it neither looks for
others nor answers them, and claims its name every `CONTESTED_PERIODS` of `hello_ns`. When nobody
answers `CLAIMS` claims in a row, the name is its own again.
"""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.deadline import NEVER
from phalanx.core.ids import MemberId
from phalanx.core.prng import Prng
from phalanx.core.wire.packets import IncarnationReused, NameClaimed, NameHeld

CLAIMS = 3
CONTESTED_PERIODS = 4
NONCE_MAX = (1 << 62) - 1


class NameClaim:
    __slots__ = (
        "_config",
        "_doubt_until",
        "_due_ns",
        "_left",
        "_nonce",
        "_prng",
        "me",
        "rival",
    )

    def __init__(self, me: MemberId, config: Config, prng: Prng, needed: bool) -> None:
        self.me = me
        self._config = config
        self._prng = prng
        self._nonce = prng.between(1, NONCE_MAX)
        self._left = CLAIMS if needed else 0
        self._due_ns = NEVER
        self._doubt_until = 0
        """Until then an answer to the last claim means that the name is another's."""
        self.rival: MemberId | None = None
        """The process that has the name of this member, which stays alone meanwhile."""

    @property
    def pending(self) -> bool:
        """The name is not yet ours: the claims of the start are not over."""
        return self.rival is None and (self._due_ns != NEVER or self._left > 0)

    @property
    def is_ours(self) -> bool:
        """Nobody is known to object: the member may look for others."""
        return self.rival is None and not self.pending

    def start(self, now: int) -> None:
        if self._left:
            self._due_ns = now

    def deadline(self) -> int:
        return self._due_ns

    def expire(self, now: int) -> NameClaimed | None:
        """The next claim to make, or None when all were made and nobody answered."""
        if not self._left:
            self._due_ns, self.rival = NEVER, None
            return None
        self._left -= 1
        contested = self._config.hello_ns * CONTESTED_PERIODS
        self._due_ns = now + (self._config.claim_ns if self.rival is None else contested)
        return NameClaimed(self.me, self._nonce)

    def contest(self, now: int, rival: MemberId) -> None:
        """Another process has the name: claim it until nobody answers any more."""
        self.rival = rival
        self._nonce = self._prng.between(1, NONCE_MAX)
        self._left = CLAIMS
        self._due_ns = now + self._config.hello_ns * CONTESTED_PERIODS

    def accepted(self) -> None:
        """A group has accepted this member: rule N.3 has decided whose the name is."""
        if self.rival is not None:
            self._due_ns, self._left, self.rival = NEVER, 0, None

    def answer(self, claim: NameClaimed) -> NameHeld | None:
        """Another process claims a name. What to answer if it is ours (rule L-16)."""
        if claim.member.name != self.me.name or self._is_own(claim) or self.rival is not None:
            return None
        if self.pending and (claim.member, claim.nonce) < (self.me, self._nonce):
            return None  # it was first, by lot: its answer to our claim will tell
        return NameHeld(self.me, claim.nonce)

    def met(self, other: MemberId, alone: bool) -> NameHeld | None:
        """A process with our name and another incarnation was heard: what to tell it. `alone` if
        this member is alone in its view (rule L-17)."""
        if other.name != self.me.name or other == self.me or not self.is_ours:
            return None
        if alone and other.incarnation < self.me.incarnation:
            return None
        return NameHeld(self.me, 0)

    def doubts(self, now: int, held: NameHeld) -> NameClaimed | None:
        """Somebody says unasked that the name is another's: ask whether that is so."""
        if held.nonce or not self._is_rival(held.member) or not self.is_ours:
            return None
        if now < self._doubt_until:
            return None
        return self._once_more(now)

    def _once_more(self, now: int) -> NameClaimed:
        """Claim with a new draw: answers to it are answers of now."""
        self._nonce = self._prng.between(1, NONCE_MAX)
        self._doubt_until = now + max(self._config.change_ns, CLAIMS * self._config.claim_ns)
        return NameClaimed(self.me, self._nonce)

    def doubts_incarnation(self, now: int, reused: IncarnationReused) -> NameClaimed | None:
        """Somebody says unasked that this incarnation was used before: ask whether that is so."""
        if reused.nonce or reused.member != self.me or not self.is_ours or now < self._doubt_until:
            return None
        return self._once_more(now)

    def repeats(self, now: int, reused: IncarnationReused) -> bool:
        """Whether this answer means that another process had this incarnation before."""
        if reused.member != self.me or reused.nonce != self._nonce:
            return False
        return self.pending or now < self._doubt_until

    def loses(self, now: int, held: NameHeld) -> bool:
        """Whether this answer means that the name is another's."""
        if held.member.name != self.me.name or held.nonce != self._nonce:
            return False
        if self.pending:
            return True
        return self._is_rival(held.member) and (self.rival is not None or now < self._doubt_until)

    def _is_rival(self, other: MemberId) -> bool:
        return other.name == self.me.name and other != self.me

    def _is_own(self, claim: NameClaimed) -> bool:
        return claim.member == self.me and claim.nonce == self._nonce
