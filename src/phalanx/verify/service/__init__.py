"""Checkers of the membership service on recorded rows (docs/guarantees.md)."""
