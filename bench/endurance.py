"""Long runs of real members, each with a promise that must hold to the end.

    python bench/endurance.py calm  [--minutes 10]   nobody is removed though the machine is busy
    python bench/endurance.py crowd [--minutes 5]    32 processes become one view and stay it;
                                                     --crowded: with those settings;
                                                     --set NAME=VALUE: with this one
    python bench/endurance.py rest  [--seconds 60]   a reader that stops for a minute

`calm`: four members in network namespaces with one link cut, two spinning processes for each core
beside them, and one of the members an asyncio program that blocks its event loop for 10 seconds
out of 20, sleeping and computing in turn: no view may change.

`rest`: four members flood each other; one reads nothing for a minute. With slow = "wait" the others
wait for it, its memory stays bounded, and it misses nothing; with slow = "lose" the others go
on, and it is told what it missed.

The journals of every run are checked. Exit 1 if a promise is broken. All take --json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.namespaces import Lan, available

import phalanx
from phalanx.config import CROWDED
from phalanx.harness.controller import MemberProcess, all_in_view
from phalanx.verify.evidence import violations_in

LOCAL = {"interface": "127.0.0.1", "hops": 0}
NAMES = ("ada", "bea", "cyd", "dov")
SPIN = "while True: pass"
BLOCKED_SECONDS = 10.0


# ---------------------------------------------------------------------------- calm


def calm(minutes: float, folder: Path) -> dict[str, Any]:
    reason = available()
    if reason:
        sys.exit(f"endurance: {reason}")
    group = f"calm-{os.getpid()}"
    with ExitStack() as undo:
        lan = undo.enter_context(Lan(5))
        members = []
        for i, name in enumerate(NAMES):
            part = {"group": group, "name": name, "journal": str(folder)}
            members.append(MemberProcess(part, ["ip", "netns", "exec", lan.namespace(i)]))
            undo.callback(members[-1].close)
        sleeper = lan.run(
            4,
            [sys.executable, __file__, "sleeper", group, str(minutes * 60 + 30), str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for member in members:
            member.joined()
        everybody = sorted([*NAMES, "sleeper"])
        for member in members:
            member.in_view(everybody, 30)
        lan.cut(0, 1)
        views = [len(member.views) for member in members]
        spinners = [
            subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2 * (os.cpu_count() or 1))
        ]
        for spinner in spinners:
            undo.callback(spinner.kill)
        end = time.monotonic() + minutes * 60
        sent = 0
        while time.monotonic() < end and [len(m.views) for m in members] == views:
            for member in members:
                member.do("send", count=10, service="safe")
                sent += 10
            time.sleep(0.5)
            for member in members:
                member.report(60)
        changed = [m.views[n:] for m, n in zip(members, views, strict=True)]
        lasted = minutes * 60 - max(0.0, end - time.monotonic())
        for spinner in spinners:
            spinner.kill()
            spinner.wait(10)
        for member in members:
            member.leave(30)
        sleeper.terminate()
        told, _ = sleeper.communicate(timeout=30)
    return {
        "seconds": round(lasted),
        "views_changed": changed,
        "event_loop_blocked_times": told.count("blocked"),
        "messages": sent,
        "violations": violations_in(folder),
        "held": not any(changed) and told.count("blocked") > 0,
    }


def sleeper(group: str, seconds: float, folder: str) -> None:
    """An asyncio member that blocks its event loop half of the time."""

    async def main() -> None:
        async with phalanx.join(group, name="sleeper", journal=folder) as member:
            reader = asyncio.create_task(_read(member))
            end = time.monotonic() + seconds
            compute = False
            while time.monotonic() < end:
                await member.send(b"awake")
                await asyncio.sleep(BLOCKED_SECONDS)
                until = time.monotonic() + BLOCKED_SECONDS
                if compute:
                    while time.monotonic() < until:
                        pass
                else:
                    time.sleep(BLOCKED_SECONDS)
                compute = not compute
                print("blocked", flush=True)
            reader.cancel()

    async def _read(member: phalanx.Group) -> None:
        async for _ in member.batches():
            pass

    asyncio.run(main())


# ---------------------------------------------------------------------------- crowd


def crowd(minutes: float, size: int, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    group = f"crowd-{os.getpid()}"
    names = [f"m{i:02}" for i in range(size)]
    began = time.monotonic()
    with ExitStack() as undo:
        members = []
        for name in names:
            part = {"group": group, "name": name, "config": settings, "journal": str(folder)}
            members.append(MemberProcess(part))
            undo.callback(members[-1].close)
        for member in members:
            member.joined(120)
        all_in_view(members, 120)
        merged = time.monotonic() - began
        views = [len(member.views) for member in members]
        before = _cpu(members)
        since = time.monotonic()
        end = since + minutes * 60
        while time.monotonic() < end and [len(m.views) for m in members] == views:
            time.sleep(1)
            members[0].do("send", count=1, service="safe")
        spent = (_cpu(members) - before) / (time.monotonic() - since) / size
        changed = [m.views[n:] for m, n in zip(members, views, strict=True)]
        lasted = time.monotonic() - since
        rss = [member.report(60)["rss_kb"] for member in members]
        for member in members:
            member.do("leave")
        for member in members:
            member.wait(lambda event: event["event"] == "left", 60)
    return {
        "members": size,
        "seconds_to_one_view": round(merged, 2),
        "seconds_in_it": round(lasted),
        "views_changed": [change for change in changed if change],
        "cpu_share_a_member": round(spent, 4),
        "rss_kb_max": max(rss),
        "violations": violations_in(folder),
        "held": not any(changed),
    }


def _cpu(members: list[MemberProcess]) -> float:
    """Seconds of processor time that all of them used so far."""
    ticks = 0
    for member in members:
        fields = Path(f"/proc/{member.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


# ---------------------------------------------------------------------------- rest


def rest(seconds: float, slow: str, folder: Path) -> dict[str, Any]:
    group = f"rest-{os.getpid()}-{slow}"
    with ExitStack() as undo:
        members = []
        for name in NAMES:
            own = {"slow": slow} if name == "dov" else {}
            part = {"group": group, "name": name, "config": LOCAL | own, "journal": str(folder)}
            members.append(MemberProcess(part))
            undo.callback(members[-1].close)
        for member in members:
            member.joined()
        all_in_view(members)
        views = [len(member.views) for member in members]
        marks = [len(member.events) for member in members]
        for member in members:
            member.do("flood", seconds=seconds + 10, size=100)
        time.sleep(3)
        early = [sum(member.report(60)["delivered"].values()) for member in members]
        members[3].run("rest", period=seconds)
        peak, rates, last = 0, [], early[0]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(1)
            now = members[0].report(60)
            peak = max(peak, members[3].report(60)["rss_kb"])
            count = sum(now["delivered"].values())
            rates.append(count - last)
            last = count
        for member, mark in zip(members, marks, strict=True):
            member.wait(
                lambda event: event["event"] == "sent", seconds + 90, mark, "the flood ends"
            )
        settled = [0, 0]
        for member in members:
            member.do("send", count=1, service="safe", stable=True)
        while len({*settled}) > 1 or not settled[0]:
            reports = [member.report(60) for member in members]
            settled = [sum(r["delivered"].values()) + r["lost"] for r in reports]
        same = [len(m.views) for m in members] == views
        left = [member.leave(60) for member in members]
    delivered = [sum(told["delivered"].values()) for told in left]
    lost = [told["lost"] for told in left]
    whole = delivered[3] + lost[3] == delivered[0] and (slow == "lose" or not lost[3])
    return {
        "slow": slow,
        "seconds": seconds,
        "delivered": delivered,
        "lost": lost,
        "others_a_second_median_while_it_rests": sorted(rates)[len(rates) // 2],
        "rss_kb_max_of_the_reader": peak,
        "no_view_changed": same,
        "violations": violations_in(folder),
        "held": whole and same and peak < 400_000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["calm", "crowd", "rest", "sleeper"])
    parser.add_argument("more", nargs="*")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--crowded", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--slow", choices=["wait", "lose"], default="wait")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.what == "sleeper":
        sleeper(given.more[0], float(given.more[1]), given.more[2])
        return
    with tempfile.TemporaryDirectory(prefix="phalanx-endurance-") as place:
        folder = Path(place)
        if given.what == "calm":
            found = calm(given.minutes or 10, folder)
        elif given.what == "crowd":
            changed = dict(setting.split("=", 1) for setting in given.set)
            settings = LOCAL | (CROWDED if given.crowded else {})
            settings |= {name: json.loads(value) for name, value in changed.items()}
            found = crowd(given.minutes or 5, given.members, settings, folder)
        else:
            found = rest(given.seconds, given.slow, folder)
    if given.json:
        print(json.dumps(found))
    else:
        for key, value in found.items():
            print(f"{key:40} {value}")
    sys.exit(0 if found["held"] and not found["violations"] else 1)


if __name__ == "__main__":
    main()
