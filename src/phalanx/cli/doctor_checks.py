"""The checks of `phalanx doctor` besides the network: Python, clock, Java."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from phalanx.transport.diagnostics import Diagnosis

PYTHON_LEAST = (3, 11)
JAVA_LEAST = 17
JAVA_SECONDS = 15
_UNSYNCHRONISED = 0x40
_TIME_ERROR = 5


def machine_findings() -> list[Diagnosis]:
    return [python(), clock(clock_state()), java(java_version())]


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Diagnosis:
    text = ".".join(map(str, version))
    if version >= PYTHON_LEAST:
        return Diagnosis("python", "ok", text)
    least = ".".join(map(str, PYTHON_LEAST))
    return Diagnosis("python", "problem", text, f"install Python {least} or newer")


class _Timex(ctypes.Structure):
    """The beginning of Linux's `struct timex`, and space for the rest."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 40),
    ]


def clock_state() -> tuple[bool, int] | None:
    """Whether the clock is synchronised, and its maximum error in microseconds. None if the kernel
    does not report it."""
    if sys.platform != "linux":
        return None
    try:
        ask = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return None
    answer = _Timex()  # modes = 0: read only
    state = ask(ctypes.byref(answer))
    if state < 0:
        return None
    return state != _TIME_ERROR and not answer.status & _UNSYNCHRONISED, int(answer.maxerror)


def clock(state: tuple[bool, int] | None) -> Diagnosis:
    """The protocol never compares the clocks of two machines; readers of journals do."""
    if state is None:
        return Diagnosis("clock", "note", "the kernel does not report whether it is synchronised")
    synchronised, error_us = state
    if synchronised:
        return Diagnosis("clock", "ok", f"synchronised, error at most {error_us / 1000:.1f} ms")
    text = "not synchronised: times in journals of different machines cannot be compared"
    return Diagnosis(
        "clock", "warning", text, "run chrony, systemd-timesyncd or another NTP client"
    )


def java_version() -> str | None:
    """The output of `java -version`; None without Java, empty if it does not answer."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if command is None:
        return None
    try:
        run = [command, "-version"]
        done = subprocess.run(
            run, capture_output=True, text=True, errors="replace", timeout=JAVA_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def java(output: str | None) -> Diagnosis:
    """Only the Spark extra needs Java."""
    remedy = f"for the Spark extra install Java {JAVA_LEAST} or newer"
    if output is None:
        return Diagnosis("java", "note", "not found; only the Spark extra needs it", remedy)
    hit = re.search(r'version "(?:1\.)?(\d+)', output)
    if hit is None:
        return Diagnosis("java", "warning", "its version is unknown", remedy)
    version = int(hit.group(1))
    if version < JAVA_LEAST:
        return Diagnosis("java", "warning", f"version {version} is too old for Spark", remedy)
    return Diagnosis("java", "ok", f"version {version}")
