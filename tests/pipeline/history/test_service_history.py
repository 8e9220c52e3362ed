"""What happened to groups of a service, from its journals; and a rule tried on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.verify.service.small_service import header, small_service

from phalanx.cli.main import main
from phalanx.journal.blocks import rows_block
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline.group_tables import groups_of_rows
from phalanx.pipeline.history.service_history import service_history


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    for (name, life), found in small_service().items():
        file = SegmentFile(tmp_path, header(name, life, {}))
        file.append(rows_block(found), found)
        file.seal()
    return tmp_path


def test_each_view_is_there_once_with_who_joined() -> None:
    known = [(header(name, life, {}), some) for (name, life), some in small_service().items()]
    (tables,) = groups_of_rows(known)
    events = service_history("x", tables)
    assert [(e.kind, e.vid, e.joined) for e in events] == [
        ("VIEW", "1:11", ["m/1", "n/1"]),
        ("VIEW", "2:22", ["m/1", "n/1"]),
    ]
    assert service_history("nobody", tables) == []


def test_the_command_prints_views_of_a_folder_of_journals(journals: Path) -> None:
    shown = CliRunner().invoke(main, ["history", "service", str(journals), "--group", "g"])
    assert shown.exit_code == 0
    assert "view 1:11 in S: 2 members (join) +m/1 +n/1" in shown.output


def test_a_rule_is_tried_on_a_folder_of_journals(journals: Path) -> None:
    words = ["ms", "rules", "replay", str(journals), "--rule", "size >= 2", "--all", "--json"]
    shown = CliRunner().invoke(main, words)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(row["vid"], row["holds"]) for row in rows] == [("1:11", True), ("2:22", True)]
    assert shown.exit_code == 0
