"""The keys of a cluster: a file that every mserver and interface of it has.

One key in a line, at least 32 random characters, as `openssl rand -hex 32` prints them; empty lines
and lines that begin with # are comments. The first key seals, all of them open. So a key is
replaced without a pause: add the new one at the end of the file on every machine, then move it to
the front on every machine, then remove the old one. The file is read again when it changes.

A key is stretched by scrypt with the name of the cluster, since whoever records a packet can test
guesses of the key on it. Each process seals under a key of its own, made from that and the random
id of its session (`packet_seal.py`).
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from hashlib import blake2b, scrypt
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from phalanx.errors import NetworkError

_log = logging.getLogger("phalanx.mserver")
KEY_BYTES_MIN = 32
KEYS_MAX = 8
FILE_BYTES_MAX = 1 << 16
REFRESH_NS = 1_000_000_000
"""Between two looks at the file."""
_SALT = b"phalanx service seal 1\0"


class ClusterKey(NamedTuple):
    id: bytes
    """Four bytes that name the key in a packet and reveal nothing of it."""
    secret: bytes

    def of_session(self, session: bytes) -> bytes:
        """The key under which a session seals."""
        return blake2b(session, digest_size=32, key=self.secret, person=b"session").digest()


class KeyRing:
    """The keys in the order of the file. A changed file is read in a thread, since stretching a key
    takes longer than a protocol with time-outs should stand still."""

    def __init__(self, path: Path, cluster: str) -> None:
        self._path = path
        self._salt = _SALT + cluster.encode()
        self._looked_ns: int | None = None
        self._stamp = self._stamped()
        self.problem = ""
        """Why the file could not be read again; empty if it could. The keys stay as they were."""
        self._known: dict[bytes, ClusterKey] = {}
        self._known = self._read()
        self._reading: Future[dict[bytes, ClusterKey]] | None = None
        self.keys = {key.id: key for key in self._known.values()}

    @property
    def first(self) -> ClusterKey:
        """The key that seals."""
        return next(iter(self.keys.values()))

    def refresh(self, now: int) -> bool:
        """Look whether the file has changed. Whether the keys are others now: some calls after the
        change, when the file has been read."""
        if self._reading is not None:
            return self._reading.done() and self._adopt(self._reading)
        if self._looked_ns is not None and now - self._looked_ns < REFRESH_NS:
            return False
        self._looked_ns = now
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            self._reading = Future()
            Thread(target=self._read_into, args=(self._reading,), daemon=True).start()
        return False

    def _adopt(self, reading: Future[dict[bytes, ClusterKey]]) -> bool:
        self._reading = None
        before = list(self.keys)
        try:
            self._known = reading.result()
        except NetworkError as error:
            self.problem = str(error)
            _log.warning("%s; until then the keys stay as they were", error)
            return False
        self.problem = ""
        self.keys = {key.id: key for key in self._known.values()}
        return list(self.keys) != before

    def _read_into(self, reading: Future[dict[bytes, ClusterKey]]) -> None:
        try:
            reading.set_result(self._read())
        except BaseException as error:
            reading.set_exception(error)

    def _stamped(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> dict[bytes, ClusterKey]:
        """The keys by their texts."""
        try:
            with self._path.open("rb") as file:
                lines = [line.strip() for line in file.read(FILE_BYTES_MAX).splitlines()]
        except OSError as error:
            problem = error.strerror or str(error)
            raise self._unusable(problem, "give a file that this process may read") from None
        texts = [line for line in lines if line and not line.startswith(b"#")]
        make = f"make one with: openssl rand -hex 32 > {self._path}"
        if not texts:
            raise self._unusable("it holds no key", make)
        if len(texts) > KEYS_MAX:
            raise self._unusable(f"it holds {len(texts)} keys", f"keep at most {KEYS_MAX}")
        for text in texts:
            if len(text) < KEY_BYTES_MIN:
                problem = f"a key has {len(text)} bytes, and {KEY_BYTES_MIN} are the least"
                raise self._unusable(problem, make)
        return {text: self._known.get(text) or self._stretched(text) for text in texts}

    def _stretched(self, text: bytes) -> ClusterKey:
        secret = scrypt(text, salt=self._salt, n=1 << 14, r=8, p=1, dklen=32)
        return ClusterKey(blake2b(b"id", digest_size=4, key=secret).digest(), secret)

    def _unusable(self, problem: str, remedy: str) -> NetworkError:
        return NetworkError("key", str(self._path), problem, remedy)
