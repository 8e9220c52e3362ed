"""Lines about settings that must agree and differ, for `phalanx check` and `phalanx audit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

VIEWS_MAX = 3


def settings_lines(
    where: str, settings: Mapping[str, Mapping[str, Sequence[str]]], mixed: Sequence[str]
) -> list[str]:
    """Lines to print before the verdicts: no guarantee holds between members whose settings differ.
    `settings` has the members with each value of each setting, `mixed` the views whose members
    differ; there are no lines if `settings` is empty."""
    if not settings:
        return []
    differing = [
        f"{name} is " + ", ".join(f"{value!r} at {', '.join(who)}" for value, who in values.items())
        for name, values in settings.items()
    ]
    lines = [f"settings differ in {where}: {'; '.join(differing)}; they must agree"]
    if not mixed:
        return [*lines, "  no view has members that differ"]
    views = ", ".join(mixed[:VIEWS_MAX])
    more = len(mixed) - VIEWS_MAX
    views += f" and {more} more" if more > 0 else ""
    text = f"  members that differ were in one view ({views}): the guarantees do not hold there; "
    return [*lines, text + "give all members of the group the same settings"]
