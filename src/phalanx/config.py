"""The settings of a member: one frozen struct, checked before anything starts.

Times are integer nanoseconds, sizes are bytes. `lan()` is for a broadcast domain with delays well
under a millisecond. Every member of a group must run with the same `order`, `early` and `mode`;
members that differ in one of them refuse each other (`core/wire/shared_settings.py`).
docs/network.md lists for every setting whether members must agree on it, and why.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from phalanx.errors import ConfigurationError

US = 1_000
MS = 1_000_000

Order = Literal["toto", "all-ack"]
Mode = Literal["hold", "flow"]
Network = Literal["multicast", "broadcast", "fanout", "mesh"]
Slow = Literal["wait", "lose"]
MESSAGE_BYTES_LIMIT = 16 << 20


class Certificates(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="certificates"
):
    """TLS with certificates: files in PEM format. Members prove their names with certificates that
    the authority signed. The files are read again when they change."""

    certificate: str
    """This member's certificate, which names the member, and intermediate ones behind it."""
    private_key: str
    """The private key of the certificate, not encrypted."""
    authority: str
    """The certificates of the authorities that members trust."""


class SharedKey(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="shared-key"
):
    """TLS with one key that all members of the cluster have. Settings and journals hold the name of
    the file, never the key."""

    file: str
    """A file with at least 32 random bytes or characters, such as `openssl rand -hex 32` prints."""


Tls = Certificates | SharedKey


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one member. Build one with `lan(...)`, which checks it."""

    cluster: str = "phalanx"
    """Members of different clusters ignore each other even on one address."""
    trusted: bool = False
    """Nobody but members can send packets to this group, because the network is closed to others. A
    process that was a member, and whose name a later process has taken meanwhile, then stops.
    Otherwise packets could be forged, so it stays alone and warns until the other process is gone
    (rule L-17). With `tls` the packets of others are refused, and this need not be set."""

    order: Order = "toto"
    """Agreed order by ToTo, or by waiting for a frame of every member (all-ack)."""
    early: bool = False
    """ToTo without the clause NTail(s) >= n - phi, which is redundant (rule O-8)."""
    post_confirm: bool = False
    """Deliver an own causal message only after the first ack of another member (rule D-6; S4
    footnote 2)."""

    datagram_bytes_max: int = 1472
    """The size of a packet on the wire: the MTU without the IP and UDP headers."""
    frame_bytes_max: int = 60_000
    """The bodies that one frame may carry; a longer message is sent in several frames."""
    message_bytes_max: int = MESSAGE_BYTES_LIMIT
    outbox_bytes_max: int = 512 << 10
    """The core accepts no more submissions while this much waits to be sent."""

    window_bytes_max: int = 2 << 20
    """The network sliding window (S4): bytes that not all members have acknowledged."""
    window_bytes_min: int = 256 << 10
    """Packet loss shrinks the window, but never below this."""
    pace_ns_max: int = 1 * MS
    """The adaptive delay between frames that are not full, at a full window."""

    ack_prompt_ns: int = 300 * US
    """While agreed or safe messages wait, at most one ack-only frame in this time: from each member
    in groups of up to four. In larger groups, one from the whole group for agreed messages and two
    for safe ones, so each member waits this time multiplied by half the members between two of its
    own."""
    ack_lazy_ns: int = 10 * MS
    """An ack-only frame this long after a message whose delivery does not depend on acks; in groups
    of more than four an eighth longer for each rank."""
    alive_busy_ns: int = 15 * MS
    """A keep-alive this long after the member's last frame while messages wait for delivery; while
    they only wait to become stable, in groups of more than four, an eighth longer for each
    member."""
    alive_idle_ns: int = 250 * MS
    """A keep-alive this long after the member's last frame when the group is idle."""

    nack_ns_min: int = 1 * MS
    nack_ns_max: int = 3 * MS
    """A missing frame is requested after a random time between these, unless it arrives or another
    member requests it."""
    nack_retry_ns: int = 8 * MS
    """The request is repeated after this time, which doubles each time, up to 32-fold and up to a
    quarter of `fail_ns` (rule B-8)."""
    answer_ns_min: int = 2 * MS
    answer_ns_max: int = 6 * MS
    """A member that has the frame but is not its sender answers a request after a random time
    between these."""

    ahead_frames_max: int = 4096
    """Frames this far beyond the last one in order are dropped and requested later."""

    mode: Mode = "hold"
    """During a view change, `hold` keeps messages back until the next view, so that each is
    delivered in the view it was sent in; `flow` continues to send (rule W-13)."""
    fail_ns: int = 850 * MS
    """A member that no other member has heard for this long, and that answers no probe, has failed.
    The time-out grows with the measured gaps between packets, up to four-fold."""
    probe_ns: int = 40 * MS
    """A member that is silent for half the time-out is probed this often."""
    hello_ns: int = 250 * MS
    """The approximate interval at which a component announces itself to others."""
    collect_ns: int = 60 * MS
    """How long a join attempt collects components before it proposes a view (S0: alpha)."""
    change_ns: int = 350 * MS
    """A member that has not answered a proposal within this time is left out (rule T). The time
    doubles after each miss, up to eight-fold."""
    claim_ns: int = 30 * MS
    """A starting member claims its name three times, this far apart."""
    leave_ns: int = 1_000 * MS
    """A leaving member sends what was accepted for at most this long, and then answers the others
    for at most this long."""

    stretch_clock: bool = False
    """Slow the protocol's clock while this process is starved of CPU, so that all time-outs above
    become up to 16 times longer. For many members on few cores; failures are then detected later.
    The log reports when the stretch begins and ends (`runtime/starvation_clock.py`)."""

    network: Network = "multicast"
    """How packets are sent: IP multicast, IPv4 broadcast, one copy to each member (fan-out), or TCP
    channels between all members (mesh)."""
    address: str = ""
    """The multicast or broadcast address; by default one derived from cluster and group, or the
    interface's broadcast address. With `fanout` and `mesh`: the local address to bind."""
    port: int = 7117
    """The UDP port; with `mesh`, the TCP port. With `fanout` and `mesh`, 0 takes any free port."""
    interface: str = ""
    """Name or address of the network interface; the system's choice if empty."""
    peers: tuple[str, ...] = ()
    """With `fanout` and `mesh`: addresses of members, each as host:port. Host names are resolved
    periodically. One reachable member is enough: members exchange the addresses they know."""
    hops: int = 1
    """The TTL of multicast packets: 0 for this machine, 1 for the local network."""
    receive_bytes: int = 8 << 20
    """The receive buffer to request from the system; the window is limited by what it grants."""
    offload: bool = True
    """Let the kernel split and join datagrams (UDP_SEGMENT, UDP_GRO) if it can."""
    tls: Tls | None = None
    """With `mesh`: how channels are encrypted and members prove that they belong to the group."""
    insecure: bool = False
    """With `mesh` and without `tls`: allow plain TCP beyond the loopback interface."""

    buffer_bytes_max: int = 32 << 20
    """The limit for events that the application has not read yet."""
    slow: Slow = "wait"
    """At that limit, `wait` slows the group down for this member; `lose` drops messages at this
    member, which gets an `EventsLost` with their number."""

    @property
    def authentic(self) -> bool:
        """Packets come from members of this cluster only."""
        return self.trusted or self.tls is not None


_POSITIVE = (
    "outbox_bytes_max",
    "window_bytes_max",
    "window_bytes_min",
    "ack_prompt_ns",
    "ack_lazy_ns",
    "alive_busy_ns",
    "alive_idle_ns",
    "nack_ns_min",
    "nack_retry_ns",
    "answer_ns_min",
    "ahead_frames_max",
    "fail_ns",
    "probe_ns",
    "hello_ns",
    "collect_ns",
    "change_ns",
    "claim_ns",
    "leave_ns",
)
_PAIRS = (
    ("window_bytes_min", "window_bytes_max"),
    ("nack_ns_min", "nack_ns_max"),
    ("answer_ns_min", "answer_ns_max"),
    ("alive_busy_ns", "alive_idle_ns"),
    ("alive_idle_ns", "fail_ns"),
)


NS_MAX = 3_600_000_000_000
"""The limit for all times: one hour."""


def checked(config: Config) -> Config:
    """The same configuration, or ConfigurationError naming the field and the remedy."""
    for field, value in msgspec.structs.asdict(config).items():
        _check_type(field, value)
        if (field.endswith("_ns") or "_ns_" in field) and value > NS_MAX:
            raise ConfigurationError(field, value, f"must not exceed {NS_MAX} (an hour)")
    for field in _POSITIVE:
        value = getattr(config, field)
        if value <= 0:
            raise ConfigurationError(field, value, "must be above 0")
    for low, high in _PAIRS:
        if getattr(config, low) > getattr(config, high):
            raise ConfigurationError(low, getattr(config, low), f"must not exceed {high}")
    for field, (low_value, high_value) in _RANGES.items():
        value = getattr(config, field)
        if not low_value <= value <= high_value:
            raise ConfigurationError(field, value, f"must lie in {low_value}..{high_value}")
    if config.order not in ("toto", "all-ack"):
        raise ConfigurationError("order", config.order, "must be 'toto' or 'all-ack'")
    if config.mode not in ("hold", "flow"):
        raise ConfigurationError("mode", config.mode, "must be 'hold' or 'flow'")
    if config.network not in ("multicast", "broadcast", "fanout", "mesh"):
        remedy = "must be 'multicast', 'broadcast', 'fanout' or 'mesh'"
        raise ConfigurationError("network", config.network, remedy)
    if config.slow not in ("wait", "lose"):
        raise ConfigurationError("slow", config.slow, "must be 'wait' or 'lose'")
    if config.network in ADDRESSED and not config.peers:
        raise ConfigurationError("peers", config.peers, "name at least one as host:port")
    if not all(isinstance(peer, str) for peer in config.peers):
        raise ConfigurationError("peers", config.peers, "must be strings, each host:port")
    if config.network not in ADDRESSED and not config.port:
        raise ConfigurationError("port", 0, "members must agree on one, for example 7117")
    _check_tls(config)
    if not config.cluster:
        raise ConfigurationError("cluster", config.cluster, "must not be empty")
    if not config.cluster.isprintable():
        remedy = "must hold printable characters only"
        raise ConfigurationError("cluster", config.cluster, remedy)
    return config


def _check_tls(config: Config) -> None:
    tls = config.tls
    if tls is None:
        return
    if config.network != "mesh":
        raise ConfigurationError("tls", tls, "only network = 'mesh' has it; use phalanx.mesh(...)")
    if config.insecure:
        raise ConfigurationError("insecure", True, "leave it out: with tls nothing is insecure")
    for field, path in msgspec.structs.asdict(tls).items():
        if not isinstance(path, str) or not path:
            raise ConfigurationError(f"tls.{field}", path, "must be the name of a file")


ADDRESSED: tuple[Network, ...] = ("fanout", "mesh")
"""The networks whose members have addresses of their own, given as `peers`."""
_RANGES = {
    "datagram_bytes_max": (256, 65_507),
    "frame_bytes_max": (64, 60_000),
    "message_bytes_max": (1, MESSAGE_BYTES_LIMIT),
    "pace_ns_max": (0, NS_MAX),
    "port": (0, 65_535),
    "hops": (0, 255),
    "receive_bytes": (4096, 1 << 30),
    "buffer_bytes_max": (64 << 10, 1 << 40),
}
_DEFAULTS = Config()


def _check_type(field: str, value: object) -> None:
    if field == "tls":
        if value is not None and not isinstance(value, Tls):
            remedy = "give phalanx.Certificates(...) or phalanx.SharedKey(...)"
            raise ConfigurationError(field, value, remedy)
        return
    wanted = type(getattr(_DEFAULTS, field))
    if type(value) is not wanted:
        raise ConfigurationError(field, value, f"must be of type {wanted.__name__}")


def lan(**settings: Any) -> Config:
    """Settings for one broadcast domain, with any of them replaced.

    >>> lan(order="all-ack").order
    'all-ack'
    """
    return _settings(settings)


def local(**settings: Any) -> Config:
    """Settings for processes on one machine: its multicast packets do not leave the machine."""
    return _settings(LOCAL | settings)


LOCAL: dict[str, Any] = {"interface": "127.0.0.1", "hops": 0}


def unicast(*peers: str, **settings: Any) -> Config:
    """Settings for a network without multicast: a copy of every packet goes to each member.

    >>> unicast("10.0.0.1:7117", "members.example:7117").network
    'fanout'
    """
    return _settings({"network": "fanout", "peers": peers} | settings)


def mesh(*peers: str, tls: Tls | None = None, **settings: Any) -> Config:
    """Settings for a network without multicast in which links may be missing: a TCP channel between
    any two members, and messages travel around channels that are broken.

    Give `tls=Certificates(...)` or `tls=SharedKey(...)`. Without it, members use plain TCP and only
    on the loopback interface, unless `insecure=True` allows other networks. Members send on during
    view changes (`mode="flow"`).

    >>> mesh("10.0.0.1:7117", tls=SharedKey("group.key")).mode
    'flow'
    """
    return _settings(MESH | {"peers": peers, "tls": tls} | settings)


MESH: dict[str, Any] = {
    "network": "mesh",
    "mode": "flow",
    "datagram_bytes_max": 65_507,
}


def crowded(**settings: Any) -> Config:
    """Settings for many processes on few cores, for example 32 on two: all time-outs are longer,
    and grow further while the process is starved of CPU (`stretch_clock`).

    A member there may wait a second for a core. docs/operations.md has measurements.
    """
    return _settings(CROWDED | settings)


CROWDED: dict[str, Any] = {
    "fail_ns": 5_000 * MS,
    "probe_ns": 500 * MS,
    "change_ns": 3_000 * MS,
    "collect_ns": 500 * MS,
    "hello_ns": 1_000 * MS,
    "alive_idle_ns": 1_000 * MS,
    "alive_busy_ns": 200 * MS,
    "nack_ns_min": 20 * MS,
    "nack_ns_max": 100 * MS,
    "nack_retry_ns": 200 * MS,
    "answer_ns_min": 20 * MS,
    "answer_ns_max": 200 * MS,
    "stretch_clock": True,
}


def _settings(settings: dict[str, Any]) -> Config:
    known = Config.__struct_fields__
    for field, value in settings.items():
        if field not in known:
            raise ConfigurationError(field, value, f"unknown setting; known: {', '.join(known)}")
    return checked(Config(**settings))
