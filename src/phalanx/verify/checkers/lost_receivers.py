"""Reports of lost receivers: the sender learns which addressed members are gone.

not-sent-liveness   An addressed member that is missing from the home view of a message is reported
                    to the sender, with the number of receivers left. Otherwise only addressed
                    members are reported that were missing from a view of the sender while the
                    message waited. A member that is reported before the message is sent never
                    delivers it; a message without a receiver left is delivered by no member.

A message that was sent before its receiver was lost, during a view change, may be delivered by
that member in a view without the sender. Journals before schema 6 report only the loss of all
receivers, without names. docs/protocol/properties.md states the property in full.
"""

from __future__ import annotations

from phalanx.journal.schema import Accepted, NotSent
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, addressed, label, messages, named
from phalanx.verify.checkers.range_map import RangeMap
from phalanx.verify.checkers.trace import Trace

NAME = "not-sent-liveness"


def check_lost(trace: Trace, out: Findings) -> None:
    for sender in trace.journals:
        if sender not in trace.lives.torn:
            _Reports(trace, sender, out).check()


class _Reports:
    """The reports to one sender, compared with its messages."""

    def __init__(self, trace: Trace, sender: Member, out: Findings) -> None:
        self._trace, self._sender, self._out = trace, sender, out
        rows = [*trace.not_sent[sender], *trace.lost_receivers[sender]]
        self._rows = sorted(rows, key=lambda row: row.lseq)
        self._gone: dict[Member, RangeMap[None]] = {}
        """Per member, the messages reported as not sent to it."""
        self._nobody: RangeMap[None] = RangeMap()
        """Messages that older rows, without names, report as sent to no member."""
        self._submits: RangeMap[Accepted] = RangeMap()
        if self._rows:
            for submit in trace.submits[sender]:
                self._submits.add(submit.first, submit.last, submit)

    def check(self) -> None:
        for row in self._rows:
            self._out.evaluated(NAME)
            self._not_delivered(row)
            for first, last, at in self._submits.within(row.first, row.last):
                self._as_submitted(row, first, last, self._submits.values[at])
        if self._trace.reports_all(self._sender):
            for submit in self._trace.submits[self._sender]:
                self._all_reported(submit)

    # ------------------------------------------------------------------ reports are true

    def _not_delivered(self, row: NotSent) -> None:
        """A member that was reported before the sending did not deliver the message."""
        trace, sender = self._trace, self._sender
        sends = trace.sends[sender]
        unsent = sends.missing(row.first, row.last)
        for first, last, at in sends.within(row.first, row.last):
            if sends.values[at].lseq > row.lseq:
                unsent.append((first, last))
        gone = named(row.members, row.member_incarnations)
        asked = gone if gone is not None and row.rest else trace.journals.keys()
        for member in sorted(asked & trace.journals.keys() if unsent else ()):
            spans = trace.delivered[member].get(sender)
            for first, last in unsent if spans is not None else ():
                assert spans is not None
                for lo, hi, _ in spans.within(first, last):
                    text = (
                        f"{label(sender)} got a report that {messages(sender, lo, hi)} does not go "
                    )
                    text += f"to {label(member)}, which delivered it"
                    self._out.violated(NAME, text, [row], member[0])

    def _as_submitted(self, row: NotSent, first: int, last: int, submit: Accepted) -> None:
        """The reported members were addressed, and were missing from a view since."""
        gone = named(row.members, row.member_incarnations)
        if gone is None:
            self._nobody.add(first, last, None)
            return
        for member in sorted(gone):
            self._gone.setdefault(member, RangeMap()).add(first, last, None)
            why = self._wrong(row, first, member, submit)
            if why:
                what = messages(self._sender, first, last)
                text = f"{label(self._sender)} got a report that {what} does not go to"
                text += f" {label(member)}, which {why}"
                self._out.violated(NAME, text, [submit, row], member[0])
        meant = named(submit.to, submit.to_incarnations)
        if meant is None:
            return
        rest = [m for m in meant if m not in self._gone or self._gone[m].index(first) < 0]
        if row.rest != len(rest):
            what = messages(self._sender, first, last)
            text = (
                f"{label(self._sender)} got a report that {row.rest} receivers of {what} are left, "
            )
            text += f"but there are {len(rest)}"
            self._out.violated(NAME, text, [submit, row])

    def _wrong(self, row: NotSent, number: int, member: Member, submit: Accepted) -> str | None:
        """Why a report about a member is wrong; None if it is right. A message that was sent before
        the report is lost to members that are not in its home; another one, to members that were
        missing from a view between the submission and the end of the reporting step."""
        if not addressed(member, submit):
            return "was not addressed"
        trace, sender = self._trace, self._sender
        send = trace.sends[sender].get(number)
        if send is not None and send.lseq < row.lseq:
            home = trace.home(sender, send)
            if home is not None and member in trace.inside.get(home, ()):
                return f"is in {home}"
            return None
        if not trace.step_ended(row):
            return None
        installs = trace.installs[sender]
        begun = sum(install.lseq < submit.lseq for install in installs)
        since = [i for i in installs[max(0, begun - 1) :] if i.step <= row.step]
        if since and all(member in trace.inside[install.view] for install in since):
            return "was in its view all the time"
        return None

    # ------------------------------------------------------------------ reports are complete

    def _all_reported(self, submit: Accepted) -> None:
        trace, sender = self._trace, self._sender
        meant = named(submit.to, submit.to_incarnations)
        if meant is None:
            return
        sends = trace.sends[sender]
        for first, last, at in sends.within(submit.first, submit.last):
            send = sends.values[at]
            home = trace.home(sender, send)
            number = None if home is None else trace.installed[sender].get(home)
            if number is None or not trace.step_ended(trace.installs[sender][number]):
                continue
            self._out.evaluated(NAME)
            assert home is not None
            for member in sorted(meant - trace.inside[home]):
                gone = self._gone.get(member, RangeMap[None]())
                for lo, hi in gone.missing(first, last):
                    if not self._nobody.missing(lo, hi):
                        continue
                    text = (
                        f"{label(sender)} got no report that {messages(sender, lo, hi)} does not "
                    )
                    text += f"go to {label(member)}, which is not in {home}"
                    self._out.violated(NAME, text, [submit, send], member[0])
