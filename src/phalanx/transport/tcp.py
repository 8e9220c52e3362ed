"""Mesh transport: one TCP channel between any two members, encrypted by TLS (S2 section 2).

Each packet is copied to all channels. A channel that breaks loses what was under way in it; the
core repairs that as it repairs lost packets, and reaches a member behind a broken channel through
others (rules L-8 and L-9 of docs/protocol/detector.md). So nothing is numbered or repeated here.

    channel.py          a connection: TLS, records, bounded queue of bytes
    channel_set.py      the listener and all connections
    channel_hello.py    who may have a channel; which of two channels stays
    peer_directory.py   whom to call, and when
    peer_reports.py     which peers are told to which others
    handshake_pace.py   how long a channel may take to open, how many are opened at once
    tls_identity.py     certificates and keys

`fileno` is an epoll descriptor over the listener and all channels, so that the event loop can wait
for one descriptor. Peers are counted and logged when they misbehave, and closed; they never raise.
"""

from __future__ import annotations

import os
import select
import socket
from collections import Counter
from random import Random

from phalanx.config import Config
from phalanx.core.ids import MemberId
from phalanx.errors import PhalanxError
from phalanx.text import one_line
from phalanx.transport import record_codec
from phalanx.transport.addresses import SocketAddress, interfaces, text_of
from phalanx.transport.base import CHECK_NS, CHECK_SOON_NS, PACKETS_MAX
from phalanx.transport.bound_address import own_addresses, seen_address
from phalanx.transport.certificate_names import is_named, shown
from phalanx.transport.channel import Channel, ChannelBroke
from phalanx.transport.channel_hello import (
    ChannelHello,
    HelloRefusal,
    decode_hello,
    decode_peers,
    decode_refusal,
    encode_hello,
    encode_peers,
    encode_refusal,
    judge_hello,
    newer_stays,
    own_hello,
)
from phalanx.transport.channel_log import ChannelLog
from phalanx.transport.channel_set import QUEUE_BYTES_MAX, ChannelSet
from phalanx.transport.fault_injection import FaultInjector
from phalanx.transport.handshake_pace import HandshakePace
from phalanx.transport.mesh_listener import open_listener, told_address
from phalanx.transport.peer_directory import PeerDirectory, PeerKey
from phalanx.transport.peer_reports import PeerReports
from phalanx.transport.record_codec import (
    HELLO,
    PEERS,
    REFUSED,
    encode_control,
    encode_datagrams,
)
from phalanx.transport.resolver import Resolver
from phalanx.transport.tls_identity import TlsIdentity, open_tls

MS = 1_000_000
BEAT_NS = 1_200 * MS
"""A channel on which nothing was sent for this long carries a beat: more than the longest usual
pause between two keep-alives of a member (`crowded()`), which then serve as beats as well."""
SILENT_NS_MIN = 3_000 * MS
"""A channel on which nothing arrived for this long, or for 4 `fail_ns` if that is longer, is closed
and opened again: the other end is gone, or the connection is half open."""
CONNECT_NS = 1_000 * MS
"""A call that nobody has answered by then is given up and begun anew: the system repeats it after
1, 3 and 7 s, which would delay a mesh whose network is back."""
CONNECT_SOON_NS = 200 * MS
"""So old is a call that may have begun before a fault ended."""
ISOLATED_NS = 10_000 * MS
"""A member that broke the rules of the channel gets no other one for this long."""
ISOLATED_MAX = 1024
OFFENCES = ("malformed", "flood")
NEVER = 1 << 62
REJECTIONS = ("version", "cluster", "group", "settings", "name", "isolated", "malformed")
"""Refusals of peers that are counted by their reasons."""
QUIET = ("self", "duplicate", "cut")
"""Reasons to close a channel that are no news."""


class MeshTransport:
    """A Transport over TCP channels. Opened by `open_mesh.py`."""

    def __init__(
        self,
        listener: socket.socket,
        config: Config,
        group: str,
        me: MemberId,
        tls: TlsIdentity | None,
        seeds: list[SocketAddress],
        resolver: Resolver,
        faults: FaultInjector,
        prefixes: tuple[bytes, ...],
        now: int,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.faults = faults
        self.receive_bytes = min(config.receive_bytes, QUEUE_BYTES_MAX)
        self._config = config
        self._tls = tls
        self._seeds = seeds
        self._resolver = resolver
        self._prefixes = prefixes
        self._resolved: tuple[SocketAddress, ...] | None = None
        self._pid = os.getpid()
        nonce = os.urandom(8)
        port = int(listener.getsockname()[1])
        self._hello = own_hello(config, group, me, nonce, port)
        self._hello_record = encode_control(HELLO, encode_hello(self._hello))
        self._log = ChannelLog(f"{group}/{me.name}")
        self.channel_events = self._log.events
        self._random = Random(nonce)
        self._directory = PeerDirectory(self._hello.key, self._random)
        self._directory.counts = self.counts
        self._reports = PeerReports(now, self._random)
        self._pace = HandshakePace()
        self._silent_ns = max(SILENT_NS_MIN, 4 * config.fail_ns)
        self._set = ChannelSet(listener, self._silent_ns, self.counts, self._log)
        self._up: dict[PeerKey, Channel] = {}
        self._isolated: dict[str, int] = {}
        self._plan = faults.plan
        self._timer_ns = self._channels_ns = now
        """When to run the timers; when to look at the channels."""
        self._check_ns = now + CHECK_NS
        self._lost = False
        self._use(listener)

    def _use(self, listener: socket.socket) -> None:
        self._own = set(own_addresses(listener))
        seeds = [*self._seeds, *self._resolver.found]
        self.address = text_of(seen_address(listener, seeds))
        self._resolved = None

    @property
    def peers(self) -> list[str]:
        """The addresses of the members that a channel is up to: host:port."""
        return [text_of(channel.address) for channel in self._up.values()]

    @property
    def names(self) -> list[str]:
        """The names of these members."""
        return sorted(key[0] for key in self._up)

    def fileno(self) -> int:
        return self._set.fileno()

    # ------------------------------------------------- the interface of the runtime

    def receive(self, now: int) -> list[bytes]:
        out: list[bytes] = []
        for channel, events in self._set.ready():
            if channel is None:
                self._set.accept(now, self._tls)
                self._look_at_channels(now + self._pace.limit_ns)
            else:
                out += self._handle(now, channel, events)
            if len(out) >= PACKETS_MAX:
                break
        return out

    def send(self, now: int, packets: list[bytes]) -> None:
        if not self._up:
            return
        data = encode_datagrams(packets)
        for channel in self._up.values():
            if channel.put(now, data):
                self._set.watch(channel)
            else:
                self.counts["queue-full"] += len(packets)
                self._log.dropped(now, channel.who, len(packets))

    def deadline(self) -> int | None:
        if self.faults.plan is not self._plan or self._set.has_undrained():
            return 0
        delayed = self.faults.deadline()
        return self._timer_ns if delayed is None else min(delayed, self._timer_ns)

    def expire(self, now: int) -> list[bytes]:
        out: list[bytes] = []
        if self.faults.plan is not self._plan:
            self._plan = self.faults.plan
            self._directory.hurry(now)
            self._close_cut(now)
            self._timer_ns = now
        for channel in self._set.undrained():
            out += self._handle(now, channel, select.EPOLLIN)
        if now >= self._timer_ns:
            self._run_timers(now)
        return out + self.faults.due(now)

    def close(self) -> None:
        """Close all sockets. In the child of a fork nothing is sent: the channels belong to the
        parent."""
        self._resolver.close()
        self._set.close(flush=os.getpid() == self._pid)
        self._up.clear()

    # ------------------------------------------------- channels that are ready

    def _handle(self, now: int, channel: Channel, events: int) -> list[bytes]:
        """Continue with a channel that is ready. Returns the packets that arrived."""
        packets: list[bytes] = []
        try:
            if channel.is_opening and channel.advance() and channel.dialed is not None:
                channel.put(now, self._hello_record)
            if not channel.is_opening:
                if events & select.EPOLLOUT:
                    channel.flush()
                if events & ~select.EPOLLOUT or channel.is_undrained:
                    controls, packets = channel.read(now)
                    for kind, payload in controls:
                        self._control(now, channel, kind, payload)
        except ChannelBroke as broke:
            self._drop(now, channel, broke)
            return []
        self._set.watch(channel)
        if packets and channel.state != "up":
            self._drop(now, channel, ChannelBroke("malformed", "packets before the hello"))
            return []
        if not all(packet.startswith(self._prefixes) for packet in packets):
            self._drop(now, channel, ChannelBroke("malformed", "a packet of no member"))
            return []
        if packets and self.faults.active:
            return self.faults.admit(now, text_of(channel.address), packets)
        return packets

    def _control(self, now: int, channel: Channel, kind: int, payload: bytes) -> None:
        if channel.state == "up":
            if kind == PEERS:
                self._told(now, channel, payload)
            elif kind in (HELLO, REFUSED):
                raise ChannelBroke("malformed", "a second hello")
            return
        match kind:
            case record_codec.HELLO:
                self._greeted(now, channel, payload)
            case record_codec.REFUSED if channel.dialed is not None:
                refusal = decode_refusal(payload)
                if refusal.reason == "self":
                    raise ChannelBroke("self", refusal.text)
                reason = refusal.reason if refusal.reason in REJECTIONS else "other"
                self.counts[f"rejected-{reason}"] += 1
                where = text_of(channel.address)
                self._log.rejected(now, reason, channel.who, one_line(refusal.text), where)
                raise ChannelBroke("rejected", refusal.text)
            case _:
                raise ChannelBroke("malformed", "something else than a hello")

    # ------------------------------------------------- hellos

    def _greeted(self, now: int, channel: Channel, payload: bytes) -> None:
        """The peer has introduced itself. A refusal is sent if it called us."""
        hello = decode_hello(payload)
        refusal = hello if isinstance(hello, HelloRefusal) else self._judge(now, channel, hello)
        if refusal is not None:
            if channel.dialed is None:
                channel.put(now, encode_control(REFUSED, encode_refusal(refusal)))
            raise ChannelBroke(refusal.reason, refusal.text)
        assert isinstance(hello, ChannelHello)
        if channel.dialed is None:
            channel.address = (channel.address[0], hello.port, *channel.address[2:])
        if self.faults.active and not self.faults.reaches(text_of(channel.address)):
            raise ChannelBroke("cut", "fault injection")
        self._resolve_double(now, channel, hello)
        if channel.dialed is None:
            channel.put(now, self._hello_record)
        channel.open_up(now, hello)
        if channel.dialed is not None:
            self._pace.opened(now - channel.opened_ns)
            self._directory.yield_ns = self._pace.yield_ns
        self._up[hello.key] = channel
        if self._directory.connected(now, channel.address, hello.key):
            self._call_again(now)
        self.counts["channel-up"] += 1
        self._log.opened(now, hello.name, text_of(channel.address), channel.cipher)
        self._reports.opened(now, hello.key, channel.address)
        told = self._reports.for_peer(hello.key)
        if told:
            channel.put(now, encode_control(PEERS, encode_peers(told)))
        self._look_at_channels(now + BEAT_NS)
        self._timer_ns = min(self._timer_ns, self._reports.due_ns)

    def _judge(self, now: int, channel: Channel, hello: ChannelHello) -> HelloRefusal | None:
        refusal = judge_hello(self._hello, hello, self._config)
        if refusal is not None:
            return refusal
        if self._tls is not None and self._tls.names_members:
            if not is_named(hello.name, channel.names):
                text = f"its certificate names {shown(channel.names)}, not {hello.name!r}"
                return HelloRefusal("name", text[:500])
        if self._isolated.get(hello.name, 0) > now:
            return HelloRefusal("isolated", "it broke the rules of a channel before")
        return None

    def _resolve_double(self, now: int, channel: Channel, hello: ChannelHello) -> None:
        """Close one of two channels to the same process. Raises ChannelBroke for the new one."""
        older = self._up.get(hello.key)
        if older is None:
            return
        ours, theirs = channel.dialed is not None, older.dialed is not None
        if not newer_stays(self._hello, hello, theirs, ours, now - older.up_ns):
            self._directory.connected(now, channel.address, hello.key)
            raise ChannelBroke("duplicate", "another channel is up")
        self._drop(now, older, ChannelBroke("duplicate", "another channel is up"))

    # ------------------------------------------------- reports of peers

    def _report(self, now: int) -> None:
        """Report the members that this one is connected to, as far as that is due."""
        for key, told in self._reports.due(now):
            channel = self._up[key]
            channel.put(now, encode_control(PEERS, encode_peers(told)))
            self._set.watch(channel)

    def _told(self, now: int, channel: Channel, payload: bytes) -> None:
        told = decode_peers(payload)
        if told is None:
            raise ChannelBroke("malformed", "a report of peers that cannot be decoded")
        is_news = False
        for peer in told:
            address = told_address(peer, len(channel.address))
            if address is not None and address not in self._own:
                is_news = self._directory.told(now, peer.name, address) or is_news
        if is_news:
            self._schedule(now)

    # ------------------------------------------------- closing channels

    def _drop(self, now: int, channel: Channel, why: ChannelBroke) -> None:
        """Close a channel, count and log the reason, and arrange the next call."""
        if not self._set.remove(channel):
            return
        hello = channel.peer
        if hello is not None:
            self.counts["channel-down"] += 1
            if self._up.get(hello.key) is channel:
                del self._up[hello.key]
                self._reports.closed(hello.key)
                self._directory.lost(now, channel.address)
            is_news = why.reason not in QUIET
            self._log.broke(now, hello.name, text_of(channel.address), why.text, is_news)
            if why.reason in OFFENCES and len(self._isolated) < ISOLATED_MAX:
                self._isolated[hello.name] = now + ISOLATED_NS
        elif channel.dialed is not None:
            if why.reason == "stalled":
                self._pace.missed()
            if why.reason == "self":
                self._directory.is_self(now, channel.dialed)
            else:
                self._directory.failed(now, channel.dialed)
        self._count_refusal(now, channel, why)
        self._timer_ns = min(self._timer_ns, now)

    def _count_refusal(self, now: int, channel: Channel, why: ChannelBroke) -> None:
        if why.reason in QUIET:
            self.counts[why.reason] += 1
        elif why.reason == "rejected":
            return  # counted by its reason
        elif why.reason in ("closed", "broken", "silent", "unreachable"):
            if channel.peer is None:
                self.counts["unreached" if channel.dialed else "refused-hello"] += 1
            elif why.reason == "silent":
                self.counts["silent"] += 1
        else:
            self.counts[f"refused-{why.reason}"] += 1
            name = None if channel.peer is None else channel.peer.name
            where = text_of(channel.address)
            self._log.refused(now, why.reason, channel.who, why.text, where, name)

    def _close_cut(self, now: int) -> None:
        for channel in list(self._up.values()):
            if not self.faults.reaches(text_of(channel.address)):
                self._drop(now, channel, ChannelBroke("cut", "fault injection"))

    # ------------------------------------------------- timers

    def _run_timers(self, now: int) -> None:
        if now >= self._channels_ns:
            for channel in list(self._set.all.values()):
                self._check_channel(now, channel)
            self._channels_ns = min(map(self._due_of, self._set.all.values()), default=NEVER)
        if now >= self._check_ns:
            self._check(now)
        self._report(now)
        self._call_peers(now)
        self._schedule(now)

    def _check_channel(self, now: int, channel: Channel) -> None:
        try:
            if channel.state != "up":
                if now >= self._due_of(channel):
                    seconds = (now - channel.opened_ns) / 1e9
                    text = f"no hello within {seconds:.1f} s, state: {channel.state}"
                    raise ChannelBroke(
                        "unreachable" if channel.state == "connecting" else "stalled", text
                    )
            elif now >= channel.heard_ns + self._silent_ns:
                raise ChannelBroke("silent", f"nothing received for {self._silent_ns // MS} ms")
            elif now >= channel.sent_ns + BEAT_NS:
                channel.beat(now)
                self._set.watch(channel)
        except ChannelBroke as broke:
            self._drop(now, channel, broke)

    def _call_peers(self, now: int) -> None:
        if self._resolver.found is not self._resolved:
            self._resolved = self._resolver.found
            length = 4 if self._set.listener.family == socket.AF_INET6 else 2
            known = [*self._seeds, *(a for a in self._resolved if len(a) == length)]
            self._directory.seeds(now, [a for a in known if a not in self._own])
        for address in self._directory.due(now, self._up, self._pace.calls_max - self._set.calls):
            if self.faults.active and not self.faults.reaches(text_of(address)):
                self._directory.failed(now, address)
                continue
            self._directory.called(now, address)
            if self._set.dial(now, address, self._tls):
                self._look_at_channels(now + CONNECT_NS)
            else:
                self.counts["unreached"] += 1
                self._directory.failed(now, address)

    def _call_again(self, now: int) -> None:
        """A fault of the network has ended: give up the calls that began before."""
        for channel in list(self._set.all.values()):
            if channel.state == "connecting" and now >= channel.opened_ns + CONNECT_SOON_NS:
                self._drop(now, channel, ChannelBroke("unreachable", "called again"))

    def _schedule(self, now: int) -> None:
        """Compute when the timers are due next."""
        due = min(self._check_ns, self._reports.due_ns, self._channels_ns)
        calls = self._directory.deadline(self._up)
        if calls is not None and self._set.calls < self._pace.calls_max:
            due = min(due, max(calls, now + MS))
        self._timer_ns = due

    def _due_of(self, channel: Channel) -> int:
        """When to look at a channel. Traffic only moves that time back."""
        if channel.state == "up":
            return min(channel.sent_ns + BEAT_NS, channel.heard_ns + self._silent_ns)
        limit_ns = CONNECT_NS if channel.state == "connecting" else self._pace.limit_ns
        return channel.opened_ns + limit_ns

    def _look_at_channels(self, due: int) -> None:
        """A channel is to be looked at then."""
        self._channels_ns = min(self._channels_ns, due)
        self._timer_ns = min(self._timer_ns, due)

    # ------------------------------------------------- files and addresses that change

    def _check(self, now: int) -> None:
        self._check_ns = now + CHECK_NS
        self._set.resume()
        self._isolated = {name: until for name, until in self._isolated.items() if until > now}
        self._reload_tls(now)
        host = self._set.listener.getsockname()[0]
        follows = self._config.interface and not self._config.address
        if not follows or any(host in interface.addresses for interface in interfaces()):
            self._lost = False
            return
        if not self._lost:
            self._lost = True
            self.counts["address-lost"] += 1
        self._check_ns = now + CHECK_SOON_NS
        former = self._set.listener
        try:
            listener = open_listener(self._config, self._seeds, former.getsockname()[1])
        except (PhalanxError, OSError):  # no address yet
            return
        self._set.listen(listener)
        self._use(listener)
        self._lost = False
        self.counts["address-changed"] += 1
        for channel in list(self._set.all.values()):
            self._drop(now, channel, ChannelBroke("closed", "the address has changed"))

    def _reload_tls(self, now: int) -> None:
        """Take over certificates that were replaced. Channels that are up keep the old ones."""
        if self._tls is None or self._tls.is_current():
            return
        try:
            tls = open_tls(self._tls.tls)
            if tls.names_members and not is_named(self._hello.name, tls.names):
                self._log.certificate(now, f"the new certificate names {shown(tls.names)}")
                return
        except PhalanxError as error:
            self._log.certificate(now, f"the new certificate is not used: {error}")
            return
        self._tls = tls
        self.counts["tls-reloaded"] += 1
