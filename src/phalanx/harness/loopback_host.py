"""Addresses of the loopback interface for members that need one each."""

from __future__ import annotations

import os


def loopback_host(i: int) -> str:
    """An address for member `i` of this process's group, which no group of another process on this
    machine has. All of 127.0.0.0/8 is this machine on Linux."""
    assert 0 <= i < 250
    pid = os.getpid()
    return f"127.{1 + pid % 250}.{1 + pid // 250 % 250}.{i + 1}"
