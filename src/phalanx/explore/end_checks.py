"""Checks on a group in which nothing happens any more: J4, J6, J2f, and one common view (J8).

The exhaustive search (`settle`) and the walks (`live_group`) both end in such a state. There no
member may be stuck in a view change (J4), each has delivered its own messages (J6), and members of
one view have delivered the same messages in it (J2f).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec

from phalanx.core.ids import View
from phalanx.explore.member_history import Finding, MemberHistory, private_messages, shared


class FinalState(msgspec.Struct, frozen=True):
    """A live member at the end."""

    process: int
    view: View
    busy: bool
    resting: bool
    accepted: int
    """How many messages were submitted here."""
    history: MemberHistory


def end_finding(members: Sequence[FinalState]) -> Finding | None:
    """The first violation of J4, J6 or J2f among the live members."""
    for member in members:
        if not member.resting:
            return Finding("J4", f"m{member.process} is stuck: {described_views(members)}")
        delivered = {message for view in member.history.delivered for message in view}
        addressed = member.history.addressed
        for number in range(1, member.accepted + 1):
            mine = member.process in addressed.get(number, (member.process,))
            if mine and (member.process, number) not in delivered:
                text = f"m{member.process} has not delivered its own message {number}"
                return Finding("J6", text)
    private = private_messages({member.process: member.history for member in members})
    for one, two in combinations(members, 2):
        if one.history.views[-1].view == two.history.views[-1].view:
            here, there = set(one.history.delivered[-1]), set(two.history.delivered[-1])
            if here != there and shared(here ^ there, one.process, two.process, private):
                pair = f"m{one.process} and m{two.process}"
                return Finding("J2f", f"{pair} deliver different messages in the end")
    return None


def is_united(members: Sequence[FinalState]) -> bool:
    """Whether all live members are in one view, and no other member is in it."""
    views = {member.view for member in members}
    return len(views) <= 1 and all(len(view.members) == len(members) for view in views)


def described_views(members: Sequence[FinalState]) -> str:
    """The view of each live member, in one line."""
    out = []
    for member in members:
        names = " ".join(other.name for other in member.view.members)
        changing = " changing" if member.busy else ""
        out.append(f"m{member.process} in {member.view.id} ({names}){changing}")
    return "; ".join(out)
