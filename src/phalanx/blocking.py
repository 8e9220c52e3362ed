"""The blocking API: the names of the asyncio API, for programs without an event loop."""

from phalanx.api.blocking_group import Group, Receipt, join

__all__ = ["Group", "Receipt", "join"]
