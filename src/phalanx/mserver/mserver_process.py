"""One mserver as a process: its machine, its records and its sockets.

It comes back from a crash with its records, at its old state; a stop on request is no different.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phalanx.errors import ConfigurationError
from phalanx.mserver.open_link import addresses_of, open_link
from phalanx.mserver.open_records import open_records, stored_rows
from phalanx.mserver.service_config import ServiceConfig
from phalanx.mserver.service_journal import open_service_journal
from phalanx.mserver.service_process import ServiceProcess
from phalanx.mserver.status_socket import StatusSocket, status_path
from phalanx.service.effects import SetRecord
from phalanx.service.message_codec import MessageCodec
from phalanx.service.server_machine import Mserver
from phalanx.service.service_times import ServiceTimes
from phalanx.service.values import ServiceGroup, SetState

KIND = "mserver"


class MserverProcess:
    """An mserver on the current asyncio loop. NameInUse, StateError, NetworkError or
    ConfigurationError if it cannot begin; nothing is left open then."""

    def __init__(
        self,
        config: ServiceConfig,
        name: str,
        state: Path,
        times: ServiceTimes | None = None,
        journal: Path | None = None,
    ) -> None:
        """`journal`: the folder of its journal, if it is to write one."""
        if name not in config.servers:
            known = ", ".join(config.servers)
            raise ConfigurationError("name", name, f"no such mserver; the file has {known}")
        self._opened = open_records(config.cluster, KIND, name, state)
        self.me = self._opened.me
        try:
            self._link = open_link(config, name, config.servers[name].address)
        except BaseException:
            self._opened.close()
            raise
        try:
            rows = stored_rows(self._opened, state)
            records = {r.state.set: r for r in rows.records if isinstance(r, SetRecord)}
            times = ServiceTimes() if times is None else times
            now = time.monotonic_ns()
            self.machine = Mserver(self.me, config.set_tree, records, times, now)
            self._codec = MessageCodec(config.cluster)
            self._journal = open_service_journal(config, self._opened, journal)
            self._tree, self._records = config.set_tree, rows.records
            self.process = ServiceProcess(
                self.me,
                self.machine,
                self._opened.records,
                rows,
                self._link,
                self._codec,
                addresses_of(config, self._link),
                listeners={each: config.below(each) for each in config.sets},
                journal=self._journal,
            )
        except BaseException:
            self._link.close()
            self._opened.close()
            raise
        self._status = StatusSocket(status_path(state, name), self.status)

    async def start(self) -> None:
        """Take part, and answer questions about the status."""
        try:
            await self._status.start()
        except BaseException:
            await self.stop()
            raise
        if self._journal is not None:
            self._journal.start("SERVER", self._tree, self._records, self.counts)
        self.process.start()

    async def run(self, stop: asyncio.Event, started: Callable[[], None] = lambda: None) -> None:
        """Take part until `stop` is set. Raises the error that ended the process, if one did."""
        await self.start()
        started()
        waiting = asyncio.ensure_future(stop.wait())
        try:
            ends: set[asyncio.Future[Any]] = {waiting, self.process.failed}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self.process.failed.done():
                self.process.failed.result()
        finally:
            waiting.cancel()
            await self.stop()

    async def stop(self) -> None:
        """Release everything, as a crash would. Safe to call twice."""
        failed = self.process.has_failed
        self.process.stop()
        if self._journal is not None:
            states = [(log.state, not log.is_idle) for _, log in sorted(self.machine.logs.items())]
            self._journal.stop_server(states, sorted(self.machine.joiners), failed)
            self._journal = None
        await self._status.stop()
        self._link.close()
        self._opened.close()

    def status(self) -> dict[str, Any]:
        """What `phalanx ms tree` shows."""
        host, port = self._link.local
        return {
            "name": self.me.name,
            "incarnation": self.me.incarnation,
            "address": f"{host}:{port}",
            "keys": self._link.keys,
            "sets": {name: set_status(state) for name, state in self.machine.states().items()},
            "counts": self.counts(),
        }

    def counts(self) -> dict[str, int]:
        """What was sent, received, refused and dropped, by reason."""
        counts = self.process.counts + self._link.counts
        counts.update({f"refused-{why}": n for why, n in self._codec.refused.items()})
        return dict(counts)


def set_status(state: SetState) -> dict[str, Any]:
    """One set as one of its members sees it."""
    return {
        "vid": str(state.vid),
        "lineage": state.lineage.hex(),
        "view": [str(member) for member in state.view],
        "parent": str(state.parent) if state.parent is not None else None,
        "children": {child: [str(m) for m in kids] for child, kids in state.kids.items()},
        "interfaces": {name: str(home.server) for name, home in state.homes.items()},
        "names": state.names,
        "groups": len(state.groups),
        "owned": {uid: owned_status(each.own) for uid, each in state.groups.items() if each.own},
    }


def owned_status(group: ServiceGroup) -> dict[str, Any]:
    """A group that a set owns."""
    return {
        "name": group.name,
        "vid": str(group.view.vid),
        "members": len(group.view.members),
        "ended": group.ended,
    }
