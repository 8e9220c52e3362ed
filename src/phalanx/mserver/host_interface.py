"""The interface of one host as it runs: its machine with the records of its state directory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phalanx.errors import ConfigurationError
from phalanx.mserver.interface_process import ClientPlaces, InterfaceProcess
from phalanx.mserver.open_link import addresses_of, open_link
from phalanx.mserver.open_records import open_records, stored_rows
from phalanx.mserver.service_config import ServiceConfig
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
    ) -> None:
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
            self.interface = InterfaceProcess(
                self._opened.me,
                self.machine,
                self._opened.records,
                rows,
                self._link,
                MessageCodec(config.cluster),
                addresses_of(config, self._link),
                places,
            )
        except BaseException:
            self._link.close()
            self._opened.close()
            raise

    async def run(self, stop: asyncio.Event, started: Callable[[], None] = lambda: None) -> None:
        """Serve until `stop` is set. Raises the error that ended the process, if one did."""
        process = self.interface.process
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
            await self.interface.stop()
            self._opened.close()


def socket_path(state: Path, name: str) -> Path:
    """Where the clients of an interface connect, unless another place is given."""
    return state / f"mi-{name}.sock"
