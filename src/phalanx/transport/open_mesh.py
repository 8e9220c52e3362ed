"""Opens the transport of a mesh: reads the keys, looks up the peers, listens."""

from __future__ import annotations

import select
from contextlib import ExitStack
from time import monotonic_ns

from phalanx.config import Config
from phalanx.core.ids import MemberId
from phalanx.errors import ConfigurationError, NetworkError
from phalanx.transport.addresses import host_and_port
from phalanx.transport.bound_address import seed_address
from phalanx.transport.certificate_names import is_named, shown
from phalanx.transport.fault_injection import FaultInjector
from phalanx.transport.mesh_listener import checked_host, open_listener
from phalanx.transport.resolver import START_SECONDS, Lookup, Resolver, literal, look_up
from phalanx.transport.tcp import MeshTransport
from phalanx.transport.tls_identity import open_tls


def open_mesh(
    config: Config,
    group: str,
    me: MemberId,
    faults: FaultInjector | None = None,
    lookup: Lookup = look_up,
    prefixes: tuple[bytes, ...] = (b"",),
) -> MeshTransport:
    """A transport to `config.peers` and the members they know. A peer whose packets begin with none
    of the `prefixes` breaks the rules of its channel. Raises ConfigurationError or NetworkError,
    and then leaves nothing open. Its `now` is that of `time.monotonic_ns`."""
    if not hasattr(select, "epoll"):
        problem = "this system has no epoll, which a mesh needs"
        raise NetworkError("network", "mesh", problem, "use Linux, or network = 'fanout'")
    parsed = [host_and_port("peers", peer) for peer in config.peers]
    seeds = [seed_address(*peer) for peer in parsed if literal(peer[0])]
    tls = None if config.tls is None else open_tls(config.tls)
    if tls is not None and tls.names_members and not is_named(me.name, tls.names):
        remedy = f"the certificate names {shown(tls.names)}: use that name, or another certificate"
        raise ConfigurationError("name", me.name, remedy)
    resolver = Resolver([peer for peer in parsed if not literal(peer[0])], lookup)
    with ExitStack() as opened:
        opened.callback(resolver.close)
        if not seeds and resolver.wait(START_SECONDS) and not resolver.found:
            problem = "none of them can be resolved"
            remedy = "check the names and the name service, or give an address as 10.0.0.1:7117"
            raise NetworkError("peers", config.peers, problem, remedy)
        known = [*seeds, *resolver.found]
        host = checked_host(config, known)
        for seed in seeds:
            if (":" in host) != (len(seed) == 4):
                remedy = f"not of the same IP version as {host}; use one version at all members"
                raise ConfigurationError("peers", seed[0], remedy)
        listener = opened.enter_context(open_listener(config, known, config.port))
        transport = MeshTransport(
            listener,
            config,
            group,
            me,
            tls,
            seeds,
            resolver,
            faults or FaultInjector(),
            prefixes,
            monotonic_ns(),
        )
        opened.pop_all()
        return transport
    raise AssertionError
