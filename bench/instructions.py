"""Instructions per frame: what a frame costs, whatever else the machine does.

Four members in memory; each round every one takes a frame of each other and sends one with one
message. callgrind counts the instructions of a short and of a long run; their difference, divided
by the frames taken or sent between, is what a frame costs. Needs `valgrind`.

    python bench/instructions.py [--members 4] [--source DIR]

`--source` is the `src` folder of another version, to compare with.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys

from phalanx.config import lan
from phalanx.core.effects import Datagrams, Deliver, Effect, Submit, Transmit
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member

SHORT, LONG = 100, 300


def play(n: int, rounds: int) -> None:
    view = boot_view([MemberId(f"m{i:02}") for i in range(n)])
    config = lan(window_bytes_max=64 << 20, window_bytes_min=32 << 20)
    members = [Member(m, view, "bench", config, i) for i, m in enumerate(view.members)]
    for member in members:
        member.start(0)
    flying: list[list[bytes]] = [[] for _ in range(n)]
    now = 0
    for _ in range(rounds):
        now += 100_000
        sent = []
        for i, member in enumerate(members):
            effects: list[Effect] = []
            for j, packets in enumerate(flying):
                if j != i and packets:
                    effects += member.step(now, Datagrams(packets))
            effects += member.step(now, Submit([b"x" * 100]))
            member.deadline()
            for effect in effects:
                if type(effect) is Deliver:
                    effect.bodies()
            sent.append([p for e in effects if type(e) is Transmit for p in e.packets])
        flying = sent


def count(n: int, rounds: int, source: str | None) -> int:
    """The instructions of one run."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if source is not None:
        environment["PYTHONPATH"] = source
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command += [sys.executable, __file__, "--members", str(n), "--play", str(rounds)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.search(r"Collected : (\d+)", result.stderr)
    assert found is not None, result.stderr
    return int(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--source", help="the src folder of another version")
    parser.add_argument("--play", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play is not None:
        play(args.members, args.play)
        return
    if shutil.which("valgrind") is None:
        sys.exit("instructions: there is no valgrind; install the package valgrind")
    n = args.members
    difference = count(n, LONG, args.source) - count(n, SHORT, args.source)
    frames = (LONG - SHORT) * n * n  # each round each member sends one and takes one of each other
    print(f"{difference / frames:,.0f} instructions per frame, {n} members")


if __name__ == "__main__":
    main()
