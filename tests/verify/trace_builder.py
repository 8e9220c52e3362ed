"""Traces told by hand, for the tests of the checkers and of what shows runs to people."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.journal import schema as ev
from phalanx.verify.checkers import Report, check

STEP_NS = 10


def life(letter: str) -> tuple[str, int]:
    """`a` is a.1, `A` its second life, a.2."""
    return letter.lower(), 2 if letter.isupper() else 1


def names(letters: str) -> list[str]:
    return [life(letter)[0] for letter in letters]


def incarnations(letters: str) -> list[int]:
    return [life(letter)[1] for letter in letters]


def receivers(to: str | list[str] | None) -> dict[str, Any]:
    """Columns: letters name lives; a list names members as rows of before did."""
    if isinstance(to, str):
        return {"to": names(to), "to_incarnations": incarnations(to)}
    return {} if to is None else {"to": to}


def joined_left(joined: str | None, left: str | None) -> dict[str, Any]:
    """Columns of a view."""
    found: dict[str, Any] = {}
    for column, letters in (("joined", joined), ("left", left)):
        if letters is not None:
            found |= {column: names(letters), f"{column}_incarnations": incarnations(letters)}
    return found


class Come(msgspec.Struct, frozen=True):
    """How far a member has come with the messages of a sender."""

    met: int = 0
    """Sent before the two met last."""
    last: int = 0
    told: int = 0
    """Delivered by a component of an earlier merge."""


Known = dict[str, list[Come]]
"""Per sender that a component knows, how far its members have come."""


def side_columns(view: str, members: str, known: list[Known], index: int) -> dict[str, Any]:
    """Columns of a merge report on one component, of how far the members of all of them are."""
    mine, others = known[index], known[:index] + known[index + 1 :]
    last = {sender: max(come.last for come in comes) for sender, comes in mine.items()}
    upto = {sender: number for sender, number in last.items() if number or sender not in members}
    alone: list[tuple[str, int, int]] = []
    for sender, comes in mine.items():
        theirs = [come for other in others for come in other.get(sender, ())]
        if theirs:
            floor = max(max(come.met, come.last, come.told) for come in theirs)
            had = {n for come in comes for n in range(max(come.met, floor) + 1, come.last + 1)}
            firsts = sorted(n for n in had if n - 1 not in had)
            lasts = sorted(n for n in had if n + 1 not in had)
            alone += [(sender, *span) for span in zip(firsts, lasts, strict=True)]
    return {
        "component": view,
        "members": names(members),
        "member_incarnations": incarnations(members),
        "delivered": names("".join(upto)),
        "delivered_incarnations": incarnations("".join(upto)),
        "delivered_upto": list(upto.values()),
        "alone": names("".join(sender for sender, _, _ in alone)),
        "alone_incarnations": incarnations("".join(sender for sender, _, _ in alone)),
        "alone_first": [first for _, first, _ in alone],
        "alone_last": [last for _, _, last in alone],
    }


class TraceBuilder:
    """Members with one-letter names, told in the order of the simulator's time.

    Columns that are not given are the right ones: the view a member is in, the frame and the
    addressees of the message, what the member delivered since its last send. Each row is a
    step of its own unless `step` is given.

    `reports`: journals of today, which record everything that an application is told. Views then
    name those that joined and left and describe their components, and lives end with the counts
    of their queues and a reason. Receipts must be given. Otherwise journals are those of before
    schema 6, in which receipts and reports are not asked for.
    """

    def __init__(self, members: str, boot: str | None = None, reports: bool = False) -> None:
        self.members = members
        self.reports = reports
        self.rows: list[ev.Event] = []
        self.ticks = 0
        self.step: dict[str, int] = {}
        """Per member, the number of its last step."""
        self.views: dict[str, str] = {}
        """Per view, its members."""
        self.sides: dict[str, list[dict[str, Any]]] = {}
        """Per merged view, what it reports of its components."""
        self.delivered: dict[str, dict[str, int]] = {}
        """Per member and sender, the highest number of a message delivered."""
        self.begun: dict[str, dict[str, int]] = {}
        """Per member and sender, what had been sent when they met last."""
        self.reported: dict[str, dict[str, int]] = {}
        """Per member and sender, what a component of an earlier merge had delivered."""
        self.met: dict[str, str] = {}
        """Per member, all with whom it was in a view."""
        self.submitted: dict[str, int] = {}
        """Per member, how many messages its application handed over."""
        self.view: dict[str, str] = {}
        self.sent: dict[tuple[str, int], ev.Sent] = {}
        self.since: dict[str, dict[str, int]] = {}
        self.frames: dict[str, int] = {}
        self.count: dict[str, int] = {}
        self.ended: set[str] = set()
        for letter in members if boot is None else boot:
            self.install(letter, "v1", members)

    def row(self, letters: str, table: type[ev.Row], **columns: Any) -> TraceBuilder:
        for letter in letters:
            now = self.ticks * STEP_NS
            self.ticks += 1
            step = self.step.get(letter, 0) + 1
            self._write(letter, table, {"t_ns": now, "sim_ns": now, "step": step} | columns)
        return self

    def told(self, letters: str, table: type[ev.Row], **columns: Any) -> TraceBuilder:
        """Rows of what else the application is told in the step of the row before: the clock stands
        still."""
        for letter in letters:
            now = max(0, self.ticks - 1) * STEP_NS
            step = self.step[letter]
            self._write(letter, table, {"t_ns": now, "sim_ns": now, "step": step} | columns)
        return self

    def _write(self, letter: str, table: type[ev.Row], columns: dict[str, Any]) -> None:
        lseq = self.count[letter] = self.count.get(letter, 0) + 1
        member, incarnation = life(letter)
        common: dict[str, Any] = {"run": "r", "profile": "T", "group": "g"}
        common |= {"member": member, "incarnation": incarnation, "lseq": lseq}
        row: Any = table(**common | columns)
        self.step[letter] = row.step
        self.rows.append(row)

    @property
    def now(self) -> int:
        """The time of the last row."""
        assert self.rows[-1].sim_ns is not None
        return self.rows[-1].sim_ns

    # ------------------------------------------------------------------ views

    def install(
        self,
        letters: str,
        view: str,
        members: str,
        removals: int = 0,
        joins: int = 0,
        transitional: str | None = None,
        **given: Any,
    ) -> TraceBuilder:
        """`joined`, `left` and what is reported of components are right, if anything is."""
        for letter in letters:
            before = self.view.get(letter)
            along = (
                (letters if transitional is None else transitional) if before is not None else ""
            )
            components = given.get("components", [])
            columns: dict[str, Any] = {
                "view": view,
                "joins": joins,
                "removals": removals,
                "members": names(members),
                "member_incarnations": incarnations(members),
                "context": "c",
                "cause": "join" if components else "removal" if removals else "boot",
                "previous": before,
                "transitional": names(along),
                "transitional_incarnations": incarnations(along),
            }
            if self.reports:
                old = self.views[before] if before is not None else members
                columns |= joined_left(
                    "".join(m for m in members if m not in old),
                    "".join(m for m in old if m not in members),
                )
            self.views.setdefault(view, members)
            if self.reports and len(components) > 1 and view not in self.sides:
                self.sides[view] = self._describe(members, components)
            self.view[letter] = view
            known = self.met.get(letter, "")
            self.met[letter] = known + "".join(m for m in members if m not in known)
            self._meet(letter, view, "".join(m for m in members if m not in along + letter))
            self.row(letter, ev.ViewInstalled, **columns | given)
            if self.reports and len(components) > 1:
                for side in self.sides[view]:
                    self.told(letter, ev.MergedComponent, view=view, **side)
        return self

    def _meet(self, letter: str, view: str, strangers: str) -> None:
        """The member comes to the view, where it meets these."""
        told = self.reported.setdefault(letter, {})
        reported: dict[tuple[str, int], int] = {}
        for side in self.sides.get(view, ()):
            senders = zip(side["delivered"], side["delivered_incarnations"], strict=True)
            for sender, number in zip(senders, side["delivered_upto"], strict=True):
                reported[sender] = max(reported.get(sender, 0), number)
        for m in self.met[letter]:
            told[m] = max(told.get(m, 0), reported.get(life(m), 0))
        for m in strangers:
            self.begun.setdefault(letter, {})[m] = reported.get(life(m), 0)

    def _describe(self, members: str, components: list[str]) -> list[dict[str, Any]]:
        """What a view of these members reports of its components."""
        known: list[Known] = []
        for component in components:
            comes: Known = {m: [Come()] for m in self.views.get(component, "")}
            for m in members:
                if self.view.get(m) == component:
                    for sender in self.met[m]:
                        every = (self.begun, self.delivered, self.reported)
                        come = Come(*(numbers.get(m, {}).get(sender, 0) for numbers in every))
                        comes.setdefault(sender, []).append(come)
            known.append(dict(sorted(comes.items(), key=lambda one: life(one[0]))))
        return [
            side_columns(component, self.views.get(component, ""), known, index)
            for index, component in enumerate(components)
        ]

    def change(
        self, letters: str, action: str, stage: str = "IDLE", context: str = "c"
    ) -> TraceBuilder:
        return self.row(letters, ev.ViewChangeStep, action=action, stage=stage, context=context)

    def marker(self, letters: str, pos: int, along: str | None = None) -> TraceBuilder:
        """`along` are the members that move on together: those that see the marker here."""
        along = letters if along is None else along
        for letter in letters:
            columns: dict[str, Any] = {"view": self.view[letter], "pos": pos}
            columns |= {"members": names(along), "member_incarnations": incarnations(along)}
            self.row(letter, ev.Transitional, **columns)
        return self

    def topology(self, *components: str) -> TraceBuilder:
        """Who reaches whom from now on; told to every life that is named."""
        for component in components:
            self.row(component, ev.Topology, component=sorted(names(component)))
        return self

    def life(self, letters: str, op: str, reason: str | None = None) -> TraceBuilder:
        if op in ("STOP", "CRASH"):
            self.ended |= set(letters)
        for letter in letters:
            columns: dict[str, Any] = {"op": op}
            if self.reports and op == "STOP":
                self.queue(letter)
                columns["reason"] = "ended" if reason is None else reason
            self.row(letter, ev.Life, **columns)
        return self

    def queue(
        self, letter: str, refused: int = 0, reason: str | None = None, **given: Any
    ) -> TraceBuilder:
        """What became of the messages that the application handed over."""
        submitted = self.submitted.get(letter, 0)
        columns = {"accepted": submitted + refused, "submitted": submitted, "refused": refused}
        step = self.step[letter] + 1
        return self.told(letter, ev.Queue, **columns | {"reason": reason, "step": step} | given)

    def stop(self) -> TraceBuilder:
        """All that are left, at one instant, as at the end of a run."""
        letters = [letter for letter in self.count if letter not in self.ended]
        self.life("".join(letters), "STOP")
        now = self.rows[-1].sim_ns
        for i, row in enumerate(self.rows):
            if isinstance(row, ev.Life) and row.op == "STOP":
                if any((row.member, row.incarnation) == life(letter) for letter in letters):
                    self.rows[i] = msgspec.structs.replace(row, sim_ns=now)
        return self

    # ------------------------------------------------------------------ messages

    def submit(
        self, letter: str, first: int, last: int = 0, to: str | None = None, **given: Any
    ) -> TraceBuilder:
        columns = {"service": "AGREED", "size": 1, "first": first, "last": max(first, last)}
        self.submitted[letter] = self.submitted.get(letter, 0) + max(first, last) - first + 1
        return self.row(letter, ev.Accepted, **columns | receivers(to) | given)

    def send(
        self,
        letter: str,
        first: int,
        last: int = 0,
        service: str = "AGREED",
        to: str | list[str] | None = None,
        **given: Any,
    ) -> TraceBuilder:
        since = self.since.pop(letter, {})
        self.frames[letter] = given.get("frame", self.frames.get(letter, 0) + 1)
        columns = {
            "first": first,
            "last": max(first, last),
            "service": service,
            "view": self.view[letter],
            "phase": 0,
            "frame": self.frames[letter],
            "dep_senders": names("".join(since)),
            "dep_incarnations": incarnations("".join(since)),
            "dep_numbers": list(since.values()),
        }
        self.row(letter, ev.Sent, **columns | receivers(to) | given)
        row = self.rows[-1]
        assert isinstance(row, ev.Sent)
        self.sent |= {(letter, n): row for n in range(row.first, row.last + 1)}
        return self

    def deliver(
        self, letters: str, sender: str, first: int, last: int = 0, **given: Any
    ) -> TraceBuilder:
        member, incarnation = life(sender)
        last = max(first, last)
        for letter in letters:
            send = self.sent.get((sender, first))
            columns = {
                "sender": member,
                "sender_incarnation": incarnation,
                "first": first,
                "last": last,
                "service": send.service if send else "AGREED",
                "view": self.view.get(letter, "v1"),
                "phase": send.phase if send else 0,
                "region": "REGULAR",
                "frame": send.frame if send else 1,
                "origin": send.view if send else "v1",
                "to": send.to if send else None,
                "to_incarnations": send.to_incarnations if send else None,
            }
            self.row(letter, ev.Deliver, **columns | given)
            if letter != sender and (columns | given)["service"] != "BASIC":
                self.since.setdefault(letter, {})[sender] = last
            known = self.delivered.setdefault(letter, {})
            known[sender] = max(known.get(sender, 0), last)
        return self

    # ------------------------------------------------------------------ receipts

    def ordered(self, letter: str, upto: int, **given: Any) -> TraceBuilder:
        return self.told(letter, ev.Ordered, **{"upto": upto, "view": self.view[letter]} | given)

    def stable(self, letter: str, upto: int, at: str | None = None, **given: Any) -> TraceBuilder:
        """`at`: the view ends here, and these members move on together. The row that follows of
        the member must be its next view, in the same step."""
        member, incarnation = life(letter)
        columns: dict[str, Any] = {
            "sender": member,
            "sender_incarnation": incarnation,
            "upto": upto,
        }
        columns["view"] = self.view[letter]
        if at is not None:
            columns |= {"members": names(at), "member_incarnations": incarnations(at)}
        return self.told(letter, ev.Stable, **columns | given)

    def receipts(self, letter: str, upto: int) -> TraceBuilder:
        """Both at once, for all members of the view."""
        return self.ordered(letter, upto).stable(letter, upto)

    def closing(self, letter: str, upto: int, at: str) -> TraceBuilder:
        """Both at the end of a view, in a new step: the next view follows with that step."""
        step = self.step[letter] + 1
        self.ordered(letter, upto, step=step)
        return self.stable(letter, upto, at)

    def lost(self, letter: str, gone: str, rest: int, first: int, last: int = 0) -> TraceBuilder:
        """Messages do not go to these; `rest` receivers are left."""
        columns: dict[str, Any] = {"first": first, "last": max(first, last), "rest": rest}
        columns |= {"members": names(gone), "member_incarnations": incarnations(gone)}
        return self.told(letter, ev.NotSent, **columns)

    # ------------------------------------------------------------------ verdict

    def check(self, settled: bool = True, **known: Any) -> Report:
        return check(self.rows, expect_liveness=settled, **known)


def everywhere_at_once(tale: TraceBuilder) -> dict[tuple[str, int, str, int, int], int]:
    """An omniscient probe of a network without delay: all have a frame when it is sent."""
    return {
        (*life(holder), row.member, row.incarnation, row.frame): row.sim_ns or 0
        for row in tale.rows
        if isinstance(row, ev.Sent)
        for holder in tale.count
    }


def renumbered(rows: list[ev.Event]) -> list[ev.Event]:
    """Rows without holes in their numbers."""
    count: dict[tuple[str, int], int] = {}
    result: list[ev.Event] = []
    for row in rows:
        count[row.member, row.incarnation] = count.get((row.member, row.incarnation), 0) + 1
        result.append(msgspec.structs.replace(row, lseq=count[row.member, row.incarnation]))
    return result


# ---------------------------------------------------------------------------- two long ones


def calm() -> TraceBuilder:
    """Three members in one view: every service, a subset, a batch of two, receipts."""
    tale = TraceBuilder("abc", reports=True).topology("abc")
    tale.send("a", 1, 2).send("b", 1, service="SAFE")
    tale.deliver("abc", "a", 1, 2, pos=0, batch=0).deliver("abc", "b", 1, pos=2, batch=0)
    tale.receipts("a", 2).receipts("b", 1)
    tale.send("c", 1, service="CAUSAL", to="ac").send("c", 2, service="BASIC")
    tale.deliver("ab", "c", 2).deliver("ac", "c", 1).deliver("c", "c", 2).receipts("c", 2)
    tale.submit("a", 3, to="ab").send("a", 3, to="ab").deliver("ab", "a", 3, pos=3, batch=1)
    tale.receipts("a", 3)
    return tale.stop()


def odyssey() -> TraceBuilder:
    """Alone, together, parted, one crashed and back, together again, one leaves: mode `flow`."""
    tale = TraceBuilder("abcd", boot="", reports=True)
    for letter in "abcd":
        tale.life(letter, "START").topology(letter).install(letter, f"v{letter}", letter)
    tale.topology("abcd").change("abcd", "START", "COLLECT").change("abcd", "COMMIT", "COMMIT")
    tale.change("abcd", "CLOSED")
    for letter in "abcd":
        components = ["va", "vb", "vc", "vd"]
        tale.install(letter, "v1", "abcd", joins=1, transitional=letter, components=components)
    tale.send("a", 1, 2).send("b", 1, service="SAFE").send("c", 1, service="BASIC")
    tale.deliver("abcd", "a", 1, 2, pos=0, batch=0).deliver("abcd", "b", 1, pos=2, batch=0)
    tale.receipts("a", 2).receipts("b", 1)
    tale.deliver("abcd", "c", 1).send("d", 1, service="CAUSAL", to="bd").deliver("bd", "d", 1)
    tale.receipts("c", 1).receipts("d", 1)
    _parting(tale)
    _loss_of_d(tale)
    _reunion(tale)
    tale.change("b", "LEAVE").change("acD", "FA").change("acD", "CLOSED")
    tale.life("b", "STOP", "left").install("acD", "v6", "acD", 1, 2).topology("acD")
    tale.send("c", 4, service="SAFE").send("D", 3, service="BASIC").deliver("acD", "D", 3)
    tale.receipts("D", 3).deliver("acD", "c", 4, pos=0, batch=0).receipts("c", 4)
    return tale.stop()


def _parting(tale: TraceBuilder) -> None:
    """a, b and c, d part; each side delivers what it has, the marker where it must be; a sends
    on during the change, and what b had for d goes to nobody."""
    tale.topology("ab", "cd").send("a", 3, service="SAFE").send("c", 2, service="CAUSAL")
    tale.submit("b", 2, to="d").change("ab", "FA").send("a", 4, phase=1).change("cd", "FA")
    tale.change("abcd", "CLOSED")
    tale.marker("ab", 3).deliver("ab", "a", 3, pos=3, batch=1, region="TRANSITIONAL")
    tale.deliver("cd", "c", 2)
    stable = {"sender": "a", "sender_incarnation": 1, "upto": 3, "view": "v1"}
    tale.row("a", ev.Stable, members=["a", "b"], member_incarnations=[1, 1], **stable).ordered(
        "a", 3
    )
    tale.install("a", "v2", "ab", 1, 1, transitional="ab", step=tale.step["a"])
    tale.install("b", "v2", "ab", 1, 1, transitional="ab").closing("c", 2, "cd")
    tale.install("c", "v3", "cd", 1, 1, transitional="cd", step=tale.step["c"])
    tale.install("d", "v3", "cd", 1, 1, transitional="cd")
    tale.row("b", ev.NotSent, first=2, last=2, members=["d"], member_incarnations=[1], rest=0)
    tale.deliver("ab", "a", 4, pos=0, batch=0).receipts("a", 4)
    tale.send("d", 2).deliver("cd", "d", 2, pos=0, batch=0).receipts("d", 2)


def _loss_of_d(tale: TraceBuilder) -> None:
    """d crashes with a message that nobody has, and comes back alone."""
    tale.send("d", 3).deliver("d", "d", 3, pos=1, batch=1).ordered("d", 3)
    tale.life("d", "CRASH").topology("c")
    tale.change("c", "FA").change("c", "CLOSED").install("c", "v4", "c", 2, 1)
    tale.life("D", "START").topology("D").install("D", "vD", "D")
    tale.change("D", "START", "COLLECT").change("D", "FORGET")
    tale.send("D", 1, service="CAUSAL").deliver("D", "D", 1).receipts("D", 1)


def _reunion(tale: TraceBuilder) -> None:
    """All that there are meet again; a's answer follows what c and D never saw."""
    tale.topology("abcD").change("abcD", "START", "COLLECT").change("abcD", "COMMIT", "COMMIT")
    tale.change("abcD", "CLOSED")
    components = ["v2", "v4", "vD"]
    for letters in ("ab", "c", "D"):
        tale.install(letters, "v5", "abcD", joins=2, components=components)
    tale.send("a", 5, service="CAUSAL").deliver("abcD", "a", 5).receipts("a", 5)
    tale.send("c", 3).send("D", 2, to="D")
    tale.deliver("abcD", "c", 3, pos=0, batch=0).deliver("D", "D", 2, pos=1, batch=1)
    tale.receipts("c", 3).receipts("D", 2)
    tale.submit("b", 3).send("b", 3).deliver("abcD", "b", 3, pos=2, batch=2).receipts("b", 3)


def in_ms(tale: TraceBuilder) -> list[ev.Event]:
    """The rows with a millisecond between them."""
    return [msgspec.structs.replace(r, sim_ns=(r.sim_ns or 0) * 100_000) for r in tale.rows]
