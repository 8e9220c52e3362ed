"""Behaviour, frozen: digests over all that members do in a fixed set of random scenarios, in which
every guarantee holds and nothing gets stuck.

A digest covers every effect of every step of every member, packets included: kind, values and
order. It names effects by codes and their fields by position, so that it changes with what the
core does and not with what things are called. `behaviour.txt` has one digest for ten seeds.

A commit that changes behaviour on purpose renews the file and says so:

    PHALANX_REWRITE=1 pytest tests/sweeps/test_behaviour.py -m ""
"""

from __future__ import annotations

import os
import subprocess
import sys
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest

from phalanx.core import effects as fx
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member
from phalanx.sim.generators import Kind, scenario_of
from phalanx.sim.run import run

FROZEN = Path(__file__).with_name("behaviour.txt")
BLOCK = 10
SEEDS: dict[Kind, int] = {"membership": 300, "storm": 100, "fixed": 100}
SIZES: dict[Kind, tuple[int, int]] = {"membership": (3, 8), "storm": (3, 5), "fixed": (2, 8)}
FAST: dict[Kind, int] = {"membership": 4, "storm": 4, "fixed": 6}
"""Blocks that are played in every run of the tests; the first one in a process of its own, with
another seed for hashes."""
CODES: dict[type, int] = {
    fx.Transmit: 1,
    fx.Accepted: 2,
    fx.Sent: 3,
    fx.Deliver: 4,
    fx.Ordered: 5,
    fx.Stable: 6,
    fx.AllDelivered: 7,
    fx.NotSent: 8,
    fx.WindowClosed: 9,
    fx.WindowOpened: 10,
    fx.ViewInstalled: 11,
    fx.Transitional: 12,
    fx.PeerSuspicion: 13,
    fx.ViewChangeStep: 14,
    fx.LinkStats: 15,
    fx.Stopped: 16,
    fx.Refused: 17,
    fx.SettingsDiffer: 18,
    fx.RolesInstalled: 19,
    fx.NameContested: 20,
}
"""Numbers of effects. They stay when an effect gets another name."""

_encode = msgspec.msgpack.Encoder().encode


def plain(value: Any) -> Any:
    """A value without the names of its types and fields."""
    if isinstance(value, msgspec.Struct):
        return [plain(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | bytes | int | None):
        return value
    return [plain(one) for one in value]


def digest_of_block(kind: Kind, block: int) -> str:
    """Play ten seeds, check every guarantee, and name all that the members did."""
    digest = blake2b(digest_size=12)

    class Watched(Member):
        def start(self, now: int) -> list[fx.Effect]:
            return self._note(now, super().start(now))

        def step(self, now: int, given: fx.Input) -> list[fx.Effect]:
            return self._note(now, super().step(now, given))

        def _note(self, now: int, effects: list[fx.Effect]) -> list[fx.Effect]:
            noted = [(CODES[type(effect)], plain(effect)) for effect in effects]
            digest.update(_encode((now, plain(self.me), noted)))
            return effects

    lo, hi = SIZES[kind]
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        result = run(scenario_of(seed, lo, hi, kind), Watched)
        line = f"phalanx sim replay --kind {kind} --members {lo}:{hi} --seed {seed}"
        assert not result.failed, f"{result.signature}; {line}"
    return digest.hexdigest()


def frozen() -> dict[str, str]:
    return dict(line.split() for line in FROZEN.read_text().splitlines())


def blocks() -> list[Any]:
    return [
        pytest.param(kind, block, marks=[] if 0 < block < FAST[kind] else pytest.mark.slow)
        for kind, seeds in SEEDS.items()
        for block in range(seeds // BLOCK)
    ]


@pytest.mark.parametrize(("kind", "block"), blocks())
def test_members_keep_every_guarantee_and_do_what_they_did(kind: Kind, block: int) -> None:
    name = f"{kind}:{block * BLOCK}:{(block + 1) * BLOCK}"
    got = digest_of_block(kind, block)
    if os.environ.get("PHALANX_REWRITE"):
        renewed = (frozen() if FROZEN.exists() else {}) | {name: got}
        FROZEN.write_text("".join(f"{key} {renewed[key]}\n" for key in sorted(renewed)))
    assert got == frozen()[name], f"behaviour changed in seeds {name}"


@pytest.mark.parametrize("kind", list(SEEDS))
def test_behaviour_does_not_depend_on_the_hash_seed(kind: Kind) -> None:
    code = f"from tests.sweeps.test_behaviour import digest_of_block as d; print(d({kind!r}, 0))"
    env = {**os.environ, "PYTHONHASHSEED": "4711"}
    root = Path(__file__).parents[2]
    got = subprocess.check_output([sys.executable, "-c", code], env=env, cwd=root, text=True)
    assert got.strip() == frozen()[f"{kind}:0:10"]


def test_every_effect_has_a_number() -> None:
    assert set(CODES) == set(fx.Effect.__args__)
    assert len(set(CODES.values())) == len(CODES)


def test_a_changed_value_changes_the_digest() -> None:
    ada, bea = MemberId("ada"), MemberId("bea")
    view = boot_view([ada, bea]).id
    samples = [
        fx.Stable(3, view),
        fx.Stable(4, view),
        fx.Stable(3, boot_view([ada]).id),
        fx.Stable(3, view, (ada,)),
        fx.Stable(3, view, (bea,)),
        fx.Stable(3, view, (ada, bea)),
    ]
    assert len({_encode(plain(sample)) for sample in samples}) == len(samples)
