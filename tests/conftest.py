"""What holds for all tests."""

from __future__ import annotations

import signal
import threading


def pytest_configure() -> None:
    """Interrupts reach the programs that tests start, also where the tests were started in the
    background: a shell has them ignored there, and whoever is started inherits that."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
