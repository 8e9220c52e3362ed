"""The identity of a member: a name, and an incarnation that no earlier process of that name had.

The incarnation is the wall clock in milliseconds. With a state directory it is also above the one
that is stored there, so that a clock that was set back repeats none. Without a directory, or after
it was lost, the clock has moved on and repeats none either. The file is written durably before the
first packet is sent (temporary file, fsync, rename, fsync of the folder). A lock on another file
keeps a second process of this machine from taking the name while the first one runs.

The network decides in the end: a member claims its name there before it sends anything else.
Members that met an earlier process with the same name and incarnation answer so, and the claim is
repeated with a later incarnation (`api.base.MemberOpener`).
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from phalanx.core.ids import INCARNATION_MAX, NAME_LENGTH_MAX, MemberId
from phalanx.errors import ConfigurationError, NameInUse, StateError

NAME_REMEDY = f"must be 1 to {NAME_LENGTH_MAX} printable characters"


class Kept(msgspec.Struct, forbid_unknown_fields=True):
    """What the state directory stores about one name in one group."""

    cluster: str
    group: str
    name: str
    incarnation: int


def default_name() -> str:
    """Host name and process id: unique among the processes of a small network."""
    return f"{socket.gethostname().partition('.')[0] or 'host'}-{os.getpid()}"


class Identity:
    """A name that this process holds until the object is closed."""

    def __init__(self, member: MemberId, lock: int | None = None) -> None:
        self.member = member
        self._lock = lock

    def close(self) -> None:
        """Release the name. Safe to call twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def identify(
    cluster: str, group: str, name: str | None, state: str | None, above: int = 0
) -> Identity:
    """Take the name, with an incarnation above one that is known to have been used.
    ConfigurationError, StateError or NameInUse if that cannot be (rule L-23)."""
    name = default_name() if name is None else name
    _checked(name, 1)
    clock = max(above + 1, time.time_ns() // 1_000_000)
    if state is None:
        return Identity(_checked(name, clock))
    folder = Path(state)
    stem = _stem(cluster, group, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / f"{stem}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unusable(state, error) from error
    try:
        _hold(lock, name, group, state)
        before = _read(folder / f"{stem}.json", state)
        if before is not None and (before.cluster, before.group, before.name) != (
            cluster,
            group,
            name,
        ):
            raise StateError(state, f"{stem}.json is of another member", "choose another directory")
        incarnation = clock if before is None else max(clock, before.incarnation + 1)
        if incarnation > INCARNATION_MAX:
            remedy = "start under a name that was never used"
            raise StateError(state, f"the incarnations in {stem}.json are used up", remedy)
        member = _checked(name, incarnation)
        _write(folder, stem, Kept(cluster, group, name, incarnation), state)
        return Identity(member, lock)
    except BaseException:
        os.close(lock)
        raise


def _checked(name: Any, incarnation: int) -> MemberId:
    try:
        return MemberId(name, incarnation)
    except (ValueError, TypeError, AttributeError):
        raise ConfigurationError("name", name, NAME_REMEDY) from None


def _stem(cluster: str, group: str, name: str) -> str:
    """A file name that is readable, and unique for cluster, group and name."""
    digest = blake2b("\0".join((cluster, group, name)).encode(), digest_size=6).hexdigest()
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)
    return f"{plain[:40]}-{digest}"


def _hold(lock: int, name: str, group: str, state: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "?"
        raise NameInUse(name, group, f"on this machine (pid {owner})") from None
    except OSError as error:
        raise _unusable(state, error) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)


def _read(path: Path, state: str) -> Kept | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(state, error) from error
    except (msgspec.DecodeError, ValueError) as error:
        remedy = f"restore {path.name}, or remove it if the clock of this machine is right"
        raise StateError(state, f"{path.name} is damaged ({error})", remedy) from error


def _write(folder: Path, stem: str, kept: Kept, state: str) -> None:
    temporary = folder / f"{stem}.tmp"
    try:
        with temporary.open("wb") as out:
            out.write(msgspec.json.encode(kept))
            out.flush()
            os.fsync(out.fileno())
        temporary.rename(folder / f"{stem}.json")
        above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(above)
        finally:
            os.close(above)
    except OSError as error:
        raise _unusable(state, error) from error


def _unusable(state: str, error: OSError) -> StateError:
    problem = error.strerror or str(error)
    return StateError(state, problem, "give a directory that this process may write to")
