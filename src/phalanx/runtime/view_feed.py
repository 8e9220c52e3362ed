"""View feeds: views from the event loop's thread to callers that wait for one of them.

A feed gets the view that is installed when it is opened and every later one, so that its caller
does not miss a view that is soon replaced. The caller takes them in its own thread. It closes the
feed when it has found its view: a feed that stays open is kept until the member leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from phalanx.runtime.events import View


class ViewFeed:
    """Views for one caller. One thread puts, one takes."""

    def __init__(self) -> None:
        self._views: deque[View] = deque()
        self._call: Callable[[], None] | None = None
        self.ended = False
        """The member has stopped: no view follows those that wait here."""

    def put(self, view: View) -> None:
        self._views.append(view)
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    def take(self) -> View | None:
        """The next view; None if there is none yet."""
        return self._views.popleft() if self._views else None

    def when_put(self, call: Callable[[], None]) -> None:
        """Call once, from any thread, as soon as `take` has a view or the member has stopped."""
        self._call = call
        if self._views or self.ended:  # it may have come since the assignment
            self._wake()

    def _wake(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class ViewFeeds:
    """The open feeds of one member. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._feeds: list[ViewFeed] = []
        self._ended = False

    def __len__(self) -> int:
        return len(self._feeds)

    def add(self, feed: ViewFeed, view: View) -> None:
        """Open a feed; `view` is the one that is installed."""
        if self._ended:
            feed.end()
        else:
            self._feeds.append(feed)
            feed.put(view)

    def remove(self, feed: ViewFeed) -> None:
        if feed in self._feeds:
            self._feeds.remove(feed)

    def put(self, view: View) -> None:
        for feed in self._feeds:
            feed.put(view)

    def end(self) -> None:
        self._ended = True
        for feed in self._feeds:
            feed.end()
        self._feeds.clear()
