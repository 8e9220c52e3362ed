"""Rows of reports to applications beside messages and views, as the chronicle reads them."""

from __future__ import annotations

import msgspec


class Side(msgspec.Struct):
    """A row of `merged_component`: what a merged view `v` reports of its component `w`."""

    member: str
    incarnation: int
    lseq: int
    view: str
    v: int
    component: str
    w: int
    members: list[str]
    delivered: list[str]
    delivered_upto: list[int]
    alone: list[str]
    alone_first: list[int]
    alone_last: list[int]


class Closing(msgspec.Struct):
    """A row of `stable` on own messages that names members, or of a step that installs a view, or
    of the last step."""

    member: str
    incarnation: int
    lseq: int
    step: int
    view: str
    v: int
    members: list[str] | None = None


class Receipts(msgspec.Struct):
    """The rows of `stable`, `ordered` or `all_delivered` of one member, counted, and the highest
    number."""

    member: str
    incarnation: int
    what: str
    rows: int
    upto: int


class QueueCounts(msgspec.Struct):
    """A row of `queue`."""

    member: str
    incarnation: int
    lseq: int
    accepted: int
    submitted: int
    refused: int
    reason: str | None = None


class Submitted(msgspec.Struct):
    """How many messages one member submitted after so many rows of its queue, and before the
    next."""

    member: str
    incarnation: int
    after: int
    count: int


class LastStep(msgspec.Struct):
    """The step of the last row of a journal that does not say that its member stopped."""

    member: str
    incarnation: int
    step: int


class Lost(msgspec.Struct):
    """How many rows of `not_sent` one member wrote."""

    member: str
    incarnation: int
    rows: int
