"""Agreed views: the membership protocol (docs/protocol/membership.md)."""
