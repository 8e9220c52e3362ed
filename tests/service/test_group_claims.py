"""Which history a claim takes up (rule G10)."""

from __future__ import annotations

from phalanx.service.group_claims import longest_history
from phalanx.service.group_views import created, next_view
from phalanx.service.values import ServiceGroup


def chain(group: ServiceGroup, *views: tuple[str, ...], context: bytes = b"x") -> ServiceGroup:
    for members in views:
        group = next_view(group, members, "join", context)
    return group


BASE = chain(created("u", "orders", "top", b""), ("a/1",), ("a/1", "b/1"))


def test_the_longest_history_of_members_without_owner_is_taken() -> None:
    ahead = chain(BASE, ("a/1", "b/1", "b/2"))
    found = longest_history([BASE, ahead], [BASE.view.vid, ahead.view.vid])
    assert found is not None
    assert found.view == ahead.view
    assert found.history == ahead.history
    assert found.admitted == {"a": 1, "b": 2}


def test_a_branch_of_members_that_have_an_owner_is_not_taken() -> None:
    """An interface may hold both branches; it reports the later view on top."""
    stray = chain(BASE, ("a/1",), context=b"stray")
    owned = chain(BASE, ("b/1",), ("b/1", "a/2"), ("a/2",), context=b"owned")
    both = ServiceGroup(
        "u", "orders", "top", owned.view, (*owned.history, stray.view), admitted={"a": 2}
    )
    found = longest_history([both], [stray.view.vid])
    assert found is not None
    assert found.view == stray.view
    assert owned.view not in found.history


def test_nothing_is_claimed_if_nobody_holds_the_last_view() -> None:
    ahead = chain(BASE, ("a/1",))
    assert longest_history([BASE], [ahead.view.vid]) is None
