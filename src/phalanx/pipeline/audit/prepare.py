"""One group, prepared for the checks of messages."""

from __future__ import annotations

from phalanx.pipeline.audit.delivered_cells import DeliveredCells, deliveries_once, sends_once
from phalanx.pipeline.audit.group_facts import GroupFacts
from phalanx.pipeline.audit.group_findings import GroupFindings
from phalanx.pipeline.audit.message_columns import GroupColumns


class PreparedGroup:
    """What the checks look at, and where they put what they find."""

    def __init__(self, columns: GroupColumns, out: GroupFindings) -> None:
        self.columns, self.out = columns, out
        self.run = columns.run
        self.facts = GroupFacts(columns.run, max(1, len(columns.views)))
        self.rows = columns.deliveries
        """Deliveries as they were written."""
        self.deliveries, self.repeated = deliveries_once(self.rows, len(self.run.members))
        """Deliveries, each message once; and the rows that repeat something."""
        self.sent_rows = columns.sends
        self.sends, self.resent = sends_once(self.sent_rows)
        self.submissions = columns.submissions
        self.cells = DeliveredCells(self.deliveries, self.sends, self.facts.masks)
