"""What holds for all tests."""

from __future__ import annotations

import signal
import threading

from hypothesis import settings


def pytest_configure() -> None:
    """Interrupts reach the programs that tests start, also where the tests were started in the
    background: a shell has them ignored there, and programs inherit that."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The time that an example takes depends on what else the machine does.
    settings.register_profile("busy machine", deadline=None)
    settings.load_profile("busy machine")
