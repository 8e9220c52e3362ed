"""`phalanx watch`: ingest and audit journals continuously, with alerts."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from phalanx.cli.options import NumberRange, check_places
from phalanx.runtime.short_names import of_labels
from phalanx.text import one_line

if TYPE_CHECKING:
    from phalanx.pipeline.watch.alerts import Thresholds
    from phalanx.pipeline.watch.watcher import Watcher, WatchEvent
    from phalanx.pipeline.watch.webhook import Webhook

ALERTED = 4
"""The exit code of --fail-on-alert."""
_SECONDS = NumberRange(min=0, max=1e9)


@click.command("watch")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--into", metavar="LAKE", help="Ingest the journals in PATHS into this lake.")
@click.option("--once", is_flag=True, help="One trigger; exit 1 if a view is violated.")
@click.option(
    "--every",
    type=_SECONDS,
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="From the beginning of one trigger to that of the next.",
)
@click.option("--for", "duration", type=_SECONDS, metavar="SECONDS", help="End after this time.")
@click.option(
    "--grace",
    type=_SECONDS,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Judge a view without members that wrote no rows for this long; again when they do.",
)
@click.option(
    "--open-every",
    type=_SECONDS,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Judge views that are still open this often; 0: only when they close.",
)
@click.option("--alerts", metavar="FILE", help="Thresholds of alerts, a TOML file.")
@click.option("--silent", type=_SECONDS, metavar="SECONDS", help="Alert: no rows of a member.")
@click.option(
    "--view-changes", type=_SECONDS, metavar="N", help="Alert: views in a minute at a member."
)
@click.option("--p99-ms", type=_SECONDS, metavar="MS", help="Alert: 99th percentile of a service.")
@click.option(
    "--loss", type=NumberRange(0, 1), metavar="SHARE", help="Alert: share of lost frames of a link."
)
@click.option("--webhook", metavar="URL", help="POST each alert to this URL as JSON.")
@click.option("--metrics", metavar="FILE", help="Write OpenMetrics to this file.")
@click.option(
    "--fail-on-alert", is_flag=True, help="Exit 4 if there was an alert but no violation."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def watch(
    paths: tuple[str, ...],
    into: str | None,
    once: bool,
    every: float,
    duration: float | None,
    grace: float,
    open_every: float,
    alerts: str | None,
    silent: float | None,
    view_changes: float | None,
    p99_ms: float | None,
    loss: float | None,
    webhook: str | None,
    metrics: str | None,
    fail_on_alert: bool,
    as_json: bool,
) -> None:
    """Ingest the journals in PATHS and judge each view when it closes.

    With --into, PATHS are journals, as for `phalanx ingest`; without it, PATHS is one lake that
    others ingest into. A view is closed when each of its members left it or stopped. Verdicts go to
    the tables `verdicts` and `findings` of the lake, one row for each view, and replace former ones
    when rows arrive late. Killed at any moment, it goes on where it was.

    Exit 0 at the end of --once or --for or after SIGINT or SIGTERM, 1 if this run found a
    violation, 4 with --fail-on-alert if it raised another alert, 2 for bad input, 3 for an error of
    its own.

    \b
    Example:
      phalanx watch journals/ --into lake/
      phalanx watch lake/ --once --json
      phalanx watch journals/ --into lake/ --p99-ms 50 --webhook http://127.0.0.1:8080/alerts
    """
    from phalanx.errors import PipelineError
    from phalanx.pipeline.watch.watcher import Watcher, WatchSettings
    from phalanx.pipeline.watch.webhook import Webhook

    if into is None and len(paths) != 1:
        remedy = "give one lake, or journals and --into LAKE"
        raise PipelineError(paths[0], "several paths without --into", remedy)
    check_places(metrics)
    thresholds = _thresholds(alerts, silent, view_changes, p99_ms, loss)
    hook = None if webhook is None else Webhook(webhook)
    lake = paths[0] if into is None else into
    settings = WatchSettings(grace_s=grace, open_s=open_every, thresholds=thresholds, once=once)
    with _stop_on_signals() as stop:
        given = list(paths) if into is not None else []
        watcher = Watcher(lake, given, settings, stopped=stop.is_set)
        printer = _Printer(as_json, quiet=once)
        run = _WatchRun(watcher, printer, hook, None if metrics is None else Path(metrics))
        for until in _triggers(every, 0.0 if once else duration):
            run.trigger(once)
            if stop.wait(max(0.0, until - time.monotonic())):
                break
    run.close()
    if watcher.violations:
        raise click.exceptions.Exit(1)
    if fail_on_alert and printer.alerts:
        raise click.exceptions.Exit(ALERTED)


def _thresholds(
    file: str | None,
    silent: float | None,
    view_changes: float | None,
    p99_ms: float | None,
    loss: float | None,
) -> Thresholds:
    from phalanx.pipeline.watch.alerts import Thresholds, load_thresholds

    found = Thresholds() if file is None else load_thresholds(Path(file))
    given = {"silent": silent, "view_changes": view_changes, "p99_ms": p99_ms, "loss": loss}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(found, **changed)


def _triggers(every: float, duration: float | None) -> Iterator[float]:
    """For each trigger the time until which to wait after it; at least one trigger, and none that
    would begin after so many seconds."""
    end = math.inf if duration is None else time.monotonic() + duration
    yield min(time.monotonic() + every, end)
    while time.monotonic() < end:
        yield min(time.monotonic() + every, end)


class _WatchRun:
    """A watcher and where its events go."""

    def __init__(
        self, watcher: Watcher, printer: _Printer, hook: Webhook | None, metrics: Path | None
    ) -> None:
        self._watcher, self._printer, self._hook = watcher, printer, hook
        self._metrics = metrics

    def trigger(self, once: bool) -> None:
        for event in self._watcher.trigger():
            self._show(event)
        self._write_metrics(once)
        self._printer.progress(self._watcher)

    def close(self) -> None:
        """Waits for what is still to be sent, for a bounded time."""
        if self._hook is None:
            return
        self._hook.close()
        if lost := self._hook.given - self._hook.sent:
            click.echo(f"phalanx: {lost:,} alerts could not be sent to the webhook", err=True)
        self._write_metrics(True)

    def _show(self, event: WatchEvent) -> None:
        self._printer.show(event)
        if self._hook is not None and self._printer.is_alert(event):
            self._hook.send(msgspec.json.encode(event))

    def _write_metrics(self, last: bool) -> None:
        """A full disk does not end the watch; only the last attempt is an error."""
        from phalanx.errors import PipelineError
        from phalanx.pipeline.watch.open_metrics import write_metrics

        if self._metrics is None:
            return
        dropped = 0 if self._hook is None else self._hook.dropped
        try:
            write_metrics(self._metrics, self._watcher.metrics(dropped))
        except PipelineError as error:
            if last:
                raise
            self._show(self._watcher.problem(error))


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """SIGINT and SIGTERM end the loop after the view that is being judged."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Printer:
    """Prints events, and a line of progress on a terminal."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self._as_json, self._quiet = as_json, quiet
        self._problem = ""
        self._line = False
        self.alerts = 0

    def is_alert(self, event: WatchEvent) -> bool:
        return event.event in ("raised", "cleared")

    def show(self, event: WatchEvent) -> None:
        from phalanx.pipeline.watch.watcher import ProblemEvent

        self.alerts += event.event == "raised"
        if isinstance(event, ProblemEvent):
            if event.text != self._problem:  # the same problem comes again with each trigger
                self._clear()
                click.echo(one_line(f"phalanx: {event.text}; trying again"), err=True)
            self._problem = event.text
            return
        self._clear()
        text = msgspec.json.encode(event).decode() if self._as_json else one_line(_text(event))
        click.echo(text)
        sys.stdout.flush()

    def progress(self, watcher: Watcher) -> None:
        if self._quiet or not sys.stderr.isatty():
            return
        views = sum(watcher.verdicts.values())
        line = f"\r{datetime.now(UTC):%H:%M:%S} {watcher.rows:,} rows, {views:,} verdicts"
        click.echo(f"{line}, {sum(watcher.violations.values()):,} violated ", err=True, nl=False)
        self._line = True

    def _clear(self) -> None:
        if self._line:
            click.echo("\r\033[K", err=True, nl=False)
            self._line = False


def _text(event: Any) -> str:
    from phalanx.pipeline.watch.watcher import VerdictEvent

    at = f"{event.at:%Y-%m-%dT%H:%M:%SZ}"
    if not isinstance(event, VerdictEvent):
        alert = event.alert
        return f"{at} {event.event:<10} {alert.kind} of group {alert.group}: {alert.text}"
    verdict = event.unit.verdict
    names = ", ".join(verdict.violated) or f"{len(verdict.holds)} properties hold"
    who = ", ".join(verdict.members)
    head = f"{at} {verdict.verdict:<10} group {verdict.group}, view {verdict.view} of {who}"
    return of_labels(verdict.members).in_text(f"{head}, {verdict.status}: {names}")
