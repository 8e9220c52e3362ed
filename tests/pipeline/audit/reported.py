"""Runs in which members are told everything: receipts, lost receivers, who joined and left, what a
merge brought together, why they stopped. One is legal; each of the others has one thing wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from tests.verify.trace_builder import TraceBuilder, incarnations, names, renumbered

from phalanx.journal import schema as ev

Rows = list[ev.Event]


def _named(letters: str, what: str = "member") -> dict[str, Any]:
    column = "members" if what == "member" else what
    return {column: names(letters), f"{what}_incarnations": incarnations(letters)}


def _delta(joined: str, left: str = "") -> dict[str, Any]:
    return _named(joined, "joined") | _named(left, "left")


def told_all() -> TraceBuilder:
    """a, b and c meet, c leaves, and a namesake of c stops at once; mode `flow`."""
    tale = TraceBuilder("abc", boot="")
    for letter in "abc":
        tale.install(letter, f"v{letter}", letter, **_delta(""))
    tale.submit("a", 1, service="CAUSAL").send("a", 1, service="CAUSAL").deliver("a", "a", 1)
    _receipts(tale, 1)
    tale.change("abc", "START", "COLLECT").change("abc", "COMMIT", "COMMIT").change("abc", "CLOSED")
    _merge(tale)
    tale.row("C", ev.Life, op="START")
    tale.row("C", ev.Life, op="STOP", reason="name-in-use")
    tale.ended.add("C")
    tale.submit("a", 2).send("a", 2).deliver("abc", "a", 2, pos=0, batch=0)
    _receipts(tale, 2)
    _leave(tale)
    for letter, submitted, refused in (("a", 4, 1), ("b", 0, 0)):
        reason = {"reason": "GroupLeft"} if refused else {}
        counts = {"accepted": submitted + refused, "submitted": submitted, "refused": refused}
        tale.row(letter, ev.Queue, **counts, **reason)
    return tale.stop()


def _receipts(tale: TraceBuilder, upto: int) -> None:
    view = tale.view["a"]
    tale.row("a", ev.Ordered, upto=upto, view=view)
    tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=upto, view=view)


def _merge(tale: TraceBuilder) -> None:
    """b has met a, so what a delivered is known to be news to it."""
    for letter in "abc":
        joined = "".join(other for other in "abc" if other != letter)
        merged: dict[str, Any] = {"joins": 1, "components": ["va", "vb", "vc"]}
        tale.install(letter, "v1", "abc", transitional=letter, **merged, **_delta(joined))
        for side, senders, upto in (("a", "a", [1]), ("b", "ab", [0, 0]), ("c", "", [])):
            alone = "a" if side == "a" else ""
            columns = _named(side) | _named(senders, "delivered") | _named(alone, "alone")
            columns |= {"alone_first": [1] * len(alone), "alone_last": [1] * len(alone)}
            tale.row(
                letter,
                ev.MergedComponent,
                view="v1",
                component=f"v{side}",
                delivered_upto=upto,
                **columns,
            )


def _leave(tale: TraceBuilder) -> None:
    """a's third message is stable only with b, and the fourth, for b and c, goes to b alone."""
    tale.submit("a", 3, service="SAFE").send("a", 3, service="SAFE").submit("a", 4, to="bc")
    tale.change("c", "LEAVE").row("c", ev.Life, op="STOP", reason="left")
    tale.ended.add("c")
    tale.change("ab", "FA").change("ab", "CLOSED")
    for letter in "ab":
        tale.row(letter, ev.Transitional, view="v1", pos=1, **_named("ab"))
        tale.deliver(letter, "a", 3, pos=1, batch=1, region="TRANSITIONAL")
    tale.row("a", ev.Ordered, upto=3, view="v1", step=90)
    stable: dict[str, Any] = {"sender": "a", "sender_incarnation": 1, "upto": 3, "view": "v1"}
    tale.row("a", ev.Stable, **stable, **_named("ab"), step=90)
    tale.install("a", "v2", "ab", 1, 1, transitional="ab", step=90, **_delta("", "c"))
    tale.install("b", "v2", "ab", 1, 1, transitional="ab", **_delta("", "c"))
    tale.row("a", ev.NotSent, first=4, last=4, rest=1, **_named("c"))
    tale.send("a", 4, to="b").deliver("b", "a", 4, pos=0, batch=0)
    _receipts(tale, 4)


def c_moves_on_without_a_stable_message() -> Rows:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=1, view="v1").life("a", "STOP")
    return tale.install("c", "v2", "c", 1).rows


def an_older_journal_names_nobody() -> Rows:
    """The receipt of the step that ends a view speaks of those that move along."""
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=1, view="v1", step=50)
    tale.install("a", "v2", "ab", 1, transitional="ab", step=50).install(
        "b", "v2", "ab", 1, transitional="ab"
    )
    return tale.install("c", "v3", "c", 1).rows


def a_receipt_is_repeated_in_the_next_view() -> Rows:
    """And speaks of nothing new, though the first ended in the middle of what was sent at once."""
    tale = TraceBuilder("ab").send("a", 1, 2, service="CAUSAL").deliver("ab", "a", 1, 2)
    tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=1, view="v1")
    tale.install("ab", "v2", "ab", 1)
    return tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=1, view="v2").rows


def a_receipt_goes_past_what_went_to_nobody() -> Rows:
    tale = TraceBuilder("abc", boot="").install("abc", "v1", "abc", **_delta(""))
    tale.submit("a", 1, to="c").submit("a", 2, service="CAUSAL")
    tale.install("ab", "v2", "ab", 1, **_delta("", "c")).install("c", "v3", "c", 1)
    tale.row("a", ev.NotSent, first=1, last=1, **_named("c"))
    tale.send("a", 2, service="CAUSAL").deliver("ab", "a", 2)
    return tale.row("a", ev.Ordered, upto=2, view="v2").life("a", "STOP").rows


def an_older_receipt_names_the_view_before() -> Rows:
    tale = TraceBuilder("ab", boot="").install("ab", "v1", "ab", joined=None, left=None)
    tale.send("a", 1, service="CAUSAL", phase=1).install(
        "ab", "v2", "ab", 1, joined=None, left=None
    )
    tale.deliver("ab", "a", 1)
    return (
        tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=1, view="v1")
        .life("a", "STOP")
        .rows
    )


def b_has_a_receipt_for_messages_of_a() -> Rows:
    tale = TraceBuilder("ab", boot="").install("ab", "v1", "ab", **_delta(""))
    tale.send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    return tale.row("b", ev.Stable, sender="a", sender_incarnation=1, upto=0, view="v1").rows


def c_never_installs_the_view() -> Rows:
    tale = TraceBuilder("abc", boot="ab").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=1, view="v1").life("a", "STOP")
    return tale.install("c", "vc", "c").life("c", "STOP").rows


def a_receipt_names_members(letters: str, goes_on: bool = True) -> Rows:
    tale = TraceBuilder("ab", boot="").install("ab", "v1", "ab", **_delta(""))
    tale.send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=1, view="v1", **_named(letters))
    return (tale.send("a", 2, service="CAUSAL") if goes_on else tale).rows


def an_older_receipt_torn_off() -> Rows:
    """The view that follows in its step, without c, may be missing."""
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=1, view="v1")
    return tale.install("c", "v3", "c", 1).rows


def a_receipt_that_all_delivered(
    by: str, names: str | None = None, to: str | None = None, ended: str = "abc"
) -> Rows:
    """a's message is delivered by these members; then a has the receipt, and the members part."""
    tale = TraceBuilder("abc").send("a", 1, to=to, service="CAUSAL").deliver(by, "a", 1)
    tale.install("ab", "v2", "ab", 1)
    given = {} if names is None else _named(names)
    tale.row("a", ev.AllDelivered, upto=1, view="v1", **given)
    return tale.life(ended, "STOP").rows


def c_delivers_after_the_receipt() -> Rows:
    tale = TraceBuilder("abc").send("a", 1, 2, service="CAUSAL").deliver("abc", "a", 1)
    tale.row("a", ev.AllDelivered, upto=1, view="v1").deliver("ab", "a", 2)
    tale.row("a", ev.AllDelivered, upto=2, view="v1").deliver("c", "a", 2)
    return tale.stop().rows


def all_deliver_before_the_receipts() -> Rows:
    tale = TraceBuilder("abc").send("a", 1, 2, service="CAUSAL").deliver("abc", "a", 1)
    tale.row("a", ev.AllDelivered, upto=1, view="v1").deliver("abc", "a", 2)
    return tale.row("a", ev.AllDelivered, upto=2, view="v1").stop().rows


def _installed(member: str) -> int:
    """The row of the merged view at a member."""
    rows = [r for r in told_all().rows if isinstance(r, ev.ViewInstalled) and r.member == member]
    return rows[1].lseq


def _for_b_and_c(last: int = 1) -> TraceBuilder:
    tale = TraceBuilder("abc", boot="").install("abc", "v1", "abc", **_delta(""))
    return tale.submit("a", 1, last, to="bc", service="CAUSAL")


def c_is_lost_though_it_gets_the_message() -> Rows:
    tale = _for_b_and_c().send("a", 1, to="bc", service="CAUSAL").deliver("bc", "a", 1)
    return tale.row("a", ev.NotSent, first=1, last=1, rest=1, **_named("c")).rows


def c_is_lost_at_the_end() -> Rows:
    """The view without c may be among what is missing."""
    tale = _for_b_and_c()
    return tale.row("a", ev.NotSent, first=1, last=1, rest=1, **_named("c")).rows


def c_is_lost_though_it_stays() -> Rows:
    tale = _for_b_and_c()
    tale.row("a", ev.NotSent, first=1, last=1, rest=1, **_named("c"))
    return tale.submit("a", 2, service="CAUSAL").rows


def c_is_lost(last: int) -> Rows:
    """Of two messages that go to b alone, some are reported."""
    tale = _for_b_and_c(2).install("ab", "v2", "ab", 1, **_delta("", "c"))
    tale.install("c", "v3", "c", 1, **_delta("", "ab"))
    tale.row("a", ev.NotSent, first=1, last=last, rest=1, **_named("c"))
    return tale.send("a", 1, 2, to="b", service="CAUSAL").deliver("b", "a", 1, 2).rows


def b_stops_for_its_name() -> Rows:
    tale = TraceBuilder("ab", boot="").install("a", "va", "a", **_delta("")).life("b", "START")
    return _stopped(tale, "b", "name-in-use").stop().rows


def a_stops_for_a_name_of_before() -> Rows:
    """Its first life had crashed."""
    tale = TraceBuilder("ab", boot="").install("b", "vb", "b", **_delta(""))
    tale.install("a", "va", "a", **_delta("")).life("a", "CRASH").life("A", "START")
    tale.ended.add("a")
    return _stopped(tale, "A", "name-in-use").stop().rows


def a_torn_namesake_may_have_lived() -> Rows:
    rows = a_stops_for_a_name_of_before()
    return [row for row in rows if (row.member, row.incarnation, row.lseq) != ("a", 1, 1)]


def _stopped(tale: TraceBuilder, letter: str, reason: str) -> TraceBuilder:
    tale.row(letter, ev.Life, op="STOP", reason=reason)
    tale.ended.add(letter)
    return tale


def a_first_view_that_is_no_boot() -> Rows:
    return TraceBuilder("ab", boot="").install("ab", "v1", "ab", cause="join", **_delta("")).rows


def _queued(*counts: tuple[int, int, int, str | None], reason: str = "left") -> Rows:
    """a submits a message; then the rows of its queue."""
    tale = (
        TraceBuilder("a", boot="").install("a", "va", "a", **_delta("")).submit("a", 1).send("a", 1)
    )
    tale.deliver("a", "a", 1, pos=0, batch=0)
    _receipts(tale, 1)
    for accepted, submitted, refused, why in counts:
        columns = {"accepted": accepted, "submitted": submitted, "refused": refused}
        tale.row("a", ev.Queue, **columns, **({} if why is None else {"reason": why}))
    return _stopped(tale, "a", reason).stop().rows


# ---------------------------------------------------------------------------- one thing wrong


def changed(table: type[ev.Row], at_members: str, at: int, /, **columns: Any) -> Callable[[], Rows]:
    """The row of the table that is number `at` at each of these members has other columns."""

    def make() -> Rows:
        rows = told_all().rows
        for member in at_members:
            own = [i for i, r in enumerate(rows) if isinstance(r, table) and r.member == member]
            rows[own[at]] = msgspec.structs.replace(rows[own[at]], **columns)
        return rows

    return make


def without(table: type[ev.Row], member: str, at: int) -> Callable[[], Rows]:
    def make() -> Rows:
        rows = told_all().rows
        own = [row for row in rows if isinstance(row, table) and row.member == member]
        return renumbered([row for row in rows if row is not own[at]])

    return make


@dataclass(frozen=True)
class Wrong:
    rows: Callable[[], Rows]
    breaks: str
    says: str
    settled: bool = True


WRONG = {
    "receipt of what was not sent": Wrong(
        changed(ev.Ordered, "a", -1, upto=9), "receipt-truth", "a.1#5..9 in v2, which was never"
    ),
    "receipt in another view": Wrong(
        changed(ev.Stable, "a", 1, view="va"), "receipt-truth", "a.1#2 in va, but it belongs to v1"
    ),
    "receipt for others": Wrong(
        changed(ev.Stable, "a", 2, **_named("abc")),
        "receipt-truth",
        "a receipt for a.1, b.1, c.1, who do not move on from v1 together",
    ),
    "receipt too early": Wrong(
        c_moves_on_without_a_stable_message,
        "receipt-truth",
        "that a.1#1 is stable in v1, but c.1 did not deliver it there",
        settled=False,
    ),
    "receipt for messages of another": Wrong(
        b_has_a_receipt_for_messages_of_a,
        "receipt-truth",
        "b.1 has a receipt for messages of a.1",
        settled=False,
    ),
    "receipt of a view that was never installed": Wrong(
        c_never_installs_the_view,
        "receipt-truth",
        "that a.1#1 is stable in v1, but c.1 never installed it",
        settled=False,
    ),
    "receipt that names members while the view goes on": Wrong(
        lambda: a_receipt_names_members("ab"),
        "receipt-truth",
        "a receipt for a.1, b.1, who do not move on from v1 together",
        settled=False,
    ),
    "receipt that all delivered, and one did not": Wrong(
        lambda: a_receipt_that_all_delivered("ab"),
        "receipt-truth",
        "that a.1#1 is delivered by all of v1, but c.1 had not delivered it there",
        settled=False,
    ),
    "receipt that those named delivered, and one did not": Wrong(
        lambda: a_receipt_that_all_delivered("ab", "ac"),
        "receipt-truth",
        "that a.1#1 is delivered by all of v1, but c.1 had not delivered it there",
        settled=False,
    ),
    "receipt that all delivered, too early": Wrong(
        c_delivers_after_the_receipt,
        "receipt-truth",
        "that a.1#2 is delivered by all of v1, but c.1 had not delivered it there",
    ),
    "no receipt": Wrong(
        without(ev.Stable, "a", -1), "receipt-liveness", "never got a receipt that a.1#4 is stable"
    ),
    "lost receiver untold": Wrong(
        without(ev.NotSent, "a", 0),
        "not-sent-liveness",
        "a.1 got no report that a.1#4 does not go to c.1, which is not in v2",
    ),
    "lost receiver delivers": Wrong(
        changed(ev.NotSent, "a", 0, **_named("bc")),
        "not-sent-liveness",
        "a.1 got a report that a.1#4 does not go to b.1, which delivered it",
    ),
    "lost stranger": Wrong(
        changed(ev.NotSent, "a", 0, members=["c", "d"], member_incarnations=[1, 1]),
        "not-sent-liveness",
        "a.1 got a report that d.1 is gone, which was not addressed",
    ),
    "wrong number of receivers left": Wrong(
        changed(ev.NotSent, "a", 0, rest=2),
        "not-sent-liveness",
        "a.1 got a report on a.1#4 that 2 receivers are left, but there are 1",
    ),
    "lost receiver in the home": Wrong(
        c_is_lost_though_it_gets_the_message,
        "not-sent-liveness",
        "a.1 got a report that a.1#1 does not go to c.1, which is in v1",
        settled=False,
    ),
    "lost receiver that stays": Wrong(
        c_is_lost_though_it_stays,
        "not-sent-liveness",
        "a.1 got a report that a.1#1 does not go to c.1, which was in its view all the time",
        settled=False,
    ),
    "lost receiver told of a part": Wrong(
        lambda: c_is_lost(last=1),
        "not-sent-liveness",
        "a.1 got no report that a.1#2 does not go to c.1, which is not in v2",
        settled=False,
    ),
    "joined untold": Wrong(
        changed(ev.ViewInstalled, "b", 1, **_named("a", "joined")),
        "view-delta-truth",
        "b.1 got a report that a.1 joined and nobody left with v1; a.1 c.1 did, and nobody",
    ),
    "component unreported": Wrong(
        without(ev.MergedComponent, "b", 1),
        "merge-report-truth",
        "b.1 got no report of each component of v1",
    ),
    "component of others": Wrong(
        changed(ev.MergedComponent, "abc", 2, **_named("bc")),
        "merge-report-truth",
        "v1 reports to a.1 that vc was of b.1 c.1, but it was of c.1",
    ),
    "reports apart": Wrong(
        changed(
            ev.MergedComponent, "b", 1, delivered=[], delivered_incarnations=[], delivered_upto=[]
        ),
        "merge-report-truth",
        "b.1 and a.1 got different reports of v1",
    ),
    "reported too much": Wrong(
        changed(ev.MergedComponent, "abc", 1, delivered_upto=[0, 7]),
        "merge-report-truth",
        "v1 reports to a.1 that vb had delivered up to 7, but it was b.1#0",
    ),
    "reported too little": Wrong(
        changed(
            ev.MergedComponent,
            "abc",
            0,
            delivered_upto=[0],
            alone=[],
            alone_incarnations=[],
            alone_first=[],
            alone_last=[],
        ),
        "merge-report-truth",
        "v1 reports to a.1 that va had delivered up to 0, but it was a.1#1",
    ),
    "reported wrongly alone": Wrong(
        changed(ev.MergedComponent, "abc", 0, alone_last=[2]),
        "merge-report-truth",
        "v1 reports wrongly to a.1 what only va had delivered",
    ),
    "stopped for its name though accepted": Wrong(
        changed(ev.Life, "b", -1, reason="name-in-use"),
        "no-needless-stop",
        "b.1 stopped because its name is in use, though it was accepted in v2",
    ),
    "stopped without a namesake": Wrong(
        b_stops_for_its_name,
        "no-needless-stop",
        "b.1 stopped because its name is in use, and nobody used it",
    ),
    "stopped when its namesake was gone": Wrong(
        a_stops_for_a_name_of_before,
        "no-needless-stop",
        "a.2 stopped because its name is in use, and nobody used it",
    ),
    "left unasked": Wrong(
        without(ev.ViewChangeStep, "c", -1), "no-needless-stop", "c.1 left without being asked to"
    ),
    "counts contradict": Wrong(
        changed(ev.Queue, "b", -1, submitted=1),
        "accepted-is-sent",
        "counts of its queue contradict",
    ),
    "counts shrink": Wrong(
        lambda: _queued((3, 1, 1, "NoReceiver"), (3, 1, 0, None)),
        "accepted-is-sent",
        "counts of its queue contradict",
        settled=False,
    ),
    "refused without a reason": Wrong(
        lambda: _queued((3, 1, 1, None), (3, 1, 2, None)),
        "accepted-is-sent",
        "counts of its queue contradict",
    ),
    "submitted too little at the first row": Wrong(
        lambda: _queued((3, 0, 1, "NoReceiver"), (3, 1, 2, None)),
        "accepted-is-sent",
        "a.1 submitted 1 messages, its queue counts 0",
    ),
    "accepted and kept by a settled run": Wrong(
        lambda: _queued((4, 1, 1, "NoReceiver"), (4, 1, 2, None), reason="ended"),
        "accepted-is-sent",
        "a.1 accepted 4 messages, submitted 1 and refused 2",
    ),
    "accepted and kept": Wrong(
        changed(ev.Queue, "a", -1, accepted=7),
        "accepted-is-sent",
        "a.1 accepted 7 messages, submitted 4 and refused 1",
    ),
    "marker names others": Wrong(
        changed(ev.Transitional, "b", 0, **_named("abc")),
        "safe-marker",
        "the marker of v1 at b.1 names others than those that move on with it to v2",
    ),
}
"""By what is wrong: the rows, the property that they break, and no other, and what is said."""

LEGAL: dict[str, tuple[Callable[[], Rows], bool]] = {
    "told all": (lambda: told_all().rows, True),
    "told all, without a clock": (lambda: told_all().rows, False),
    "older receipt at the end of a view": (an_older_journal_names_nobody, False),
    "receipt past what went to nobody": (a_receipt_goes_past_what_went_to_nobody, False),
    "older receipt in the view before": (an_older_receipt_names_the_view_before, False),
    "queue of a run that was cut short": (
        lambda: _queued((4, 1, 1, "NoReceiver"), (4, 1, 2, None), reason="failed"),
        False,
    ),
    "last row of a queue without a reason": (
        lambda: _queued((3, 1, 1, "NoReceiver"), (3, 1, 2, None)),
        True,
    ),
    "namesake with a torn journal": (a_torn_namesake_may_have_lived, False),
    "name in use, and no journal of a namesake": (b_stops_for_its_name, False),
    "first view that joins others": (a_first_view_that_is_no_boot, False),
    "merge report torn off": (
        lambda: [r for r in told_all().rows if r.member != "b" or r.lseq <= _installed("b")],
        False,
    ),
    "step of a receipt torn off": (lambda: a_receipt_names_members("ab", goes_on=False), False),
    "step of an older receipt torn off": (an_older_receipt_torn_off, False),
    "lost receiver told of all": (lambda: c_is_lost(last=2), False),
    "step of a lost receiver torn off": (c_is_lost_at_the_end, False),
    "receipts that all delivered": (all_deliver_before_the_receipts, True),
    "receipts that all delivered, without a clock": (c_delivers_after_the_receipt, False),
    "receipt that those named delivered": (
        lambda: a_receipt_that_all_delivered("ab", "ab"),
        False,
    ),
    "receipt that all addressed delivered": (
        lambda: a_receipt_that_all_delivered("b", to="b"),
        False,
    ),
    "receipt that all delivered, and a journal that just ends": (
        lambda: a_receipt_that_all_delivered("ab", ended="ab"),
        False,
    ),
    "repeated receipt": (a_receipt_is_repeated_in_the_next_view, False),
}
"""And whether they have settled."""
