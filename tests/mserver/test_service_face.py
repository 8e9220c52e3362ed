"""`phalanx.service` as applications import it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import phalanx.service
from phalanx.mserver import asyncio_client, blocking_client
from phalanx.mserver.call_method import with_selectors_as_text
from phalanx.service import Condition
from phalanx.service.calls.call_errors import ERRORS

if TYPE_CHECKING:
    from tests.mserver.conftest import Host, Scenario

    Run = Callable[[Scenario], None]

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "service.py"


def test_the_face_has_both_clients_and_all_errors() -> None:
    assert phalanx.service.connect is asyncio_client.connect
    assert phalanx.service.connect_blocking is blocking_client.connect_blocking
    for name in phalanx.service.__all__:
        assert getattr(phalanx.service, name) is not None
    assert {kind.__name__ for kind in ERRORS.values()} <= set(phalanx.service.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        phalanx.service.nothing  # noqa: B018


def test_a_machine_of_the_service_imports_no_client() -> None:
    program = (
        "import sys, phalanx.service.server_machine, phalanx.service.member_interface\n"
        "print([name for name in sys.modules if name.startswith('phalanx.mserver')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_selector_may_be_given_as_conditions() -> None:
    tier, role = Condition("tier", "<=", 2), Condition("role", "=", 'd"b')
    given = {"group": "orders", "selector": [tier, role], "by": tier}
    assert with_selectors_as_text(given) == {
        "group": "orders",
        "selector": 'tier <= 2, role = "d\\"b"',
        "by": "tier <= 2",
    }
    assert with_selectors_as_text({"selector": "tier = 1"}) == {"selector": "tier = 1"}
    assert with_selectors_as_text({"selector": [tier, 3]}) == {"selector": [tier, 3]}


def test_the_example_joins_a_group_and_prints_its_views(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        program = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE), host.place, stdout=asyncio.subprocess.PIPE
        )
        assert program.stdout is not None
        try:
            async with asyncio.timeout(30):
                lines = [await program.stdout.readline() for _ in range(2)]
        finally:
            program.kill()
            await program.wait()
        assert lines == [b"joined as h/1\n", b"view h/1\n"]

    on_a_host(scenario)
