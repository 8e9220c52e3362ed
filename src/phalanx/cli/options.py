"""Types of command-line values: whole numbers, ranges of them, and output paths."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

SEED_MAX = (1 << 63) - 1
MEMBERS_MAX = 64
JOBS_MAX = 1024


class WholeNumber(click.ParamType[int]):
    """A whole number in plain digits, from `least` to `most`."""

    name = "N"

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        number = _number(str(value))
        if number is None or not self._least <= number <= self._most:
            wanted = f"a whole number from {self._least} to {self._most}"
            self.fail(f"{value!r} is not {wanted}", param, ctx)
        return number


class NumberRange(click.FloatRange):
    """A number between bounds, which `nan` is not."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found: float = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value!r} is not a number", param, ctx)
        return found


class IntRange(click.ParamType[tuple[int, int]]):
    """Two whole numbers as A:B, between `least` and `most`. B may equal A only if `closed`."""

    name = "A:B"

    def __init__(self, least: int, most: int, closed: bool) -> None:
        self._least = least
        self._most = most
        self._closed = closed

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        first, _, last = str(value).partition(":")
        low, high = _number(first), _number(last)
        if low is None or high is None:
            self.fail(f"{value!r} is not A:B, for example 2:8", param, ctx)
        if low < self._least or high > self._most or high < low or (low, self._closed) == (high, 0):
            order = "at most" if self._closed else "below"
            bounds = f"A is at least {self._least} and {order} B, B is at most {self._most}"
            self.fail(f"{value!r}: {bounds}", param, ctx)
        return low, high


def _number(text: str) -> int | None:
    """Plain digits only: neither signs nor underscores nor the digits of other scripts."""
    return int(text) if re.fullmatch("[0-9]{1,30}", text) else None


class CannotWrite(click.ClickException):
    """A file that was asked for cannot be written."""

    exit_code = 2

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}; choose a place that can be written")


def check_places(*paths: str | None) -> None:
    """CannotWrite if one of them can be seen not to be writable, before any work is done."""
    for path in paths:
        if path is not None:
            _check_place(path)


def _check_place(path: str) -> None:
    place = Path(path)
    if place.is_dir():
        raise CannotWrite(path, "it is a directory")
    if place.exists():
        if not os.access(place, os.W_OK):
            raise CannotWrite(path, "it may not be written")
    elif not place.parent.is_dir():
        raise CannotWrite(path, f"{place.parent} is not a directory")
    elif not os.access(place.parent, os.W_OK | os.X_OK):
        raise CannotWrite(path, f"{place.parent} may not be written to")


def write_or_explain(path: str, action: Callable[[], object]) -> None:
    """Do something that writes `path`; if it fails, say so in one line."""
    try:
        action()
    except OSError as error:
        raise CannotWrite(path, error.strerror or str(error)) from None


def own_version() -> str:
    """The version that is installed."""
    try:
        return version("phalanx")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+unknown"
