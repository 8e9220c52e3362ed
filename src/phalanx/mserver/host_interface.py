"""The interface of one host as it runs: its machine with the records of its state directory."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phalanx.errors import ConfigurationError
from phalanx.mserver.interface_process import ClientPlaces, InterfaceProcess
from phalanx.mserver.open_link import addresses_of, open_link
from phalanx.mserver.open_records import open_records, stored_rows
from phalanx.mserver.service_config import ServiceConfig
from phalanx.mserver.service_journal import open_service_journal
from phalanx.service.member_interface import MemberInterface
from phalanx.service.message_codec import MessageCodec
from phalanx.service.service_times import ServiceTimes

KIND = "mi"


class HostInterface:
    """An interface on the current asyncio loop. NameInUse, StateError, NetworkError or
    ConfigurationError if it cannot begin; nothing is left open then."""

    def __init__(
        self,
        config: ServiceConfig,
        name: str,
        state: Path,
        places: ClientPlaces,
        times: ServiceTimes | None = None,
        journal: Path | None = None,
    ) -> None:
        """`journal`: the folder of its journal, if it is to write one."""
        if name not in config.interfaces:
            known = ", ".join(config.interfaces) or "none"
            raise ConfigurationError("name", name, f"no such interface; the file has {known}")
        places.check()
        self._opened = open_records(config.cluster, KIND, name, state)
        try:
            self._link = open_link(config, name, config.interfaces[name].address)
        except BaseException:
            self._opened.close()
            raise
        try:
            now = time.monotonic_ns()
            rows = stored_rows(self._opened, state)
            times = ServiceTimes() if times is None else times
            self.machine = MemberInterface(name, config.set_tree, rows.records, times, now)
            self._tree, self._records = config.set_tree, rows.records
            self._journal = open_service_journal(config, self._opened, journal)
            self.interface = InterfaceProcess(
                self._opened.me,
                self.machine,
                self._opened.records,
                rows,
                self._link,
                MessageCodec(config.cluster),
                addresses_of(config, self._link),
                places,
                self._journal,
            )
        except BaseException:
            self._link.close()
            self._opened.close()
            raise

    async def run(self, stop: asyncio.Event, started: Callable[[], None] = lambda: None) -> None:
        """Serve until `stop` is set. Raises the error that ended the process, if one did."""
        process = self.interface.process
        if self._journal is not None:
            self._journal.start("INTERFACE", self._tree, self._records, lambda: self.counts)
        try:
            await self.interface.start()
            started()
            waiting = asyncio.ensure_future(stop.wait())
            ends: set[asyncio.Future[Any]] = {waiting, process.failed}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if process.failed.done():
                process.failed.result()
        finally:
            failed = process.has_failed
            await self.interface.stop()
            self._stop_journal(failed)
            self._opened.close()

    @property
    def counts(self) -> Counter[str]:
        """What was sent, received, refused and dropped, by reason."""
        return self.interface.counts

    def _stop_journal(self, failed: bool) -> None:
        if self._journal is None:
            return
        machine = self.machine
        path = [step.set for step in machine.home.path]
        members = list(machine.book.members.values())
        self._journal.stop_interface(machine.record, path, members, failed)


def socket_path(state: Path, name: str) -> Path:
    """Where the clients of an interface connect, unless another place is given."""
    return state / f"mi-{name}.sock"
