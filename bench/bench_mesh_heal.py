"""How long a mesh takes to connect again after a partition, as far as its calls decide it.

    python bench/bench_mesh_heal.py [--trials 200]

Four members whose network was split two and two for 8 to 12 s, in virtual time, so that the load of
the machine changes nothing. A call takes no time: it fails before the network heals and opens a
channel afterwards. Each new channel is reported by those that have others. Milliseconds from the
moment at which the network heals to the last of the six channels.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from statistics import median

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import click

from phalanx.transport.addresses import SocketAddress
from phalanx.transport.peer_directory import PeerDirectory, PeerKey

MS = 1_000_000
N, SIDE = 4, 2
REPORT_NS = 50 * MS


def heal_ms(seed: int) -> float:
    """One partition, and what it takes until all channels are up again."""
    rng = Random(seed)
    where: list[SocketAddress] = [(f"10.0.0.{i}", 7117) for i in range(N)]
    keys: list[PeerKey] = [(f"m{i}", 1, b"nonce") for i in range(N)]
    tables = [PeerDirectory(keys[i], Random(seed * N + i)) for i in range(N)]
    apart = [[(i < SIDE) != (j < SIDE) for j in range(N)] for i in range(N)]
    up = [{keys[j] for j in range(N) if j != i and not apart[i][j]} for i in range(N)]
    for i, table in enumerate(tables):
        table.seeds(0, [address for address in where[:2] if address != where[i]])
        for j in (j for j in range(N) if j != i):
            table.connected(0, where[j], keys[j])
            if apart[i][j]:
                table.lost(0, where[j])
    now, healed = 0, rng.randrange(8_000, 12_000) * MS
    while now < healed or any(len(peers) < N - 1 for peers in up):
        now += MS
        for i, table in enumerate(tables):
            for address in table.due(now, up[i], 16):
                j = where.index(address)
                table.called(now, address)
                if now < healed and apart[i][j]:
                    table.failed(now, address)
                    continue
                for one, other in ((i, j), (j, i)):
                    up[one].add(keys[other])
                    tables[one].connected(now, where[other], keys[other])
                    for k in (k for k in range(N) if keys[k] in up[one] and k != other):
                        tables[other].told(now + REPORT_NS, keys[k][0], where[k])
    return (now - healed) / MS


@click.command()
@click.option("--trials", default=200)
def main(trials: int) -> None:
    """Measure healing in virtual time."""
    found = sorted(map(heal_ms, range(trials)))
    click.echo(f"{trials} trials: median {median(found):.0f} ms, {found[0]:.0f} to {found[-1]:.0f}")


if __name__ == "__main__":
    main()
