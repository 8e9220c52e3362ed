"""Every trace that the tests of single points put to the checkers, collected by running them.

The tests build their traces in place, next to the claim. They are loaded as files and run with a
`check` that records its arguments, so that the audit can be asked about the same traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.verify.trace_builder import TraceBuilder

from phalanx.journal.schema import Event
from phalanx.verify.checkers import Report, check

FILES = ("test_checkers_messages.py", "test_checkers_views.py")
Collected = tuple[list[Event], bool, dict[str, Any]]
"""Rows, whether the run settled, and the other arguments of `check`."""


def collected(patch: pytest.MonkeyPatch) -> list[Collected]:
    found: list[Collected] = []

    def of_trace(trace: TraceBuilder, settled: bool = True, **known: Any) -> Report:
        found.append((trace.rows, settled, known))
        return check(trace.rows, expect_liveness=settled, **known)

    def of_rows(rows: list[Event], *, expect_liveness: bool, **known: Any) -> Report:
        found.append((rows, expect_liveness, known))
        return check(rows, expect_liveness=expect_liveness, **known)

    patch.setattr(TraceBuilder, "check", of_trace)
    for name in FILES:
        module = _load(Path(__file__).with_name(name))
        if hasattr(module, "check"):
            patch.setattr(module, "check", of_rows)
        for test, arguments in _tests(module):
            test(**arguments)
    patch.undo()
    return found


def _load(file: Path) -> ModuleType:
    spec = spec_from_file_location(f"collected_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _tests(module: ModuleType) -> Iterator[tuple[Callable[..., None], dict[str, Any]]]:
    """Each test with each choice of its parameters."""
    for name, test in vars(module).items():
        if not name.startswith("test_"):
            continue
        choices = []
        for mark in getattr(test, "pytestmark", []):
            names, values = mark.args[:2]
            names = [n.strip() for n in names.split(",")] if isinstance(names, str) else names
            choices.append([_named(names, value) for value in values])
        for chosen in product(*choices):
            yield test, {name: value for given in chosen for name, value in given.items()}


def _named(names: list[str], value: Any) -> dict[str, Any]:
    values = getattr(value, "values", value)
    return dict(zip(names, values if len(names) > 1 else [values], strict=True))
