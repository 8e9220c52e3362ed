"""The conditions of `wait_for`: conditions on the members of a view.

    members=3                       at least three members
    members="ada"                   the member with this name
    members=["ada", bea.me]         all of these; a MemberId means that incarnation only
    members=lambda view: ...        views for which this function returns true
    majority_of=5                   more than half of five members
    majority_of=["ada", "bea", ...] more than half of these
    gone="cyd", gone=["cyd", ...]   none of these

All given conditions must hold. They are tested in the thread or task of the caller, so an exception
of the function reaches the caller.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from phalanx.core.ids import MEMBERS_MAX, MemberId
from phalanx.errors import ConfigurationError
from phalanx.runtime.events import View
from phalanx.runtime.identity import NAME_REMEDY

Named = str | MemberId | Iterable[str | MemberId]
Wanted = int | Named | Callable[[View], bool]

SHOWN_MAX = 200
_REMEDY = "give a number of members, a name, names, or a function of the view"
_NAMES_REMEDY = "give a member's name or MemberId, or an iterable of them"


class ViewCondition:
    """A condition on a view. Raises ConfigurationError for a condition that no view can meet."""

    def __init__(
        self,
        members: Wanted | None = None,
        majority_of: int | Named | None = None,
        gone: Named | None = None,
        me: MemberId | None = None,
    ) -> None:
        """`me` is the member that waits: it is in all of its views."""
        if members is None and majority_of is None and gone is None:
            raise ConfigurationError("members", None, f"{_REMEDY}; or give majority_of or gone")
        # A generator can be read once: keep its items, for the tests and for the message.
        members, majority_of, gone = map(_kept, (members, majority_of, gone))
        self._tests: list[Callable[[View], bool]] = []
        words: list[str] = []
        if members is not None:
            self._tests.append(_members_test(members))
            words.append(f"members = {_shown(members)}")
        if majority_of is not None:
            self._tests.append(_majority_test(majority_of))
            words.append(f"majority_of = {_shown(majority_of)}")
        if gone is not None:
            self._tests.append(_gone_test(gone))
            words.append(f"gone = {_shown(gone)}")
            _check_gone(members, majority_of, gone, me)
        self.text = f"a view with {', '.join(words)}"
        """The condition in words, for error messages."""

    def fits(self, view: View) -> bool:
        """Whether all conditions hold. Raises what the caller's function raises."""
        return all(test(view) for test in self._tests)


def _members_test(members: Wanted) -> Callable[[View], bool]:
    if callable(members) and not isinstance(members, str | MemberId):
        return _predicate(members)
    count = _count("members", members)
    if count is not None:
        return lambda view: len(view.members) >= count
    wanted = _names("members", members, _REMEDY)
    ids = [name for name in wanted if isinstance(name, MemberId)]
    if len({member.name for member in ids}) < len(ids):
        raise ConfigurationError("members", members, "a view holds one incarnation of a name")
    return lambda view: wanted <= _present(view)


def _majority_test(majority_of: int | Named) -> Callable[[View], bool]:
    count = _count("majority_of", majority_of)
    if count is not None:
        return lambda view: 2 * len(view.members) > count
    electorate = _names("majority_of", majority_of, "give a number of members, or names")
    return lambda view: 2 * len(electorate & _present(view)) > len(electorate)


def _gone_test(gone: Named) -> Callable[[View], bool]:
    names = _names("gone", gone, _NAMES_REMEDY)
    return lambda view: not names & _present(view)


def _check_gone(
    members: Wanted | None, majority_of: int | Named | None, gone: Named, me: MemberId | None
) -> None:
    """Raises ConfigurationError if a member must be in the view and must not."""
    out = _names("gone", gone, _NAMES_REMEDY)
    if me is not None and _holds(out, me):
        raise ConfigurationError("gone", gone, "this member is in all of its views: name others")
    if _is_named(members):
        for name in _names("members", members, _REMEDY):
            if _holds(out, name):
                raise ConfigurationError("gone", gone, f"{name} is one of `members`: name others")
    if _is_named(majority_of):
        electorate = _names("majority_of", majority_of, _NAMES_REMEDY)
        left = [name for name in electorate if not _holds(out, name)]
        if 2 * len(left) <= len(electorate):
            remedy = "leaves no majority of `majority_of`: name fewer"
            raise ConfigurationError("gone", gone, remedy)


def _is_named(value: object) -> bool:
    """Whether a condition names members, in place of a number or a function."""
    return isinstance(value, str | MemberId | Iterable) and not callable(value)


def _holds(names: frozenset[str | MemberId], member: str | MemberId) -> bool:
    """Whether a view without these cannot have the member."""
    return member in names or (isinstance(member, MemberId) and member.name in names)


def _predicate(members: Callable[[View], bool]) -> Callable[[View], bool]:
    def test(view: View) -> bool:
        answer: object = members(view)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise ConfigurationError("members", members, "the function must not be async")
        return bool(answer)

    return test


def _count(field: str, value: object) -> int | None:
    """The value as a number of members; None if it is not a number."""
    if isinstance(value, bool):
        raise ConfigurationError(field, value, _REMEDY)
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    if not 1 <= count <= MEMBERS_MAX:
        raise ConfigurationError(field, value, f"must lie in 1..{MEMBERS_MAX}")
    return count


def _names(field: str, value: object, remedy: str) -> frozenset[str | MemberId]:
    """Names and ids. Raises ConfigurationError for a name that no member can have."""
    if isinstance(value, str | MemberId):
        value = (value,)
    if not isinstance(value, Iterable):
        raise ConfigurationError(field, value, remedy)
    out: list[str | MemberId] = []
    for name in value:
        if isinstance(name, str):
            out.append(_checked_name(field, name))
        elif isinstance(name, MemberId):
            out.append(name)
        else:
            raise ConfigurationError(field, name, "a member is named by a str or a MemberId")
    if not out:
        raise ConfigurationError(field, value, "name at least one member")
    return frozenset(out)


def _checked_name(field: str, name: str) -> str:
    try:
        return MemberId(name).name
    except ValueError:
        raise ConfigurationError(field, name, NAME_REMEDY) from None


def _present(view: View) -> frozenset[str | MemberId]:
    return frozenset(view.members) | {member.name for member in view.members}


def _kept(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) else value


def _shown(value: object) -> str:
    name = getattr(value, "__qualname__", None) if callable(value) else None
    return name if isinstance(name, str) else f"{value!r:.{SHOWN_MAX}}"
