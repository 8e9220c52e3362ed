"""Callers in other threads that wait for a condition of a member."""

from __future__ import annotations

from collections.abc import Callable


class ConditionWatchers:
    """Calls back, once, each caller whose condition has become true. Belongs to the event loop's
    thread, which checks the conditions after each step."""

    def __init__(self) -> None:
        self._watchers: list[tuple[Callable[[], bool], Callable[[], None]]] = []

    def __len__(self) -> int:
        return len(self._watchers)

    def add(self, condition: Callable[[], bool], call: Callable[[], None]) -> None:
        if condition():
            call()
        else:
            self._watchers.append((condition, call))

    def remove(self, call: Callable[[], None]) -> None:
        """The caller no longer waits."""
        self._watchers = [watcher for watcher in self._watchers if watcher[1] != call]

    def check(self) -> None:
        if not self._watchers:
            return
        ready = [watcher for watcher in self._watchers if watcher[0]()]
        if ready:
            self._watchers = [watcher for watcher in self._watchers if watcher not in ready]
            for _, call in ready:
                call()

    def call_all(self) -> None:
        """Call back everybody: the member has stopped and no condition changes any more."""
        watchers, self._watchers = self._watchers, []
        for _, call in watchers:
            call()
