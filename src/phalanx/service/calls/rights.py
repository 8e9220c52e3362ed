"""Rights: what a caller may do to a group.

A member has a right if its attribute `right.<name>` is true; if it is false it has not, and
otherwise the group's attribute `default_rights` decides, as it does for callers that are no
members. The right admin includes all others, since an admin could grant itself any. Who created the
group has all rights.
"""

from __future__ import annotations

from collections.abc import Mapping

RIGHTS = ("admin", "join", "attr", "split", "merge", "delete", "send", "read")
RIGHT_PREFIX = "right."
DEFAULT_RIGHTS = "read, join, send"


def has_right(
    right: str,
    group: Mapping[str, str | int | bool],
    member: Mapping[str, str | int | bool] | None,
    *,
    creator: bool = False,
) -> bool:
    """Whether a caller has the right, by the attributes of the group and of the caller's member in
    it (None if it has none)."""
    if creator:
        return True
    own = member or {}
    if own.get(RIGHT_PREFIX + "admin") is True:
        return True
    granted = own.get(RIGHT_PREFIX + right)
    if isinstance(granted, bool):
        return granted
    everyone = group.get("default_rights", DEFAULT_RIGHTS)
    named = everyone.replace(",", " ").split() if isinstance(everyone, str) else []
    return right in named or "admin" in named
