"""Frames that announce their sender's view and proposal, and contradictions in them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.forged_packets import body, made_up

from phalanx.core.effects import Service
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.membership.announcement import (
    announce,
    component_of_frame,
    sender_of,
    statement_of,
    vector_of,
)
from phalanx.core.membership.proposals import component_of, proposal_of
from phalanx.core.membership.statements import Statement
from phalanx.core.wire.frame_codec import encode_tag
from phalanx.core.wire.frames import (
    Announce,
    Component,
    DeliveredVector,
    Frame,
    FrameKind,
    LeaveAnnounced,
    MessageRun,
    Propose,
)

A, B, C = (MemberId(name) for name in "abc")
PAIR, LONE = component_of(boot_view([A, B])), component_of(boot_view([C]))
BOTH = proposal_of([PAIR, LONE])
ALONE = proposal_of([PAIR])
LATER = component_of(BOTH.view)
PROPOSED = Propose(DeliveredVector((A, C), (5, 0)))


def frame(sender: int = 1, number: int = 4, phase: int = 1, **more: Any) -> Frame:
    """Frame 4 of b, in {a, b}, which meets {c}; it issues the proposal unless `more` differs."""
    where: Component = more.get("where", PAIR)
    fields: dict[str, Any] = {
        "proposal": BOTH.encoded if phase else proposal_of([where]).encoded,
        "vector": (9, 4),
        "issued": number if phase else 0,
        "start": number if phase else 0,
        "closings": (),
        "openings": (),
        "said": PROPOSED if phase else None,
    }
    control = Announce(**{name: more.get(name, value) for name, value in fields.items()})
    return Frame(
        sender, number, FrameKind.ACK, phase, more.get("table", where.view.digest),
        encode_tag(where.view), (), (), 1, more.get("runs", []), control, b"", 0, False,
        wire=sender,
    )  # fmt: skip


def run(*to: int) -> MessageRun:
    return MessageRun(Service.AGREED, 1, 1, to, 0, (0,))


# ---------------------------------------------------------------------------- what is read


def test_an_announcement_holds_the_bytes_of_the_proposal() -> None:
    made = announce(BOTH, (9, 4), 4, 3, (1, 2, 0), (7, 8), PROPOSED)
    assert made == Announce(BOTH.encoded, (9, 4), 4, 3, (1, 2, 0), (7, 8), PROPOSED)


def test_the_component_of_a_frame_is_the_one_that_its_tag_names() -> None:
    assert component_of_frame(frame()) == PAIR
    assert component_of_frame(frame(proposal=proposal_of([LONE]).encoded)) is None


def test_a_frame_that_announces_nothing_has_no_component_and_no_sender() -> None:
    made = frame()
    made.control = None
    assert component_of_frame(made) is None
    assert sender_of(made) is None


def test_the_sender_is_the_member_at_the_frames_index_in_its_view() -> None:
    assert sender_of(frame()) == B
    assert sender_of(frame(sender=0, number=9)) == A


def test_a_frame_that_issues_a_proposal_says_so() -> None:
    assert statement_of(frame(start=3, closings=(7, 4, 0)), B) == Statement(
        member=B,
        number=4,
        component=PAIR,
        proposal=BOTH,
        issued=4,
        start=3,
        delivered=PROPOSED.delivered,
        closings={A: 7, B: 4, C: 0},
    )


def test_a_later_frame_repeats_the_proposal_without_what_was_delivered() -> None:
    said = statement_of(frame(said=None, issued=2, start=2), B)
    assert (said.proposal, said.issued, said.delivered, said.leaves) == (BOTH, 2, None, False)


def test_a_frame_of_phase_0_says_which_frames_issued_its_view_and_proposes_nothing() -> None:
    said = statement_of(frame(phase=0, openings=(8, 3)), B)
    assert said == Statement(B, 4, PAIR, openings={A: 8, B: 3})


def test_a_proposal_in_a_young_view_says_which_frames_issued_either() -> None:
    said = statement_of(frame(closings=(7, 4, 0), openings=(8, 3)), B)
    assert (said.closings, said.openings) == ({A: 7, B: 4, C: 0}, {A: 8, B: 3})


def test_the_last_frame_of_a_member_says_that_it_leaves() -> None:
    made = frame(proposal=ALONE.encoded, said=LeaveAnnounced(), issued=0, start=0)
    assert statement_of(made, B) == Statement(B, 4, PAIR, leaves=True)


def test_the_vector_of_a_frame_is_by_name() -> None:
    assert vector_of(frame()) == {A: 9, B: 4}


# ---------------------------------------------------------------------------- contradictions


@pytest.mark.parametrize(
    "made",
    [
        frame(),
        frame(start=1),
        frame(said=None, issued=2, start=1),
        frame(closings=(7, 4, 0)),
        frame(said=LeaveAnnounced(), issued=0, start=0),
        frame(said=LeaveAnnounced(), issued=3, start=3),
        frame(phase=0),
        frame(phase=0, openings=(8, 3)),
        frame(openings=(8, 3)),
        frame(runs=[run(0, 1)]),
    ],
    ids=[
        "an issue",
        "an issue that carries earlier frames",
        "a later frame",
        "closings",
        "a goodbye without a proposal",
        "a goodbye after a proposal",
        "phase 0",
        "phase 0 with openings",
        "openings",
        "messages to some",
    ],
)
def test_what_members_say_is_possible(made: Frame) -> None:
    assert sender_of(made) == B


MOVED = made_up([B, C])
WITHOUT_B = proposal_of([PAIR, LONE], [(B, PAIR.view)])
NEWER = proposal_of([PAIR, MOVED], [(B, PAIR.view)])


@pytest.mark.parametrize(
    "made",
    [
        frame(phase=2),
        frame(sender=2, number=2),
        frame(table=b"another!"),
        frame(proposal=b"nonsense"),
        frame(proposal=b""),
        frame(proposal=proposal_of([LONE]).encoded),
        frame(proposal=body([msgspec.structs.replace(PAIR, members=(B, A)), LONE])),
        frame(proposal=body([LONE, msgspec.structs.replace(PAIR, context=b"another!")])),
        frame(vector=(9,)),
        frame(vector=(9, 4, 2)),
        frame(vector=()),
        frame(vector=(9, 5)),
        frame(vector=(9, 3)),
        frame(proposal=WITHOUT_B.encoded),
        frame(proposal=NEWER.encoded),
        frame(issued=3),
        frame(issued=5),
        frame(said=None),
        frame(said=None, issued=0, start=0),
        frame(said=None, issued=5, start=0),
        frame(said=LeaveAnnounced()),
        frame(start=5),
        frame(closings=(7, 4)),
        frame(closings=(7, 4, 0, 1)),
        frame(said=Propose(DeliveredVector((A,), ()))),
        frame(phase=0, proposal=BOTH.encoded),
        frame(phase=0, proposal=proposal_of([PAIR], [(A, PAIR.view)]).encoded),
        frame(phase=0, said=PROPOSED),
        frame(phase=0, said=LeaveAnnounced()),
        frame(phase=0, issued=3),
        frame(phase=0, closings=(8, 3)),
        frame(openings=(8,)),
        frame(phase=0, openings=(8, 3, 1)),
        frame(runs=[run(0, 2)]),
    ],
    ids=[
        "a phase that there is not",
        "an index outside the view",
        "a table that is not the view",
        "a proposal that cannot be read",
        "no proposal",
        "a tag that is none of the components",
        "members out of order",
        "a component with a made-up name",
        "a vector too short",
        "a vector too long",
        "no vector",
        "follows more of its sender than it is",
        "follows less of its sender than it is",
        "leaves its sender out",
        "counts its sender in another view",
        "issues an earlier frame's proposal",
        "issues a later frame's proposal",
        "repeats its own proposal",
        "phase 1 without an issue",
        "an issue in the future",
        "a goodbye that issues",
        "a start behind the issue",
        "closings too few",
        "closings too many",
        "more names than numbers",
        "two components in phase 0",
        "a removal in phase 0",
        "a proposal in phase 0",
        "a goodbye in phase 0",
        "an issue in phase 0",
        "closings in phase 0",
        "openings too few",
        "openings too many",
        "a receiver outside the view",
    ],
)
def test_a_frame_that_contradicts_itself_is_impossible(made: Frame) -> None:
    assert sender_of(made) is None


def test_a_frame_of_the_view_that_a_proposal_made_is_possible() -> None:
    """Its indices are those of the new view, and its openings are the issues that made it."""
    made = frame(where=LATER, phase=0, vector=(9, 4, 2), openings=(9, 4, 2))
    assert sender_of(made) == B
    assert statement_of(made, B).openings == {A: 9, B: 4, C: 2}
