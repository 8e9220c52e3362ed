"""One group, or a part of a large one, prepared for the checks of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from phalanx.pipeline.audit.delivered_cells import DeliveredCells, deliveries_once, sends_once
from phalanx.pipeline.audit.group_facts import GroupFacts
from phalanx.pipeline.audit.group_findings import GroupFindings
from phalanx.pipeline.audit.message_columns import GroupColumns
from phalanx.pipeline.audit.number_ranges import Bools, Longs, NumberStretch

DeliveredIn = Callable[[int, int, int], bool]
"""Whether a member delivered a message (sender, number) in a view."""


class PreparedGroup:
    """What the checks look at, and where they put what they find."""

    def __init__(
        self,
        columns: GroupColumns,
        out: GroupFindings,
        stretch: NumberStretch | None = None,
        first: bool = True,
        members: Sequence[int] | None = None,
        positions: tuple[int, int] | None = None,
        delivered_in: DeliveredIn | None = None,
    ) -> None:
        """Of a part of a large group: the numbers, members or positions that count, whether it is
        the first part, and how to look up deliveries that are not in it."""
        self.columns, self.out = columns, out
        self.stretch, self.first, self.positions = stretch, first, positions
        self._members = members
        self._delivered_in = delivered_in
        self.run = columns.run
        self.facts = GroupFacts(columns.run, max(1, len(columns.views)))
        self.rows = columns.deliveries
        """Deliveries as they were written."""
        self.deliveries, self.repeated = deliveries_once(self.rows, len(self.run.members))
        """Deliveries, each message once; and the rows that repeat something."""
        self.sent_rows = columns.sends
        self.sends, self.resent = sends_once(self.sent_rows)
        self.submissions = columns.submissions

    @cached_property
    def cells(self) -> DeliveredCells:
        return DeliveredCells(self.deliveries, self.sends, self.facts.masks, self.stretch)

    def counts(self, s: Longs, number: Longs) -> Bools:
        """Which of these messages belong to this part."""
        if self.stretch is None:
            return np.full(len(s), True)
        return self.stretch.has(s, number)

    def counts_member(self, k: Longs) -> Bools:
        """Which of these members belong to this part."""
        return np.full(len(k), True) if self._members is None else np.isin(k, self._members)

    def counts_one(self, s: int, number: int) -> bool:
        return self.stretch is None or bool(self.stretch.low[s] <= number < self.stretch.high[s])

    def delivered_in(self, s: int, v: int, number: int) -> bool:
        """Whether a member delivered this message in this view."""
        if self._delivered_in is not None:
            return self._delivered_in(s, v, number)
        d = self.deliveries
        return bool(((d.s == s) & (d.v == v) & (d.first <= number) & (d.last >= number)).any())
