"""Opens the state of one mserver or interface: its lock, its incarnation and its records.

An mserver that comes back with its database is itself again, with the same incarnation; without it
it is another one. The incarnation of a new database is above all that this state directory has
seen, also if a damaged database was moved away or the clock was set back (`runtime/identity.py`).
"""

from __future__ import annotations

from pathlib import Path

from phalanx.core.ids import MemberId
from phalanx.errors import StateError
from phalanx.mserver.durable_rows import DurableRows
from phalanx.mserver.record_store import SqliteRecords
from phalanx.runtime.identity import Identity, identify


class OpenRecords:
    """The records of one process of the service, and the name that it holds until `close`."""

    def __init__(self, identity: Identity, records: SqliteRecords, name: str) -> None:
        self._identity = identity
        self.records = records
        self.me = MemberId(name, int(records.facts["incarnation"]))
        self.life = identity.member.incarnation
        """Grows with every start of a process with this name and state."""

    def close(self) -> None:
        """Close the database and release the name. Safe to call twice."""
        self.records.close()
        self._identity.close()


def open_records(cluster: str, kind: str, name: str, state: Path) -> OpenRecords:
    """The records of the mserver or interface (`kind`) with this name. StateError, StateDamaged or
    NameInUse if they cannot be used."""
    identity = identify(cluster, kind, name, str(state))
    try:
        facts = {
            "cluster": cluster,
            "kind": kind,
            "name": name,
            "incarnation": str(identity.member.incarnation),
        }
        return OpenRecords(
            identity, SqliteRecords(state / f"{kind}-{_plain(name)}.db", facts), name
        )
    except BaseException:
        identity.close()
        raise


def stored_rows(opened: OpenRecords, state: Path) -> DurableRows:
    """The records of an earlier life. StateError if they are of another version."""
    try:
        return DurableRows(opened.records.load())
    except ValueError as error:
        remedy = "use the version of phalanx that wrote it"
        raise StateError(str(state), str(error), remedy) from error


def _plain(name: str) -> str:
    """A file name that differs for any two names."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "-_") else f"%{ord(c):x}%" for c in name
    )
