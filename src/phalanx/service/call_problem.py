"""What is wrong with a call as it arrives at a server, whoever has sent it.

Clients and interfaces check calls before they leave (`calls/argument_check.py`); a server cannot
rely on that. What passes here can be carried out: all texts that the machines parse can be parsed,
and all names are within their bounds.
"""

from __future__ import annotations

import base64
import binascii
import json

from phalanx.service.calls.argument_check import BODY_BYTES_MAX, checked_name
from phalanx.service.calls.attributes import (
    check_group_changes,
    check_member_changes,
    decoded_attributes,
)
from phalanx.service.calls.call_errors import BadArgument, BadRule, ServiceError, TooLarge
from phalanx.service.group_messages import GroupCall
from phalanx.service.rules.rule_parser import parse_selector
from phalanx.service.set_tree import SetTree
from phalanx.service.values import NUMBER_MAX, TEXT_LENGTH_MAX, interface_of, number_of

ID_LENGTH_MAX = TEXT_LENGTH_MAX - 32
"""Of the ids of calls and of new groups, to which servers append."""
ARGUMENTS_BYTES_MAX = 256 << 10
"""All arguments of one call."""


def call_problem(call: GroupCall, topology: SetTree) -> str:
    """The refusal of a call that cannot be carried out as it is; empty if it can."""
    try:
        _check(call, topology)
    except ServiceError as error:
        return clipped(f"{error.code}({error.detail})")
    return ""


def clipped(error: str) -> str:
    """A refusal that is not longer than a text may be."""
    return error if len(error) <= TEXT_LENGTH_MAX else f"{error[: TEXT_LENGTH_MAX - 4]}...)"


def _check(call: GroupCall, topology: SetTree) -> None:
    if call.interface not in topology.homes:
        raise BadArgument(f"interface: no {call.interface:.64} in the configuration")
    if max(len(call.id), len(call.new_uid)) > ID_LENGTH_MAX:
        raise TooLarge(f"id: more than {ID_LENGTH_MAX} characters")
    if sum(map(len, call.arguments.values())) > ARGUMENTS_BYTES_MAX:
        raise TooLarge(f"arguments: more than {ARGUMENTS_BYTES_MAX} characters")
    match call.kind:
        case "create":
            checked_name("name", call.name)
            check_group_changes("properties", _changes(call))
        case "set_group":
            check_group_changes("properties", _changes(call))
        case "join":
            check_member_changes("properties", _changes(call))
            is_own = interface_of(call.member) == call.interface
            if not is_own or not 0 < number_of(call.member) <= NUMBER_MAX:
                raise BadArgument("member: not one of the interface")
        case "set_member":
            check_member_changes("properties", _changes(call))
        case "split":
            for child in ("child_1", "child_2"):
                checked_name(child, call.arguments.get(child, ""))
            _check_selector(call, "by")
        case "merge":
            checked_name("new", call.arguments.get("new", ""))
        case "send":
            _check_body(call.arguments.get("body", ""))
            _check_selector(call, "selector")
        case _:
            _check_selector(call, "selector")


def _changes(call: GroupCall) -> dict[str, str | int | bool | None]:
    try:
        texts = json.loads(call.arguments.get("properties", "{}"))
    except (ValueError, RecursionError):
        raise BadArgument("properties: not a JSON object") from None
    if not isinstance(texts, dict) or not all(isinstance(t, str) for t in texts.values()):
        raise BadArgument("properties: not a JSON object of texts")
    removed: dict[str, str | int | bool | None] = {k: None for k, v in texts.items() if not v}
    return {**decoded_attributes({k: v for k, v in texts.items() if v}), **removed}


def _check_selector(call: GroupCall, key: str) -> None:
    try:
        parse_selector(call.arguments.get(key, ""))
    except BadRule as error:
        raise BadArgument(f"{key}: {error.detail}") from None


def _check_body(text: str) -> None:
    try:
        body = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadArgument("body: not base64") from None
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(f"body: {len(body)} bytes, at most {BODY_BYTES_MAX}")
