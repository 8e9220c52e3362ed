"""Deadlines: integer nanoseconds of the clock that is passed in as `now`."""

NEVER = 1 << 62
"""A deadline that never comes."""
