"""Views and lives of one run, indexed for the checkers of view-level properties.

It is built from few rows: view installations, steps of view changes, starts, stops, crashes and
topology. `Trace` builds one from whole journals; a worker of the audit builds one from the rows
that Spark hands to it. So view-level properties are judged by the same functions in both.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.journal.schema import ViewChangeStep, ViewInstalled
from phalanx.verify.checkers.life_spans import LifeSpans
from phalanx.verify.checkers.member_names import Member


class ViewTrace:
    """The view installations of all members with a journal, in the order of members."""

    def __init__(
        self,
        lives: LifeSpans,
        installs: Mapping[Member, list[ViewInstalled]],
        steps: Mapping[Member, list[ViewChangeStep]],
    ) -> None:
        """The rows of each member are in the order of its journal. `lives` is closed."""
        self.over = lives.over
        self.lives = lives
        self.installs = installs
        self.steps = steps
        self.views: dict[str, tuple[Member, ...]] = {}
        """The members of each view, as the first row that installs it names them."""
        self.inside: dict[str, frozenset[Member]] = {}
        """The same as sets."""
        self.installed: dict[Member, dict[str, int]] = {}
        """Per member and view it installed, the index of the first row that does."""
        self.successor: dict[tuple[Member, str], ViewInstalled] = {}
        """Per member and view, the installation of its next view."""
        self.before: dict[tuple[Member, str], str] = {}
        """Per member and view, its previous view."""
        for member in installs:
            self._index(member)

    def _index(self, member: Member) -> None:
        """A torn journal may lack installations: there each row itself names the previous view."""
        installed = self.installed[member] = {}
        last: str | None = None
        for i, row in enumerate(self.installs[member]):
            if row.view not in self.views:
                here = tuple(zip(row.members, row.member_incarnations, strict=True))
                self.views[row.view] = here
                self.inside[row.view] = frozenset(here)
            installed.setdefault(row.view, i)
            before = row.previous if member in self.lives.torn else last
            if before is not None:
                self.successor.setdefault((member, before), row)
                self.before.setdefault((member, row.view), before)
            last = row.view

    def last_view(self, member: Member) -> str | None:
        installs = self.installs.get(member)
        return installs[-1].view if installs else None
