"""Views that a member has been in, or whose members it has merged with (rule N).

A component in this history is never live again in a proposal of the member: its members need a new
view first. The newest few hundred views are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.core.ids import ViewId

VIEWS_MAX = 256


class ViewHistory:
    __slots__ = ("_views",)

    def __init__(self, view: ViewId) -> None:
        self._views: dict[ViewId, None] = {view: None}

    def __contains__(self, view: object) -> bool:
        return view in self._views

    def add(self, views: Iterable[ViewId]) -> None:
        for view in views:
            self._views[view] = None
        while len(self._views) > VIEWS_MAX:
            del self._views[next(iter(self._views))]
