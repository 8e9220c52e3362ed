"""What is known of a journal of which an audit reads only some rows.

The audit of some views reads an excerpt of each journal. Checks that count from the beginning of a
life (numbers sent, receipts, queues, merge reports) begin with these values instead of zero. None
stands for what nobody knows because earlier rows are missing: then nothing is judged by it.
"""

from __future__ import annotations

import msgspec

from phalanx.pipeline.audit.merge_record import MergeRecord

FAR = 1 << 60
"""Beyond all numbers of messages."""


class JournalExcerpt(msgspec.Struct, kw_only=True):
    """One journal, from row `begin` on. The values are those before that row."""

    begin: int = 1
    goes_on: bool = False
    """The journal has rows after the excerpt."""
    sent: int = 0
    """The highest number that was sent; FAR if that is not known."""
    stable: int | None = 0
    """Up to which number receipts spoke: `stable`, and `ordered`."""
    ordered: int | None = 0
    queue: tuple[int, int, int] | None = (0, 0, 0)
    """The last counts of its queue: accepted, submitted, refused."""
    submitted: int | None = 0
    """How many messages were submitted."""
    delivered: dict[str, int] | None = {}
    """By the label of a sender, the highest number that was delivered."""
    merges: MergeRecord | None = msgspec.field(default_factory=MergeRecord)

    @property
    def is_cut(self) -> bool:
        """Rows before it were left out."""
        return self.begin > 1
