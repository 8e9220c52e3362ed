"""Fixtures for tests with real groups on the loopback interface."""

from tests.live_groups import api, group_name, nothing_is_left_behind

__all__ = ["api", "group_name", "nothing_is_left_behind"]
