"""A Unix socket on which a process of the service answers each connection with its status."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phalanx.errors import StateError

ANSWER_BYTES_MAX = 16 << 20
ANSWER_SECONDS = 2.0


class StatusSocket:
    """Listens while its process runs."""

    def __init__(self, path: Path, status: Callable[[], dict[str, Any]]) -> None:
        self.path = path
        self._status = status
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()  # of an earlier process
        try:
            self._listener = await asyncio.start_unix_server(self._answer, self.path)
            self.path.chmod(0o600)
        except OSError as error:
            remedy = "give a shorter path of a directory that this process may write to"
            raise StateError(str(self.path), error.strerror or str(error), remedy) from error

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(self._status()).encode())
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def stop(self) -> None:
        """Safe to call twice."""
        if self._listener is None:
            return
        self._listener.close()
        await self._listener.wait_closed()
        self._listener = None
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


def status_path(state: Path, name: str) -> Path:
    """The socket of the mserver with this name."""
    return state / f"mserver-{name}.sock"


def read_status(path: Path) -> dict[str, Any] | None:
    """The status of the process behind the socket; None if there is none that answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        data = bytearray()
        try:
            connection.connect(str(path))
            while len(data) <= ANSWER_BYTES_MAX and (part := connection.recv(1 << 16)):
                data += part
            found = json.loads(data)
        except (OSError, ValueError):
            return None
    return found if isinstance(found, dict) else None
