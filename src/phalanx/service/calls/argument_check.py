"""Validation of the arguments of a call against the table, the same at client and server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.service.calls.attributes import check_group_changes, check_member_changes
from phalanx.service.calls.call_errors import BadArgument, TooLarge
from phalanx.service.calls.call_table import CALLS, CallArgument, CallSpec
from phalanx.service.rules.rule_parser import parse_selector

NAME_LENGTH_MAX = 128
GROUPS_MAX = 256
LEVEL_MAX = 16
BODY_BYTES_MAX = 32 << 10
ADDRESS_LENGTH_MAX = 256
RESERVED = "~"
"""Stands in names that the service makes, when two groups of one name meet."""


def checked_call(call: str, given: Mapping[str, object]) -> dict[str, object]:
    """All arguments of the call, defaults included. BadArgument, BadRule or TooLarge names the
    argument that is wrong."""
    spec = CALLS.get(call)
    if spec is None:
        raise BadArgument(f"call: there is no call {call!r:.40}; calls are {', '.join(CALLS)}")
    return checked_arguments(spec, given)


def checked_arguments(spec: CallSpec, given: Mapping[str, object]) -> dict[str, object]:
    """As `checked_call`, for a call of the table."""
    known = {argument.name for argument in spec.arguments}
    for name in given:
        if name not in known:
            wanted = ", ".join(argument.name for argument in spec.arguments)
            raise BadArgument(f"{name!r:.40}: {spec.name} has no such argument; it has {wanted}")
    checked = {argument.name: _argument(spec, argument, given) for argument in spec.arguments}
    if spec.name == "leave_group":
        if (checked["member"] is None) == (checked["selector"] is None):
            raise BadArgument("member: give either member or selector")
    return checked


def _argument(spec: CallSpec, argument: CallArgument, given: Mapping[str, object]) -> object:
    value = given.get(argument.name)
    if value is None:
        if argument.required:
            raise BadArgument(f"{argument.name}: {spec.name} needs it ({argument.meaning})")
        return argument.default
    match argument.type:
        case "name":
            return checked_name(argument.name, value)
        case "group" | "member" | "view":
            return _text(argument.name, value, NAME_LENGTH_MAX * 2, 1)
        case "groups":
            return _groups(argument.name, value)
        case "selector":
            parse_selector(_text(argument.name, value, 1 << 20, 0))
            return value
        case "group properties":
            return check_group_changes(argument.name, value)
        case "member properties":
            return check_member_changes(argument.name, value)
        case "level":
            return _level(argument.name, value)
        case "address":
            return _text(argument.name, value, ADDRESS_LENGTH_MAX, 0)
        case "body":
            return _body(argument.name, value)
        case "flag":
            if not isinstance(value, bool):
                raise BadArgument(f"{argument.name} must be true or false")
            return value


def _text(field: str, value: object, most: int, least: int) -> str:
    if not isinstance(value, str):
        raise BadArgument(f"{field} must be a string, not {type(value).__name__}")
    if len(value) > most:
        raise TooLarge(f"{field}: {len(value)} characters, at most {most}")
    if len(value) < least:
        raise BadArgument(f"{field} must not be empty")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise BadArgument(f"{field} has characters that are not UTF-8")
    return value


def checked_name(field: str, value: object) -> str:
    """A name that a new group may have. BadArgument or TooLarge names the field."""
    name = _text(field, value, NAME_LENGTH_MAX, 1)
    if not name.isprintable() or name != name.strip():
        raise BadArgument(f"{field} must be printable, without spaces at its ends")
    if RESERVED in name:
        raise BadArgument(f"{field} must not contain {RESERVED}: the service makes such names")
    return name


def _groups(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise BadArgument(f"{field} must be a list of names or uids")
    if not value:
        raise BadArgument(f"{field} must name at least one group")
    if len(value) > GROUPS_MAX:
        raise TooLarge(f"{field}: {len(value)} groups, at most {GROUPS_MAX}")
    return tuple(
        _text(f"{field}[{at}]", item, NAME_LENGTH_MAX * 2, 1) for at, item in enumerate(value)
    )


def _level(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LEVEL_MAX:
        raise BadArgument(f"{field} must be a whole number from 1 to {LEVEL_MAX}")
    return value


def _body(field: str, value: object) -> bytes:
    if not isinstance(value, bytes):
        raise BadArgument(f"{field} must be bytes, not {type(value).__name__}")
    if len(value) > BODY_BYTES_MAX:
        raise TooLarge(f"{field}: {len(value)} bytes, at most {BODY_BYTES_MAX}")
    return value
