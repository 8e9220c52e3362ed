"""The header of a new journal, and the error for a journal that cannot be written."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from phalanx.core.ids import MemberId
from phalanx.errors import JournalError
from phalanx.journal.schema import SCHEMA_VERSION
from phalanx.journal.segment import Header

BODIES_KEPT = "journal_bodies"
"""In the configuration of a header: the journal keeps bodies."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_REMEDIES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room, or raise the quota",
    errno.EFBIG: "raise the limit on file sizes, or lower segment_bytes",
    errno.EACCES: "choose a folder that this process may write to",
    errno.EPERM: "choose a folder that this process may write to",
    errno.EROFS: "choose a folder that this process may write to",
    errno.ENOTDIR: "choose a folder",
    errno.EEXIST: "choose another folder, or give the member a new incarnation",
    errno.ENOENT: "make the folder again",
    errno.EMFILE: "raise the limit on open files",
    errno.EIO: "check the disk",
}


def first_header(cluster: str, group: str, member: MemberId, config: Mapping[str, Any]) -> Header:
    """Of the first segment of a new journal."""
    return Header(
        journal=uuid4().hex,
        cluster=cluster,
        group=group,
        member=member.name,
        incarnation=member.incarnation,
        number=1,
        schema=SCHEMA_VERSION,
        wall_ns=time.time_ns(),
        mono_ns=time.monotonic_ns(),
        boot_id=boot_id(),
        config=dict(config),
    )


def boot_id() -> str:
    """Names this boot of this machine; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def remedy(error: OSError) -> str:
    return _REMEDIES.get(error.errno or 0, "check the disk")


def refused(path: Path, error: OSError) -> JournalError:
    """What is raised when a journal cannot be opened."""
    if error.errno == errno.EEXIST and path.exists() and not path.is_dir():
        error = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    problem = f"the journal cannot be written ({error.strerror or error})"
    return JournalError(str(error.filename or path), None, problem, remedy(error))
