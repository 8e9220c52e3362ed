"""Alerts: what raises and clears each kind, thresholds, the webhook, and the metrics file."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.live_groups import until
from tests.pipeline.made import Hand, write_journal

from phalanx.errors import PipelineError
from phalanx.journal import schema as ev
from phalanx.pipeline.audit.view_stays import ViewStay
from phalanx.pipeline.group_tables import GroupKey
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.segment_stats import facts_of
from phalanx.pipeline.watch.alerts import (
    ActiveAlerts,
    Alert,
    Measured,
    Thresholds,
    gaps,
    load_thresholds,
    measured,
    of_measures,
    silent_members,
)
from phalanx.pipeline.watch.open_metrics import MetricFamily, rendered, write_metrics
from phalanx.pipeline.watch.unit_audit import LakeGroup, group_key
from phalanx.pipeline.watch.webhook import ATTEMPTS, Webhook

KEY = GroupKey("c", "r", "g")


def alert(subject: str = "ada.1", kind: Any = "gap") -> Alert:
    return Alert(kind=kind, cluster="c", run="r", group="g", subject=subject, text="...")


def stay(label: str, members: str, removals: int) -> ViewStay:
    return ViewStay(
        journal=label,
        lseq=removals + 1,
        step=1,
        own_ns=0,
        view=f"v{removals}",
        previous=None,
        joins=0,
        removals=removals,
        members=frozenset(members.split()),
        components=(),
    )


# ---------------------------------------------------------------------------- what raises them


def test_an_alert_is_raised_once_and_cleared_once() -> None:
    active = ActiveAlerts()
    events = [
        [change.event for change in active.update(found, ["gap"])]
        for found in ([alert()], [alert()], [], [])
    ]
    assert events == [["raised"], [], ["cleared"], []]


def test_alerts_of_other_kinds_are_left_alone() -> None:
    active = ActiveAlerts()
    active.update([alert()], ["gap"])
    assert active.update([], ["latency"]) == []


def test_a_silent_member_raises_an_alert_unless_others_removed_it() -> None:
    silence = {"ada.1": 0.0, "bea.1": 70.0}
    together = {"ada.1": stay("ada.1", "ada.1 bea.1", 0), "bea.1": stay("bea.1", "ada.1 bea.1", 0)}
    (found,) = silent_members(KEY, together, silence, 60)
    assert (found.kind, found.subject, found.value) == ("silent-member", "bea.1", 70.0)
    apart = together | {"ada.1": stay("ada.1", "ada.1", 1)}
    assert list(silent_members(KEY, apart, silence, 60)) == []
    assert list(silent_members(KEY, together, silence, 0)) == [], "0 turns it off"


def test_missing_rows_raise_an_alert() -> None:
    hand = Hand("ada.1").life(0, "START").life(1, "STOP")
    facts = facts_of(*hand.journal)
    assert list(gaps(KEY, [facts])) == []
    (found,) = gaps(KEY, [msgspec.structs.replace(facts, torn=1, last=9)])
    assert (found.subject, found.value) == ("ada.1", 7)


def test_measures_over_their_thresholds_raise_alerts() -> None:
    found = Measured(
        {("AGREED", "OTHERS"): 30_000_000, ("SAFE", "SELF"): 90_000_000},
        {"ada.1>bea.1": 0.2},
        {"ada.1": 12.0},
    )
    limits = Thresholds(p99_ms={"AGREED": 20}, loss=0.1, view_changes=10)
    kinds = {(a.kind, a.subject) for a in of_measures(KEY, found, limits)}
    agreed = ("latency", "AGREED/OTHERS")
    assert kinds == {agreed, ("loss", "ada.1>bea.1"), ("view-changes", "ada.1")}
    assert list(of_measures(KEY, found, Thresholds())) == []
    one = {a.subject for a in of_measures(KEY, found, Thresholds(p99_ms=50.0))}
    assert one == {"SAFE/SELF"}


def test_latency_loss_and_view_changes_are_measured_in_the_last_seconds(tmp_path: Path) -> None:
    hand = Hand("ada.1", group="orders")
    for nth in range(4):  # three of them long ago
        hand.view((0, 1, 2, 100_000)[nth], f"v{nth}", "ada.1", removals=nth)
    hand.submit(100_001, 1, 1, 10, "AGREED").deliver(100_021, "ada.1", 1, 1, "AGREED")
    counts = {"frames": 80, "missed": 20, "asked": 1, "repeated": 0}
    hand.put(100_030, ev.LinkStats, peer="bea", peer_incarnation=1, view="v3", **counts)
    write_journal(tmp_path / "journals", hand.journal)
    ingest([tmp_path / "journals"], tmp_path / "lake")
    snapshot = Lake(tmp_path / "lake").snapshot()
    (facts,) = snapshot.journals()
    group = LakeGroup(snapshot, group_key(facts), [facts])
    found = measured(group, Thresholds(window=60, loss=0.1, p99_ms=1.0, view_changes=1))
    assert found.view_changes == {"ada.1": 1.0}
    assert found.loss == {"bea.1>ada.1": 0.25}
    assert found.p99_ns == {("AGREED", "SELF"): 20_000_000}


# ---------------------------------------------------------------------------- thresholds


def test_thresholds_are_read_from_toml(tmp_path: Path) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text("[alerts]\nsilent = 5\nview-changes = 3\n[alerts.p99-ms]\nAGREED = 50\n")
    found = load_thresholds(file)
    assert (found.silent, found.view_changes, found.p99_of("AGREED")) == (5.0, 3.0, 50.0)
    assert found.p99_of("SAFE") == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "alerts = 3",
        "[alerts]\nquiet = 1",
        "[other]",
        "[alerts]\nsilent = 'x'",
        "[alerts]\nloss = 2",
        "[alerts]\nwindow = 0",
        "[alerts]\nwindow = nan",
        "[alerts]\nwindow = inf",
        "[alerts]\nwindow = 1e300",
        "[alerts]\nsilent = nan",
        "[alerts]\np99-ms = -1",
        "[alerts.p99-ms]\nFAST = 1",
        "not toml",
    ],
)
def test_a_wrong_file_of_thresholds_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text(text)
    with pytest.raises(PipelineError, match=re.escape(str(file))):
        load_thresholds(file)


# ---------------------------------------------------------------------------- webhook


class Receiver:
    """An HTTP server on this machine that answers with the given codes, then 200."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.answers: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = receiver.answers.pop(0) if receiver.answers else 200
                receiver.bodies.append((code, json.loads(body)))
                self.send_response(code)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alerts"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


def test_a_webhook_gets_each_alert_in_order(receiver: Receiver) -> None:
    hook = Webhook(receiver.url)
    for number in range(5):
        hook.send(json.dumps(number).encode())
    hook.close()
    assert receiver.bodies == [(200, number) for number in range(5)]
    assert (hook.sent, hook.dropped) == (5, 0)


def test_a_webhook_tries_again_a_few_times(receiver: Receiver) -> None:
    receiver.answers = [503, 503, 200, *[500] * ATTEMPTS, 404]
    hook = Webhook(receiver.url, pause_s=0.01)
    for number in range(3):
        hook.send(json.dumps(number).encode())
    hook.close()
    codes = [code for code, _ in receiver.bodies]
    assert codes == [503, 503, 200, 500, 500, 500, 404]
    assert (hook.sent, hook.dropped) == (1, 2)


def test_an_answer_that_is_not_http_does_not_end_the_webhook() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        hook = Webhook(f"http://127.0.0.1:{server.getsockname()[1]}/", pause_s=0.01)
        for number in range(2):
            hook.send(str(number).encode())
        bodies = []
        for _ in range(2 * ATTEMPTS):
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as request:
                while request.readline().strip():
                    pass
                bodies.append(request.read(1))
                connection.sendall(b"what is this?\r\n\r\n")
        hook.close()
    assert bodies == [b"0"] * ATTEMPTS + [b"1"] * ATTEMPTS
    assert (hook.given, hook.sent, hook.dropped) == (2, 0, 2)


def test_a_webhook_that_nobody_answers_does_not_block() -> None:
    hook = Webhook("http://127.0.0.1:9/", timeout_s=0.2, pause_s=0.01)
    for number in range(3000):
        hook.send(str(number).encode())
    assert hook.dropped >= 1000, "more than the queue holds is dropped at once"
    hook.close(0.1)


@pytest.mark.parametrize(
    "url", ["ftp://x/", "nonsense", "http://", "http://[x", "http://x:port/", "http://:80/"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(PipelineError, match="webhook"):
        Webhook(url)


# ---------------------------------------------------------------------------- OpenMetrics


SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{(?P<labels>[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*"'
    r'(?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*")*)\})? '
    r"(?P<value>-?[0-9.]+(?:e[+-]?[0-9]+)?)"
)


def check_open_metrics(text: str) -> dict[str, int]:
    """The rules of the format that matter here: families in one piece, TYPE first, known names,
    `_total` for counters only, EOF last. Returns how many samples each family has."""
    assert text.endswith("# EOF\n")
    *lines, eof = text[:-1].split("\n")
    assert eof == "# EOF"
    found: dict[str, int] = {}
    name = kind = ""
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(set(samples)) == len(samples), "a sample comes once"
    for line in lines:
        if typed := re.fullmatch(r"# TYPE ([a-z_0-9]+) (gauge|counter)", line):
            name, kind = typed.groups()
            assert name not in found, "a family comes once"
            found[name] = 0
        elif line.startswith("# HELP "):
            assert line.startswith(f"# HELP {name} ")
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample["name"] == name + ("_total" if kind == "counter" else ""), line
            found[name] += 1
    return found


def test_metrics_are_in_the_open_metrics_format(tmp_path: Path) -> None:
    odd = {"group": 'a "b"\\c\nd', "kind": "gap"}
    families = [
        MetricFamily("phalanx_alert", "gauge", "Alerts.", [(odd, 1.0), ({}, 0.25)]),
        MetricFamily("phalanx_rows", "counter", "Rows.", [({}, 12.0)]),
    ]
    assert check_open_metrics(rendered(families)) == {"phalanx_alert": 2, "phalanx_rows": 1}
    write_metrics(tmp_path / "metrics.txt", families)
    assert (tmp_path / "metrics.txt").read_text() == rendered(families)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.txt"]


def test_a_check_of_the_format_can_fail() -> None:
    twice = '# TYPE x gauge\nx{a="b"} 1\nx{a="b"} 2\n# EOF\n'
    for wrong in (twice, "x 1\n# EOF\n", "# TYPE x counter\nx 1\n# EOF\n", "# TYPE x gauge\nx 1\n"):
        with pytest.raises(AssertionError):
            check_open_metrics(wrong)


def test_metrics_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be written"):
        write_metrics(tmp_path / "missing" / "metrics.txt", [])


def test_the_thread_of_a_webhook_ends(receiver: Receiver) -> None:
    hook = Webhook(receiver.url)
    hook.close()
    assert until(lambda: not any(t.name == "webhook" for t in threading.enumerate()))
