"""Attributes of groups and members: typed values under short keys, bounded in number and size.

A group's attributes hold its rules, its scopes and the rights of everyone; a member's hold its
rights. All other keys belong to the application. Selectors and partition rules read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from phalanx.service.calls.call_errors import BadArgument, TooLarge
from phalanx.service.calls.rights import RIGHT_PREFIX, RIGHTS
from phalanx.service.rules.rule_parser import parse_rule
from phalanx.service.rules.rule_syntax import WHOLE_MAX, AttributeValue

KEYS_MAX = 64
BYTES_MAX = 4096
"""Keys and values together; a number counts as 8 bytes, true and false as one."""
KEY_LENGTH_MAX = 64

RULE_KEYS = ("survive", "merge", "merge_with")
GROUP_KEYS = ("scope", "membership_scope", *RULE_KEYS, "parent_group", "default_rights")
"""Keys of a group that the service reads. Their values are strings."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

Attributes = Mapping[str, AttributeValue]
Changes = Mapping[str, AttributeValue | None]
"""New values of some attributes; None removes one."""


def encoded_attributes(attributes: Attributes) -> dict[str, str]:
    """The attributes as text, as they travel: each value as JSON, which keeps its type."""
    return {key: json.dumps(value, ensure_ascii=False) for key, value in attributes.items()}


def decoded_attributes(texts: Mapping[str, str]) -> dict[str, AttributeValue]:
    """The reverse of `encoded_attributes`. A text that is no value stands for itself: a peer
    may have sent anything."""
    return {key: _decoded(text) for key, text in texts.items()}


def _decoded(text: str) -> AttributeValue:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str | int) else text


def check_group_changes(field: str, changes: object) -> dict[str, AttributeValue | None]:
    """Changes of a group's attributes. BadArgument, BadRule or TooLarge if they cannot be."""
    checked = _check_changes(field, changes)
    for key in GROUP_KEYS:
        value = checked.get(key)
        if value is not None and not isinstance(value, str):
            raise BadArgument(f"{field}.{key} must be a string")
        if key in RULE_KEYS and isinstance(value, str):
            parse_rule(value)
    for right in _listed(checked.get("default_rights")):
        if right not in RIGHTS:
            known = ", ".join(RIGHTS)
            raise BadArgument(f"{field}.default_rights: no right {right!r}; rights are {known}")
    return checked


def check_member_changes(field: str, changes: object) -> dict[str, AttributeValue | None]:
    """Changes of a member's attributes. BadArgument or TooLarge if they cannot be."""
    checked = _check_changes(field, changes)
    for key, value in checked.items():
        if not key.startswith(RIGHT_PREFIX):
            continue
        if key.removeprefix(RIGHT_PREFIX) not in RIGHTS:
            known = ", ".join(RIGHTS)
            raise BadArgument(f"{field}.{key}: no such right; rights are {known}")
        if value is not None and not isinstance(value, bool):
            raise BadArgument(f"{field}.{key} must be true or false")
    return checked


def changed_attributes(
    field: str, before: Attributes, changes: Changes
) -> dict[str, AttributeValue]:
    """The attributes after the changes. TooLarge if they would exceed a limit."""
    after = dict(before)
    for key, value in changes.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    _check_size(field, after)
    return after


def _check_changes(field: str, changes: object) -> dict[str, AttributeValue | None]:
    if not isinstance(changes, Mapping):
        raise BadArgument(f"{field} must be a mapping of keys to values")
    checked = {_key(field, key): _value(field, key, value) for key, value in changes.items()}
    _check_size(field, {key: value for key, value in checked.items() if value is not None})
    return checked


def _key(field: str, key: object) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise BadArgument(
            f"{field}: key {key!r:.40} must be a letter or _, then letters, digits, _, . or -"
        )
    if len(key) > KEY_LENGTH_MAX:
        raise TooLarge(f"{field}: a key of {len(key)} characters, at most {KEY_LENGTH_MAX}")
    return key


def _value(field: str, key: str, value: object) -> AttributeValue | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > WHOLE_MAX:
            raise TooLarge(f"{field}.{key}: a number beyond {WHOLE_MAX}")
        return value
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise BadArgument(f"{field}.{key} has characters that are not UTF-8")
        return value
    raise BadArgument(f"{field}.{key} must be a string, a whole number, true or false")


def _check_size(field: str, attributes: Attributes) -> None:
    if len(attributes) > KEYS_MAX:
        raise TooLarge(f"{field}: {len(attributes)} keys, at most {KEYS_MAX}")
    size = sum(len(key) + _bytes_of(value) for key, value in attributes.items())
    if size > BYTES_MAX:
        raise TooLarge(f"{field}: {size} bytes, at most {BYTES_MAX}")


def _bytes_of(value: AttributeValue) -> int:
    if isinstance(value, str):
        return len(value.encode())
    return 1 if isinstance(value, bool) else 8


def _listed(value: AttributeValue | None) -> list[str]:
    return value.replace(",", " ").split() if isinstance(value, str) else []
