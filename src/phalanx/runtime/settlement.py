"""Settlement: whether the membership of a group has settled, as far as one member can tell.

A member starts alone and discovers the others by HELLO packets, which every component sends about
once per `hello_ns` and at once after its first claim of the name (`core/membership/discovery.py`).
No member can know that there are no others; it can only give them time to be heard. The membership
has *settled* when

    this member has its name,
    no view change is under way, and
    PERIODS times `hello_ns` have passed since discovery began and since the last view change.

Discovery remembers a foreign member for the same time. With the settings of `lan()` this is one
second after the start or the last change; a waiting caller returns at this member's next step, at
most about a quarter of a second later. Joining a running group takes two HELLO packets and
`collect_ns`, about 0.2 s, so three HELLO packets in a row may be lost.
"""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.member.member import Member
from phalanx.core.membership.name_claim import CLAIMS

PERIODS = 4


class Settlement:
    """Belongs to the event loop's thread. Times are those of the core's clock."""

    def __init__(self, config: Config) -> None:
        self._quiet_ns = PERIODS * config.hello_ns
        self._claim_ns = CLAIMS * config.claim_ns
        self._since_ns = 0

    def started(self, now: int) -> None:
        self._since_ns = now + self._claim_ns

    def changed(self, now: int) -> None:
        """A view was installed, or a change is under way."""
        self._since_ns = max(self._since_ns, now)

    def reached(self, now: int, member: Member) -> bool:
        if member.changing:
            self.changed(now)
        return member.named and now - self._since_ns >= self._quiet_ns
