"""The columns that every table of a journal has."""

from __future__ import annotations

from typing import Literal

import msgspec

ProfileName = Literal["T", "S"]
"""What writes the journal: a member of a group, or a process of the membership service."""


class Row(msgspec.Struct, frozen=True, kw_only=True, tag_field="table", gc=False):
    """Columns that every table has."""

    run: str
    profile: ProfileName
    group: str
    member: str
    incarnation: int
    lseq: int
    step: int
    t_ns: int
    sim_ns: int | None = None
