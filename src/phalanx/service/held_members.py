"""The members of one interface, found by group, by call and by client."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView

from phalanx.service.effects import HeldMembership


class HeldMembers:
    """By member id. Every question costs what its answer holds, whatever else the interface has."""

    def __init__(self) -> None:
        self._all: dict[str, HeldMembership] = {}
        self._of_group: dict[str, dict[str, None]] = {}
        self._of_client: dict[str, dict[str, None]] = {}
        self._of_call: dict[str, dict[str, None]] = {}
        self._over: dict[str, None] = {}
        self._unbound: dict[str, None] = {}
        self._with_parent: dict[str, None] = {}

    def __contains__(self, member: str) -> bool:
        return member in self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, member: str) -> HeldMembership:
        return self._all[member]

    def get(self, member: str) -> HeldMembership | None:
        return self._all.get(member)

    def items(self) -> ItemsView[str, HeldMembership]:
        return self._all.items()

    def values(self) -> ValuesView[HeldMembership]:
        return self._all.values()

    def __setitem__(self, member: str, held: HeldMembership) -> None:
        known = self.get(member)
        if known is not None:
            self._forget(known)
        self._all[member] = held
        self._of_group.setdefault(held.uid, {})[member] = None
        self._of_call.setdefault(held.call, {})[member] = None
        if held.over:
            self._over[member] = None
        else:
            self._of_client.setdefault(client_of(held), {})[member] = None
        if not held.uid:
            self._unbound[member] = None
        if held.parent and not held.over:
            self._with_parent[member] = None

    def __delitem__(self, member: str) -> None:
        self._forget(self[member])
        self._over.pop(member, None)
        del self._all[member]

    def of_group(self, uid: str) -> list[HeldMembership]:
        """Those of a group that are not over."""
        return [self[m] for m in self._of_group.get(uid, ()) if not self[m].over]

    def of_client(self, client: str) -> list[str]:
        """Those of a client that are not over."""
        return sorted(self._of_client.get(client, ()))

    def of_call(self, call: str) -> list[HeldMembership]:
        return [self[m] for m in self._of_call.get(call, ())]

    @property
    def over(self) -> list[str]:
        """Those whose membership has ended, the first to end first."""
        return list(self._over)

    @property
    def over_count(self) -> int:
        return len(self._over)

    @property
    def with_parent(self) -> list[HeldMembership]:
        """Those of subgroups that are not over."""
        return [self[m] for m in sorted(self._with_parent)]

    @property
    def unbound(self) -> list[str]:
        """Those whose group is not known yet."""
        return list(self._unbound)

    def _forget(self, held: HeldMembership) -> None:
        member = held.member
        self._unbound.pop(member, None)
        self._with_parent.pop(member, None)
        for index, key in (
            (self._of_group, held.uid),
            (self._of_call, held.call),
            (self._of_client, client_of(held)),
        ):
            of_key = index.get(key)
            if of_key is not None:
                of_key.pop(member, None)
                if not of_key:
                    del index[key]


def client_of(held: HeldMembership) -> str:
    """The client of a member; ids of its calls begin with its token."""
    return held.call.rpartition("/")[0]
