"""`phalanx ms demo`: a campus of mservers and interfaces, a kill, a cut, a merge; check it."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from phalanx.cli.options import check_places, write_or_explain
from phalanx.harness.campus_config import Campus
from phalanx.harness.campus_network import CampusNetwork, as_root
from phalanx.harness.campus_script import CampusScript
from phalanx.harness.campus_tree import tree_lines
from phalanx.harness.notice_check import NoticeVerdict

REDRAW_SECONDS = 0.5
LANS_MAX = 100


class CampusLans(click.ParamType[tuple[int, ...]]):
    """The number of LANs in each building, as 4,4,3."""

    name = "N,N,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        if not all(part.isascii() and part.isdigit() and int(part[:4]) >= 1 for part in parts):
            self.fail(f"{value!r} is not a list of numbers such as 4,4,3", param, ctx)
        lans = tuple(int(part) for part in parts)
        if len(lans) < 2 or sum(lans) > LANS_MAX or 2 * lans[-1] >= sum(lans):
            limits = f"at least two buildings, at most {LANS_MAX} LANs, fewer than half in the last"
            self.fail(f"{value!r}: {limits}", param, ctx)
        return lans


@click.command("demo")
@click.option(
    "--lans", type=CampusLans(), default="4,4,3", help="LANs of each building; default 4,4,3."
)
@click.option("--keep", metavar="DIR", help="Keep configuration, logs and state in this directory.")
@click.option("--html", "page", metavar="FILE", help="Write the run as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def demo(lans: tuple[int, ...], keep: str | None, page: str | None, as_json: bool) -> None:
    """Run a campus through a kill -9, a cut and a merge.

    Eleven LANs in three buildings: 14 mservers and 11 interfaces, each a process of its own, in
    network namespaces, with sealed packets if the package cryptography is there. A LAN mserver is
    killed, a building is cut off, and both are repaired, while clients of three groups get all
    views. At the end their notices are checked. It takes about a minute on two cores.

    Needs Linux with ip, and root or user namespaces. The last building must have fewer than half of
    all LANs. Exit 1 if a guarantee is violated or a call of a group without faults was refused, 2
    if it cannot run here.

    \b
    Examples:
      phalanx ms demo
      phalanx ms demo --lans 2,1 --html demo.html
      phalanx ms demo --keep campus && cat campus/state/lan-6.log
    """
    if page is not None:
        check_places(page)
    as_root()
    folder = Path(keep) if keep else Path(tempfile.mkdtemp(prefix="phalanx-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    campus = Campus(lans)
    screen = Screen(as_json)
    try:
        with CampusNetwork(campus.machines) as network:
            script = CampusScript(campus, folder, network, screen.line)
            screen.script = script
            verdict = asyncio.run(shown(script, screen))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    facts = facts_of(script, verdict)
    for line in results(script, verdict):
        click.echo(line, err=as_json)
    if page is not None:
        text = page_of(screen.steps, results(script, verdict))
        write_or_explain(page, lambda: Path(page).write_text(text, encoding="utf-8"))
        click.echo(f"  page: {page}", err=as_json)
    if as_json:
        click.echo(json.dumps(facts))
    sys.exit(1 if facts["violations"] or facts["refused"] else 0)


class Screen:
    """Prints the lines of the script, and below them the tree: redrawn in place on a terminal, else
    once for each line."""

    def __init__(self, as_json: bool) -> None:
        self._err = as_json
        self._live = (sys.stderr if as_json else sys.stdout).isatty()
        self._drawn = 0
        self.script: CampusScript | None = None
        self.steps: list[tuple[str, list[str]]] = []
        """Each line with the tree at that moment."""

    def line(self, text: str) -> None:
        self._erase()
        click.echo(text, err=self._err)
        tree = self.tree()
        self.steps.append((text, tree))
        if not self._live and tree != (self.steps[-2][1] if len(self.steps) > 1 else []):
            click.echo("\n".join(["", *(f"    {line}" for line in tree), ""]), err=self._err)

    def tree(self) -> list[str]:
        script = self.script
        if script is None:
            return []
        processes = script.processes
        return tree_lines(processes.config, processes.statuses(), script.down, script.cut)

    async def redraw(self) -> None:
        """Draw the tree again and again; only on a terminal."""
        while self._live:
            tree = await asyncio.to_thread(self.tree)
            width = shutil.get_terminal_size().columns
            self._erase()
            for line in ["", *tree]:
                click.echo(line[: width - 1], err=self._err)
            self._drawn = len(tree) + 1
            await asyncio.sleep(REDRAW_SECONDS)

    def _erase(self) -> None:
        if self._drawn:
            click.echo(f"\x1b[{self._drawn}A\x1b[J", nl=False, err=self._err)
            self._drawn = 0


async def shown(script: CampusScript, screen: Screen) -> NoticeVerdict:
    """Run the script while the tree is shown."""
    drawing = asyncio.create_task(screen.redraw())
    try:
        return await script.run()
    finally:
        drawing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await drawing


def results(script: CampusScript, verdict: NoticeVerdict) -> list[str]:
    """What the notices prove, and what became of the calls."""
    calls = script.calls
    lines = [
        "",
        f"What {verdict.notices:,} notices of {verdict.members} members show:",
        "",
        f"  {verdict.views} views; no member skipped, repeated or reordered one"
        if not verdict.violations
        else f"  {len(verdict.violations)} violations",
        f"  mutual agreement asked of {verdict.moves:,} pairs that left one view",
        f"  {calls.done} calls of sensors, which no fault concerned: {len(calls.refused)} refused",
        f"  the slowest of them took {calls.slowest:.2f} s",
    ]
    lines += [f"violated: {each}" for each in verdict.violations]
    lines += [f"refused: {each}" for each in calls.refused]
    return lines


def facts_of(script: CampusScript, verdict: NoticeVerdict) -> dict[str, Any]:
    """The result as one object."""
    return {
        "mservers": len(script.campus.machines),
        "interfaces": len(script.campus.hosts),
        "seconds": {name: round(value, 3) for name, value in script.seconds.items()},
        "members": verdict.members,
        "notices": verdict.notices,
        "views": verdict.views,
        "pairs": verdict.moves,
        "violations": [str(each) for each in verdict.violations],
        "calls": script.calls.done,
        "refused": script.calls.refused,
        "slowest_call_s": round(script.calls.slowest, 3),
    }


def page_of(steps: list[tuple[str, list[str]]], end: list[str]) -> str:
    """The run as a page: each step with the tree at that moment."""
    parts = [
        f"<h2>{html.escape(text.strip())}</h2>\n<pre>{html.escape(chr(10).join(tree))}</pre>"
        for text, tree in steps
    ]
    style = (
        "body{font:15px sans-serif;margin:2em auto;max-width:70em}h2{font-size:1em;margin:2em 0 0}"
    )
    style += "pre{background:#f4f4f2;padding:1em;overflow:auto}"
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">\n'
        f"<title>A campus of the membership service</title>\n<style>{style}</style>\n"
        "<h1>A campus of the membership service</h1>\n"
        + "\n".join(parts)
        + f"\n<pre>{html.escape(chr(10).join(end).strip())}</pre>\n</html>\n"
    )
