"""What was said in each context, and which sets it closes."""

from __future__ import annotations

from phalanx.core.frames import Announce, Component, Context, Fault, Join, Leave, Said
from phalanx.core.ids import MemberId, ViewId, boot_view
from phalanx.core.membership.contexts import Reach, context_digest
from phalanx.core.membership.ledger import CONTEXTS_MAX, Entry, Ledger, context_of

A, B, C, D = (MemberId(name) for name in "abcd")
VIEW = boot_view([A, B, C])
BOOT = Context(boot=(A, B, C))
ONE, TWO = (Component(boot_view(m).id, m) for m in ((A, B), (C,)))
UNION = Context(components=(ONE, TWO))
PAIR = context_digest(UNION)
NOBODY: frozenset[MemberId] = frozenset()


def entry(
    sender: MemberId,
    number: int,
    said: Said | None,
    reach: Reach | None = None,
    components: tuple[Component, ...] = (ONE, TWO),
) -> Entry:
    """A control frame; by default it follows nothing but its sender's frames."""
    announce = Announce(components, VIEW.context, (), (), said)
    past = {**(reach or {}), sender: number}
    return Entry(sender, number, VIEW.id, 1, announce, past)


def fault(sender: MemberId, number: int, *faulty: MemberId, reach: Reach | None = None) -> Entry:
    return entry(sender, number, Fault(VIEW.context, faulty, faulty, False), reach)


def ledger(*entries: Entry, counted: bool = True) -> Ledger:
    made = Ledger()
    for one in entries:
        made.write(one)
        if counted:
            made.count(one)
    return made


def removes(made: Ledger, *out: MemberId) -> bool:
    return made.is_closed(BOOT, VIEW.context, frozenset(out))


def joins(made: Ledger, *out: MemberId) -> bool:
    return made.is_closed(UNION, PAIR, frozenset(out))


# ---------------------------------------------------------------------------- contexts


def test_a_fault_is_about_the_context_it_names() -> None:
    assert context_of(fault(A, 1, C)) == VIEW.context


def test_a_join_is_about_the_components_announced_with_it() -> None:
    assert context_of(entry(A, 1, Join(()))) == PAIR
    assert context_of(entry(A, 1, Join((B,)))) == context_digest(
        Context(components=(ONE, TWO), failed_before=(B,))
    )


# ---------------------------------------------------------------------------- closed sets


def test_a_set_is_closed_when_all_the_others_have_named_exactly_it() -> None:
    assert not removes(ledger(fault(A, 5, C)), C)
    assert removes(ledger(fault(A, 5, C), fault(B, 7, C)), C)


def test_a_larger_set_does_not_close_a_smaller_one() -> None:
    made = ledger(fault(A, 5, C), fault(B, 7, B, C))
    assert not removes(made, C)
    assert not removes(made, B, C), "a has not named both"


def test_every_set_that_a_member_has_named_is_remembered() -> None:
    """a goes from {c} to {b, c}; that it had named {c} still counts (PROTOCOLS B.2 item 1)."""
    made = ledger(fault(A, 5, C), fault(A, 6, B, C), fault(B, 7, C))
    assert removes(made, C)
    assert removes(made, B, C), "a alone is left"


def test_a_join_is_closed_when_all_have_proposed_it() -> None:
    two = [entry(A, 3, Join(())), entry(B, 4, Join(()))]
    assert not joins(ledger(*two))
    assert joins(ledger(*two, entry(C, 1, Join(()))))


def test_a_set_in_a_join_needs_the_proposals_of_the_rest_and_their_word_on_it() -> None:
    proposals = [entry(A, 3, Join(())), entry(B, 4, Join(()))]
    words = [entry(m, 9, Fault(PAIR, (C,), (C,), True)) for m in (A, B)]
    assert not joins(ledger(*proposals), C)
    assert not joins(ledger(*words), C)
    assert joins(ledger(*proposals, *words), C)


def test_a_proposal_that_leaves_somebody_out_is_for_another_context() -> None:
    made = ledger(entry(A, 3, Join(())), entry(B, 4, Join((C,))), entry(C, 1, Join(())))
    assert not joins(made)


# ---------------------------------------------------------------------------- evidence


def test_what_was_not_counted_closes_nothing() -> None:
    assert not removes(ledger(fault(A, 5, C), fault(B, 7, C), counted=False), C)


def test_a_word_counts_if_it_lies_under_one_that_counts() -> None:
    """b is barred here, and its word came as the past of a's."""
    made = ledger(fault(B, 7, C), counted=False)
    under = fault(A, 5, C, reach={B: 7})
    made.write(under)
    made.count(under)
    assert removes(made, C)


def test_a_word_does_not_count_if_what_counts_ends_before_it() -> None:
    made = ledger(fault(B, 7, C), counted=False)
    above = fault(A, 5, C, reach={B: 6})
    made.write(above)
    made.count(above)
    assert not removes(made, C)


def test_evidence_of_one_context_is_none_for_another() -> None:
    made = ledger(fault(A, 5, C), fault(B, 7, C), counted=False)
    made.count(entry(A, 9, Join(()), reach={B: 9}))
    assert not removes(made, C)


def test_what_closed_a_view_that_somebody_speaks_from_is_adopted() -> None:
    made = ledger(fault(A, 5, C), fault(B, 7, C), counted=False)
    made.adopt(VIEW.context, frozenset({A, B}), frozenset({C}))
    assert removes(made, C)


def test_nothing_is_adopted_that_is_not_here() -> None:
    made = ledger(fault(A, 5, C), counted=False)
    made.adopt(VIEW.context, frozenset({A, B}), frozenset({C}))
    assert not removes(made, C)


def test_proposals_are_adopted_where_nobody_was_found_faulty() -> None:
    made = ledger(*(entry(m, 3, Join(())) for m in (A, B, C)), counted=False)
    made.adopt(PAIR, frozenset({A, B, C}), NOBODY)
    assert joins(made)


# ---------------------------------------------------------------------------- what closed it


def test_the_past_of_a_closed_set_is_that_of_the_frames_that_named_it() -> None:
    made = ledger(fault(A, 5, C, reach={B: 3, C: 9}), fault(B, 7, C, reach={A: 2}))
    made.write(fault(A, 6, B, C, reach={B: 40}))
    assert made.closing(VIEW.context, frozenset({A, B}), frozenset({C})) == {A: 5, B: 7, C: 9}


def test_the_first_frame_that_names_a_set_is_the_one_that_closes_it() -> None:
    made = ledger(fault(A, 5, C), fault(A, 8, C), fault(B, 7, C))
    assert made.closing(VIEW.context, frozenset({A, B}), frozenset({C})) == {A: 5, B: 7}


def test_named_sets_come_small_ones_first_and_each_once() -> None:
    made = ledger(fault(A, 5, B, C), fault(B, 6, C), fault(A, 7, B), fault(C, 8, B))
    assert made.named(VIEW.context) == [frozenset({B}), frozenset({C}), frozenset({B, C})]


def test_who_has_joined_and_who_has_named_can_be_asked() -> None:
    made = ledger(entry(A, 3, Join(())), fault(B, 4, C))
    assert made.has_joined(PAIR, A)
    assert not made.has_joined(PAIR, B)
    assert made.has_named(VIEW.context, B, frozenset({C}))
    assert not made.has_named(VIEW.context, B, frozenset({A, C}))
    assert not made.has_named(VIEW.context, A, frozenset({C}))
    assert made.joins(PAIR) == {A: Join(())}


def test_a_goodbye_names_no_context() -> None:
    made = ledger(entry(A, 3, Leave()), counted=False)
    assert made.named(VIEW.context) == []


# ---------------------------------------------------------------------------- memory


def test_only_the_contexts_that_matter_outlast_a_change() -> None:
    made = ledger(entry(A, 3, Join(())), fault(A, 5, C), fault(B, 7, C))
    made.forget((VIEW.context,))
    assert not made.has_joined(PAIR, A)
    assert removes(made, C)


def test_a_forger_cannot_make_the_contexts_many() -> None:
    made = Ledger()
    for k in range(3 * CONTEXTS_MAX):
        one = entry(D, k + 1, Fault(k.to_bytes(8, "big"), (C,), (C,), False))
        made.write(one)
        made.count(one)
        made.write(entry(D, k + 1, Join(()), components=(Component(ViewId(k, 0, b"d" * 8), (D,)),)))
    stores = (made._joins, made._faults, made._evidence)
    assert all(len(store) <= CONTEXTS_MAX + 1 for store in stores)
