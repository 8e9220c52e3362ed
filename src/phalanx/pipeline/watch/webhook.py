"""Send alerts to a URL: POST of one JSON object for each, from a thread of its own.

The audit never waits for it. Alerts wait in a bounded queue; each is tried a few times with a
time-out, and then dropped and counted.
"""

from __future__ import annotations

import http.client
import queue
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit

from phalanx.errors import PipelineError

QUEUED_MAX = 1000
ATTEMPTS = 3
TIMEOUT_S = 5.0
PAUSE_S = 0.5
"""Before the second attempt; doubled before each further one."""


class Webhook:
    """Sends what it is given, in order. `close` waits for the rest, for a bounded time."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S, pause_s: float = PAUSE_S) -> None:
        """PipelineError for a URL that is not http or https."""
        if not _is_url(url):
            raise PipelineError(f"--webhook {url}", "not a URL of http or https", "give http://...")
        self._url, self._timeout_s, self._pause_s = url, timeout_s, pause_s
        self._queue: queue.Queue[bytes | None] = queue.Queue(QUEUED_MAX)
        self._over = threading.Event()
        self.given = self.sent = self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def send(self, body: bytes) -> None:
        """Never blocks: if too much waits already, the body is dropped."""
        self.given += 1
        try:
            self._queue.put_nowait(body)
        except queue.Full:
            self.dropped += 1

    def close(self, seconds: float = TIMEOUT_S) -> None:
        """Ends after what is queued was sent, or after so many seconds."""
        end = time.monotonic() + seconds
        with suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
        self._thread.join(max(0.0, end - time.monotonic()))
        self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            body = self._queue.get()
            if body is None:
                return
            if self._post(body):
                self.sent += 1
            else:
                self.dropped += 1

    def _post(self, body: bytes) -> bool:
        request = urllib.request.Request(
            self._url, body, {"Content-Type": "application/json"}, method="POST"
        )
        for attempt in range(ATTEMPTS):
            if attempt and self._over.wait(self._pause_s * 2 ** (attempt - 1)):
                return False
            try:
                with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                    answer.read(1)
                return True
            except urllib.error.HTTPError as error:
                if error.code < 500:  # it will not be accepted later either
                    return False
            except (OSError, ValueError, http.client.HTTPException):
                continue
        return False


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port  # ValueError if it is no number of a port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
