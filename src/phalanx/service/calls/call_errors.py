"""Named errors of the calls: what a call was refused for.

    ServiceError
    ├── NoSuchGroup         no-such-group      no group has the name or uid in the scope
    ├── NoSuchMember        no-such-member     the group has no such member
    ├── NameTaken           name-in-use        another group has the name in the scope (S3 II.B.2)
    ├── UnknownView         unknown-view       the view is not in the history that is kept
    ├── Denied              denied             the caller lacks a right
    ├── BadArgument         bad-argument       an argument of the wrong type or form (a ValueError)
    │   └── BadRule         bad-rule           a partition rule that cannot be parsed
    ├── BadScope            bad-scope          the scope does not fit the group's name or span
    ├── BadLevel            bad-level          the hierarchy has no such level
    ├── OutOfScope          out-of-scope       a join from outside the membership scope (S3 II.B.3)
    ├── ScopeMismatch       scope-mismatch     two groups of different scopes cannot merge
    ├── NotWhole            not-whole          members could not be reached for too long
    ├── NoMatch             no-match           the selector matches no member
    ├── TooLarge            too-large          attributes or a body above the limit
    └── Unavailable         unavailable        no answer in time (a TimeoutError)

The wire carries the name (`code`) and the text of `detail`; `error_from_wire` makes the exception
again. A code that this version does not know becomes a plain ServiceError, so that newer servers
can have more errors than older clients.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.errors import PhalanxError


class ServiceError(PhalanxError):
    """A call of the membership service that was refused. `code` is the name on the wire, `detail`
    names the field, the right or the object that the refusal is about."""

    code: ClassVar[str] = "error"
    remedy: ClassVar[str] = "see the documentation of the call"

    def __init__(self, detail: str = "") -> None:
        super().__init__(f"{self.code}({detail}): {self.remedy}" if detail else self._bare())
        self.detail = detail

    def _bare(self) -> str:
        return f"{self.code}: {self.remedy}"


class UnknownError(ServiceError):
    """A refusal whose name this version does not know."""

    def __init__(self, name: str, detail: str) -> None:
        PhalanxError.__init__(self, f"{name}({detail}): unknown to this version of the client")
        self.name = name
        self.detail = detail


class NoSuchGroup(ServiceError):
    code = "no-such-group"
    remedy = "check the name and the scope; create_group creates one"


class NoSuchMember(ServiceError):
    code = "no-such-member"
    remedy = "get_view lists the members of the group"


class NameTaken(ServiceError):
    code = "name-in-use"
    remedy = "choose another name or another scope"


class UnknownView(ServiceError):
    code = "unknown-view"
    remedy = "only the last 256 views are kept; leave the view out for the current one"


class Denied(ServiceError):
    """`detail` is the right that the caller lacks."""

    code = "denied"
    remedy = "a member with the right admin can grant it with set_member_attributes"


class BadArgument(ServiceError, ValueError):
    """`detail` is the name of the argument, and what it must be."""

    code = "bad-argument"
    remedy = "correct the argument"


class BadRule(BadArgument):
    """A partition rule with an error. `line` and `column` count from 1; both are 0 if the error
    came over the wire."""

    code = "bad-rule"
    remedy = "phalanx ms rules check shows what is expected"

    def __init__(
        self, detail: str = "", line: int = 0, column: int = 0, expected: tuple[str, ...] = ()
    ) -> None:
        place = f"{line}:{column}: " if line else ""
        PhalanxError.__init__(self, f"{self.code}: {place}{detail or self.remedy}")
        self.detail = f"{place}{detail}"
        self.problem = detail
        self.line = line
        self.column = column
        self.expected = expected


class BadScope(ServiceError):
    code = "bad-scope"
    remedy = "the scope must be a set above all members, and no narrower than the membership scope"


class BadLevel(ServiceError):
    code = "bad-level"
    remedy = "phalanx ms tree shows the levels of the hierarchy"


class OutOfScope(ServiceError):
    code = "out-of-scope"
    remedy = "join from below the membership scope; a subgroup admits members of its parent"


class ScopeMismatch(ServiceError):
    code = "scope-mismatch"
    remedy = "give both groups one scope with set_group_attributes first"


class NotWhole(ServiceError):
    code = "not-whole"
    remedy = "some members could not be reached; repeat the call later"


class NoMatch(ServiceError):
    code = "no-match"
    remedy = "the selector matches no member; get_list shows what it matches"


class TooLarge(ServiceError):
    code = "too-large"
    remedy = "shorten the value"


class Unavailable(ServiceError, TimeoutError):
    """No answer in time. The call may still be carried out; a repetition with the same request id
    is carried out once."""

    code = "unavailable"
    remedy = "the service could not answer in time; repeat the call"


ERRORS: dict[str, type[ServiceError]] = {
    kind.code: kind
    for kind in (
        NoSuchGroup,
        NoSuchMember,
        NameTaken,
        UnknownView,
        Denied,
        BadArgument,
        BadRule,
        BadScope,
        BadLevel,
        OutOfScope,
        ScopeMismatch,
        NotWhole,
        NoMatch,
        TooLarge,
        Unavailable,
    )
}
"""The error of each name on the wire."""


def error_from_wire(code: str, detail: str) -> ServiceError:
    """The exception for a refusal that arrived as name and detail."""
    kind = ERRORS.get(code)
    return kind(detail) if kind is not None else UnknownError(code, detail)
