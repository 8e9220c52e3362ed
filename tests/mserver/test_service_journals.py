"""Journals of a service of real processes: what is audited at the end, with kills in between."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.mserver.test_group_processes import HOSTS, WAIT_SECONDS, Campus, wait_for

from phalanx.cli.main import main
from phalanx.journal import service_schema as rows
from phalanx.journal.reader import read_all
from phalanx.journal.schema import Life
from phalanx.pipeline.audit import audit_groups
from phalanx.pipeline.group_tables import read_groups
from phalanx.service.calls.call_errors import NoSuchGroup
from phalanx.verify.service.service_evidence import judge_services

pytestmark = pytest.mark.xdist_group("mserver-processes")
TESTED = ("view-chain", "view-numbers", "set-commit-order", "set-inclusion")
TESTED_BY_ALL = ("set-agreement", "set-view-agreement", "stable-state-truth", "view-origin")


@pytest.fixture
def campus(tmp_path: Path) -> Iterator[Campus]:
    campus = Campus(tmp_path, tmp_path / "journals")
    campus.start_all()
    yield campus
    campus.close()


def stop_all(campus: Campus) -> None:
    for client in campus.clients:
        client.close()
    campus.clients.clear()
    for process in campus.processes.values():
        os.kill(process.pid, signal.SIGTERM)
    for name, process in campus.processes.items():
        process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == 0, name
    campus.processes.clear()


def test_the_audit_holds_after_an_interface_and_servers_were_killed_and_came_back(
    campus: Campus,
) -> None:
    one, two, three = (campus.client(host) for host in HOSTS)
    campus.call(one, "create_group", name="orders")
    for client in (one, two, three):
        campus.call(client, "join_group", name="orders")
    with pytest.raises(NoSuchGroup):
        three.call("get_view", {"group": "nobody"}, 10.0)
    campus.kill(HOSTS[0])
    campus.start(HOSTS[0], "mi")
    campus.kill("s1-2")
    campus.start("s1-2", "mserver")

    def members() -> list[str]:
        found: list[str] = campus.call(three, "get_view", group="orders")["members"]
        return found

    campus.call(two, "join_group", name="orders")
    wait_for(campus.is_whole, campus.complaints)
    assert len(members()) >= 3
    stop_all(campus)

    journals = campus.journals
    assert journals is not None
    found = read_all([journals])
    (evidence,) = judge_services(found)
    assert evidence.report.violated == (), [str(v) for v in evidence.report.violations]
    assert sorted(evidence.unended) == evidence.unended
    assert {life.rpartition(".")[0] for life in evidence.unended} == {HOSTS[0], "s1-2"}
    kinds = {type(row) for row in found.rows}
    assert {rows.GroupViewDelivered, rows.MembershipHeld, Life} <= kinds
    refused = [row for row in found.rows if isinstance(row, rows.CallFailed)]
    assert {row.error for row in refused} >= {"no-such-group(nobody)"}, refused
    for name in (*TESTED, *TESTED_BY_ALL):
        assert evidence.judgement(name).verdict == "holds", evidence.judgement(name)
    assert evidence.judgement("service-rest").verdict == "unverifiable"
    audited = audit_groups(read_groups([journals]))
    assert audited.violated == ()
    verdicts = {name: evidence.judgement(name).verdict for name in evidence.report.properties}
    assert {name: result.verdict for name, result in audited.properties.items()} == verdicts

    shown = CliRunner().invoke(main, ["check", str(journals), "--json"])
    facts: dict[str, Any] = json.loads(shown.stdout)
    assert (shown.exit_code, facts["services"][0]["violated"]) == (0, [])
