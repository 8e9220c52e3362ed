"""Traces told by hand, for the tests of the checkers and of what shows runs to people."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.journal import events as ev
from phalanx.sim.checkers import Report, check

STEP_NS = 10


def life(letter: str) -> tuple[str, int]:
    """`a` is a.1, `A` its second life, a.2."""
    return letter.lower(), 2 if letter.isupper() else 1


def names(letters: str) -> list[str]:
    return [life(letter)[0] for letter in letters]


def incs(letters: str) -> list[int]:
    return [life(letter)[1] for letter in letters]


def receivers(to: str | list[str] | None) -> dict[str, Any]:
    """Columns: letters name lives; a list names members as rows of before did."""
    if isinstance(to, str):
        return {"to": names(to), "to_incs": incs(to)}
    return {} if to is None else {"to": to}


class Tale:
    """Members with one-letter names, told in the order of the simulator's time.

    Columns that are not given are the right ones: the view a member is in, the frame and the
    addressees of the message, what the member delivered since its last send. Each row is a
    step of its own unless `step` is given.
    """

    def __init__(self, members: str, boot: str | None = None) -> None:
        self.members = members
        self.rows: list[ev.Event] = []
        self.vid: dict[str, str] = {}
        self.sent: dict[tuple[str, int], ev.Send] = {}
        self.since: dict[str, dict[str, int]] = {}
        self.frames: dict[str, int] = {}
        self.count: dict[str, int] = {}
        self.ended: set[str] = set()
        for letter in members if boot is None else boot:
            self.install(letter, "v1", members)

    def row(self, letters: str, table: type[ev.Row], **columns: Any) -> Tale:
        for letter in letters:
            lseq = self.count[letter] = self.count.get(letter, 0) + 1
            node, inc = life(letter)
            now = len(self.rows) * STEP_NS
            common: dict[str, Any] = {"run": "r", "profile": "T", "group": "g"}
            common |= {"node": node, "inc": inc, "lseq": lseq, "step": lseq}
            row: Any = table(**common | {"t_ns": now, "sim_ns": now} | columns)
            self.rows.append(row)
        return self

    @property
    def now(self) -> int:
        """The time of the last row."""
        assert self.rows[-1].sim_ns is not None
        return self.rows[-1].sim_ns

    # ------------------------------------------------------------------ views

    def install(
        self,
        letters: str,
        vid: str,
        members: str,
        removals: int = 0,
        joins: int = 0,
        trans: str | None = None,
        **given: Any,
    ) -> Tale:
        for letter in letters:
            before = self.vid.get(letter)
            along = (letters if trans is None else trans) if before is not None else ""
            columns: dict[str, Any] = {
                "vid": vid,
                "joins": joins,
                "removals": removals,
                "members": names(members),
                "member_incs": incs(members),
                "context": "c",
                "cause": "JOIN" if given.get("components") else "REMOVE" if removals else "BOOT",
                "prev_vid": before,
                "trans": names(along),
                "trans_incs": incs(along),
            }
            self.vid[letter] = vid
            self.row(letter, ev.ViewInstall, **columns | given)
        return self

    def change(self, letters: str, action: str, stage: str = "IDLE", context: str = "c") -> Tale:
        return self.row(letters, ev.CtxStep, action=action, stage=stage, context=context)

    def marker(self, letters: str, at_pos: int) -> Tale:
        for letter in letters:
            self.row(letter, ev.TransMarker, vid=self.vid[letter], at_pos=at_pos)
        return self

    def topology(self, *components: str) -> Tale:
        """Who reaches whom from now on; told to every life that is named."""
        for component in components:
            self.row(component, ev.Topology, component=sorted(names(component)))
        return self

    def life(self, letters: str, op: str) -> Tale:
        if op in ("STOP", "CRASH"):
            self.ended |= set(letters)
        return self.row(letters, ev.Life, op=op)

    def stop(self) -> Tale:
        """All that are left, at one instant, as at the end of a run."""
        letters = [letter for letter in self.count if letter not in self.ended]
        self.life("".join(letters), "STOP")
        now = self.rows[-1].sim_ns
        for i in range(len(letters)):
            self.rows[-1 - i] = msgspec.structs.replace(self.rows[-1 - i], sim_ns=now)
        return self

    # ------------------------------------------------------------------ messages

    def submit(
        self, letter: str, first: int, last: int = 0, to: str | None = None, **given: Any
    ) -> Tale:
        columns = {"service": "AGREED", "bytes": 1, "first": first, "last": max(first, last)}
        return self.row(letter, ev.Submit, **columns | receivers(to) | given)

    def send(
        self,
        letter: str,
        first: int,
        last: int = 0,
        service: str = "AGREED",
        to: str | list[str] | None = None,
        **given: Any,
    ) -> Tale:
        since = self.since.pop(letter, {})
        self.frames[letter] = given.get("frame", self.frames.get(letter, 0) + 1)
        columns = {
            "first": first,
            "last": max(first, last),
            "service": service,
            "vid": self.vid[letter],
            "phase": 0,
            "frame": self.frames[letter],
            "dep_nodes": names("".join(since)),
            "dep_incs": incs("".join(since)),
            "dep_numbers": list(since.values()),
        }
        self.row(letter, ev.Send, **columns | receivers(to) | given)
        row = self.rows[-1]
        assert isinstance(row, ev.Send)
        self.sent |= {(letter, n): row for n in range(row.first, row.last + 1)}
        return self

    def deliver(self, letters: str, sender: str, first: int, last: int = 0, **given: Any) -> Tale:
        node, inc = life(sender)
        last = max(first, last)
        for letter in letters:
            send = self.sent.get((sender, first))
            columns = {
                "sender": node,
                "sender_inc": inc,
                "first": first,
                "last": last,
                "service": send.service if send else "AGREED",
                "vid": self.vid.get(letter, "v1"),
                "phase": send.phase if send else 0,
                "region": "REGULAR",
                "frame": send.frame if send else 1,
                "origin_vid": send.vid if send else "v1",
                "to": send.to if send else None,
                "to_incs": send.to_incs if send else None,
            }
            self.row(letter, ev.Deliver, **columns | given)
            if letter != sender and (columns | given)["service"] != "BASIC":
                self.since.setdefault(letter, {})[sender] = last
        return self

    # ------------------------------------------------------------------ verdict

    def check(self, settled: bool = True, **known: Any) -> Report:
        return check(self.rows, expect_liveness=settled, **known)


def everywhere_at_once(tale: Tale) -> dict[tuple[str, int, str, int, int], int]:
    """An omniscient probe of a network without delay: all have a frame when it is sent."""
    return {
        (*life(holder), row.node, row.inc, row.frame): row.sim_ns or 0
        for row in tale.rows
        if isinstance(row, ev.Send)
        for holder in tale.count
    }


def renumbered(rows: list[ev.Event]) -> list[ev.Event]:
    """Rows without holes in their numbers."""
    count: dict[tuple[str, int], int] = {}
    result: list[ev.Event] = []
    for row in rows:
        count[row.node, row.inc] = count.get((row.node, row.inc), 0) + 1
        result.append(msgspec.structs.replace(row, lseq=count[row.node, row.inc]))
    return result


# ---------------------------------------------------------------------------- two long ones


def calm() -> Tale:
    """Three members in one view: every service, a subset, a batch of two, a receipt."""
    tale = Tale("abc").topology("abc")
    tale.send("a", 1, 2).send("b", 1, service="SAFE")
    tale.deliver("abc", "a", 1, 2, pos=0, batch=0).deliver("abc", "b", 1, pos=2, batch=0)
    tale.send("c", 1, service="CAUSAL", to="ac").send("c", 2, service="BASIC")
    tale.deliver("ab", "c", 2).deliver("ac", "c", 1).deliver("c", "c", 2)
    tale.send("a", 3, to="ab").deliver("ab", "a", 3, pos=3, batch=1)
    tale.row("a", ev.Stable, sender="a", sender_inc=1, upto=3, vid="v1")
    return tale.stop()


def odyssey() -> Tale:
    """Alone, together, parted, one crashed and back, together again, one leaves: mode `flow`."""
    tale = Tale("abcd", boot="")
    for letter in "abcd":
        tale.life(letter, "START").topology(letter).install(letter, f"v{letter}", letter)
    tale.topology("abcd").change("abcd", "START", "COLLECT").change("abcd", "COMMIT", "COMMIT")
    tale.change("abcd", "CLOSED")
    for letter in "abcd":
        components = ["va", "vb", "vc", "vd"]
        tale.install(letter, "v1", "abcd", joins=1, trans=letter, components=components)
    tale.send("a", 1, 2).send("b", 1, service="SAFE").send("c", 1, service="BASIC")
    tale.deliver("abcd", "a", 1, 2, pos=0, batch=0).deliver("abcd", "b", 1, pos=2, batch=0)
    tale.deliver("abcd", "c", 1).send("d", 1, service="CAUSAL", to="bd").deliver("bd", "d", 1)
    _parting(tale)
    _loss_of_d(tale)
    _reunion(tale)
    tale.change("b", "LEAVE").change("acD", "FA").change("acD", "CLOSED").life("b", "STOP")
    tale.install("acD", "v6", "acD", 1, 2).topology("acD")
    tale.send("c", 4, service="SAFE").send("D", 3, service="BASIC").deliver("acD", "D", 3)
    return tale.deliver("acD", "c", 4, pos=0, batch=0).stop()


def _parting(tale: Tale) -> None:
    """a, b and c, d part; each side delivers what it has, the marker where it must be; a sends
    on during the change, and what b had for d goes to nobody."""
    tale.topology("ab", "cd").send("a", 3, service="SAFE").send("c", 2, service="CAUSAL")
    tale.submit("b", 2, to="d").change("ab", "FA").send("a", 4, phase=1).change("cd", "FA")
    tale.change("abcd", "CLOSED")
    tale.marker("ab", 3).deliver("ab", "a", 3, pos=3, batch=1, region="TRANSITIONAL")
    tale.deliver("cd", "c", 2)
    tale.row("a", ev.Stable, sender="a", sender_inc=1, upto=3, vid="v1", step=99)
    tale.install("a", "v2", "ab", 1, 1, trans="ab", step=99)
    tale.install("b", "v2", "ab", 1, 1, trans="ab").install("cd", "v3", "cd", 1, 1)
    tale.row("b", ev.NotSent, first=2, last=2)
    tale.deliver("ab", "a", 4, pos=0, batch=0).send("d", 2).deliver("cd", "d", 2, pos=0, batch=0)


def _loss_of_d(tale: Tale) -> None:
    """d crashes with a message that nobody has, and comes back alone."""
    tale.send("d", 3).deliver("d", "d", 3, pos=1, batch=1).life("d", "CRASH").topology("c")
    tale.change("c", "FA").change("c", "CLOSED").install("c", "v4", "c", 2, 1)
    tale.life("D", "START").topology("D").install("D", "vD", "D")
    tale.change("D", "START", "COLLECT").change("D", "FORGET")
    tale.send("D", 1, service="CAUSAL").deliver("D", "D", 1)


def _reunion(tale: Tale) -> None:
    """All that there are meet again; a's answer follows what c and D never saw."""
    tale.topology("abcD").change("abcD", "START", "COLLECT").change("abcD", "COMMIT", "COMMIT")
    tale.change("abcD", "CLOSED")
    components = ["v2", "v4", "vD"]
    for letters in ("ab", "c", "D"):
        tale.install(letters, "v5", "abcD", joins=2, components=components)
    tale.send("a", 5, service="CAUSAL").deliver("abcD", "a", 5).send("c", 3).send("D", 2, to="D")
    tale.deliver("abcD", "c", 3, pos=0, batch=0).deliver("D", "D", 2, pos=1, batch=1)
    tale.submit("b", 3).send("b", 3).deliver("abcD", "b", 3, pos=2, batch=2)
