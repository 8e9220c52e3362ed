"""Frames that bring their own table, and contradictions in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from phalanx.core.announced import (
    TABLES_MAX,
    Tables,
    component_of,
    is_possible,
    is_view,
    table_of,
)
from phalanx.core.frames import (
    Announce,
    Component,
    Fault,
    Frame,
    FrameKind,
    Join,
    Leave,
)
from phalanx.core.framing import encode_tag
from phalanx.core.ids import MemberId, View, ViewId, boot_view, digest_of, table_digest
from phalanx.core.membership.contexts import join_view, removal_view

A, B, C = (MemberId(name) for name in "abc")
PAIR, LONE = boot_view([A, B]), boot_view([C])


def part(view: View) -> Component:
    return Component(view.id, view.members, view.context)


COMPONENTS = (part(LONE), part(PAIR))
TABLE = (A, B, C)
CONTEXT = b"context8"


def frame(sender: int = 1, number: int = 4, phase: int = 1, **more: Any) -> Frame:
    """Frame 4 of b, in a change of {a, b} that meets {c}."""
    view: View = more.get("view", PAIR)
    announce = Announce(
        more.get("components", COMPONENTS),
        more.get("context", view.context),
        more.get("vector", (9, 4, 2)),
        more.get("floors", (8, 3, 0)),
        more.get("said"),
    )
    table = more.get("table", TABLE)
    return Frame(
        sender, number, FrameKind.ACK, phase, table_digest(table), encode_tag(view.id),
        (), (), 1, [], announce, b"", 0, False, wire=sender,
    )  # fmt: skip


def possible(made: Frame) -> bool:
    assert made.control is not None
    table = table_of(made.control)
    return is_possible(made, table, table[made.wire])


# ---------------------------------------------------------------------------- tables


def test_the_table_of_a_frame_is_all_members_of_its_components_in_order() -> None:
    announce = frame().control
    assert announce is not None
    assert table_of(announce) == TABLE


def test_a_table_is_learned_from_a_frame_that_names_it() -> None:
    tables = Tables()
    assert tables.get(table_digest(TABLE)) is None
    assert tables.learn(frame()) == TABLE
    assert tables.get(table_digest(TABLE)) == TABLE


def test_a_table_that_is_not_the_one_the_frame_names_is_not_learned() -> None:
    tables = Tables()
    assert tables.learn(frame(table=(A, C))) is None
    assert tables.learn(frame(components=(), table=())) is None
    assert tables.get(table_digest((A, C))) is None


def test_a_frame_that_announces_nothing_teaches_nothing() -> None:
    made = frame()
    made.control = None
    assert Tables().learn(made) is None


def test_the_newest_tables_are_remembered_and_no_more() -> None:
    tables = Tables()
    digests = [tables.add((MemberId(f"m{k}"),)) for k in range(3 * TABLES_MAX)]
    known = [digest for digest in digests if tables.get(digest) is not None]
    assert known == digests[-TABLES_MAX:]


def test_the_component_of_a_frame_is_the_one_that_its_tag_names() -> None:
    assert component_of(frame()) == COMPONENTS[1]
    assert component_of(frame(components=COMPONENTS[:1])) is None


# ---------------------------------------------------------------------------- names of views


def test_a_view_has_the_name_that_its_members_and_context_give_it() -> None:
    joined = join_view(COMPONENTS, CONTEXT, frozenset(TABLE))
    removed = removal_view(joined, CONTEXT, frozenset({A, C}))
    for view in (PAIR, joined, removed):
        true = part(view)
        assert is_view(true)
        for wrong in (
            {"members": (A,)},
            {"context": b"another!"},
            {"view": ViewId(7, 0, b"another!")},
            {"members": ()},
            {"members": true.members[::-1]},
            {"members": true.members + true.members[-1:]},
        ):
            assert not is_view(msgspec.structs.replace(true, **wrong))


def test_a_view_of_no_epoch_is_a_boot() -> None:
    joined = join_view(COMPONENTS, CONTEXT, frozenset(TABLE))
    assert not is_view(Component(ViewId(0, 0, joined.id.digest), TABLE, CONTEXT))


# ---------------------------------------------------------------------------- contradictions


@pytest.mark.parametrize(
    "made",
    [
        frame(),
        frame(said=Join((A,))),
        frame(said=Fault(PAIR.context, (A, C), (A,), False)),
        frame(said=Leave()),
        frame(phase=0, components=COMPONENTS[1:], vector=(9, 4), floors=(9, 4)),
    ],
    ids=["ack", "join", "fault", "leave", "young view"],
)
def test_what_members_say_is_possible(made: Frame) -> None:
    assert possible(made)


JOINED = join_view(COMPONENTS, CONTEXT, frozenset(TABLE))
LATER = part(JOINED)
RENAMED = View(ViewId(0, 1, PAIR.id.digest), PAIR.members, PAIR.context)
NONE = ViewId(1, 0, digest_of(b"view", CONTEXT))


@pytest.mark.parametrize(
    "made",
    [
        frame(phase=2),
        frame(phase=0, said=Join(())),
        frame(phase=0, said=Leave()),
        frame(vector=(9, 4)),
        frame(vector=(9, 4, 2, 2)),
        frame(floors=(8, 3)),
        frame(vector=(9, 5, 2)),
        frame(vector=(9, 3, 2)),
        frame(floors=(8, 4, 0)),
        frame(floors=(8, 99, 0)),
        frame(phase=0, vector=(9, 5, 2), floors=(8, 5, 0)),
        frame(components=COMPONENTS[:1], sender=0, vector=(4,), floors=(0,)),
        frame(components=(Component(PAIR.id, (B, A), PAIR.context), COMPONENTS[0])),
        frame(components=(Component(PAIR.id, (A, A, B), PAIR.context), COMPONENTS[0])),
        frame(components=(*COMPONENTS, Component(NONE, (), CONTEXT))),
        frame(components=(COMPONENTS[1], Component(ViewId(1, 0, b"made up!"), (C,), CONTEXT))),
        frame(sender=2, number=2),
        frame(components=(*COMPONENTS, LATER)),
        frame(context=b"another!"),
        frame(view=RENAMED, components=(COMPONENTS[0], part(RENAMED))),
        frame(said=Fault(PAIR.context, (), (), False)),
        frame(said=Fault(PAIR.context, (C, A), (), False)),
        frame(said=Fault(PAIR.context, (A, A), (), False)),
        frame(said=Fault(PAIR.context, (A,), (C, A), False)),
        frame(said=Join((B,))),
        frame(said=Join((C, A))),
    ],
    ids=[
        "a phase that there is not",
        "a proposal in no change",
        "a goodbye in no change",
        "a vector too short",
        "a vector too long",
        "floors too few",
        "follows more of its sender than it is",
        "follows less of its sender than it is",
        "its own floor is at itself",
        "its own floor is above itself",
        "a young frame that follows more of its sender than it is",
        "a tag that is none of its components",
        "members out of order",
        "a member twice",
        "a component of nobody",
        "another component with a made-up name",
        "a sender outside its own view",
        "a sender that stands in a newer component",
        "a view of another context",
        "a view with another epoch than it was named with",
        "a fault of nobody",
        "faults out of order",
        "a fault twice",
        "new faults out of order",
        "a proposal without its sender",
        "failures out of order",
    ],
)
def test_a_frame_that_contradicts_itself_is_impossible(made: Frame) -> None:
    assert not possible(made)


@pytest.mark.parametrize(
    "change",
    [
        lambda announce: {"vector": announce.vector[:-1]},
        lambda announce: {"floors": announce.floors[:-1]},
        lambda announce: {"components": announce.components[:1]},
        lambda announce: {"context": b"another!"},
    ],
)
def test_a_possible_frame_with_one_field_changed_is_impossible(
    change: Callable[[Announce], dict[str, Any]],
) -> None:
    made = frame(said=Join(()))
    assert possible(made)
    assert made.control is not None
    made.control = msgspec.structs.replace(made.control, **change(made.control))
    assert not is_possible(made, TABLE, B)
