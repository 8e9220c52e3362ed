"""Journals of a group made by hand: all members in one view, messages in one order."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.journal import schema as ev

VIEW = "1.0:v1"


class MadeGroup:
    """Each message is delivered by each member at once. Every member is incarnation 1."""

    def __init__(self, *names: str, group: str = "g") -> None:
        self.names = names
        self.group = group
        self.rows: dict[str, list[ev.Event]] = {name: [] for name in names}
        self._numbers = dict.fromkeys(names, 0)
        self._pos = 0
        self._view, self._count = VIEW, 1
        for name in names:
            self.put(name, ev.Life, op="START")
            self.install(name, VIEW, 1, None, names)

    def put(self, name: str, table: type[ev.Row], **columns: Any) -> MadeGroup:
        lseq = len(self.rows[name]) + 1
        common: dict[str, Any] = {"run": "r", "profile": "T", "group": self.group, "member": name}
        common |= {"incarnation": 1, "lseq": lseq, "step": lseq, "t_ns": lseq}
        self.rows[name].append(table(**common, **columns))  # type: ignore[arg-type]
        return self

    def install(
        self, name: str, view: str, joins: int, previous: str | None, members: tuple[str, ...]
    ) -> None:
        known: dict[str, Any] = {"view": view, "joins": joins, "removals": 0, "context": ""}
        known |= {"members": list(members), "member_incarnations": [1] * len(members)}
        known |= {"transitional": list(members), "transitional_incarnations": [1] * len(members)}
        self.put(name, ev.ViewInstalled, **known, cause="join", previous=previous)

    def say(self, sender: str, count: int, only: tuple[str, ...] | None = None) -> MadeGroup:
        """Messages that all members deliver, or only some of them."""
        first = self._numbers[sender] + 1
        last = self._numbers[sender] = first + count - 1
        span: dict[str, Any] = {"first": first, "last": last, "service": "AGREED"}
        span |= {"view": self._view, "phase": 0, "frame": last}
        for name in only if only is not None else self.names:
            told: dict[str, Any] = {"sender": sender, "sender_incarnation": 1, "batch": 1}
            told |= {"region": "REGULAR", "origin": self._view, "pos": self._pos}
            self.put(name, ev.Deliver, **span, **told)
        self._pos += count
        return self

    def close(self, *names: str) -> MadeGroup:
        """These members, or all, install the next view."""
        going = names or self.names
        self._count += 1
        view = f"{self._count}.0:v{self._count}"
        for name in going:
            self.install(name, view, self._count, self._view, going)
        self.names, self._view, self._pos = going, view, 0
        return self

    def swap(self, name: str) -> list[ev.Event]:
        """The rows of a member, with its first two deliveries in the other order."""
        rows = list(self.rows[name])
        at = [i for i, row in enumerate(rows) if isinstance(row, ev.Deliver)][:2]
        one, two = (rows[i] for i in at)
        assert isinstance(one, ev.Deliver)
        assert isinstance(two, ev.Deliver)
        rows[at[0]] = msgspec.structs.replace(two, lseq=one.lseq, pos=one.pos)
        rows[at[1]] = msgspec.structs.replace(one, lseq=two.lseq, pos=two.pos)
        return rows
