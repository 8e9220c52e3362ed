"""Translation between the table of calls and the messages of the machines.

The machines see few kinds of calls, with arguments and results as texts. An argument or a result
that is not a plain text travels as JSON, so that numbers and truth values keep their type.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from phalanx.mserver.client_messages import CallReply
from phalanx.service.calls.attributes import encoded_attributes
from phalanx.service.group_messages import CallKind, CallResult, GroupCall

KINDS: dict[str, CallKind] = {
    "create_group": "create",
    "set_group_attributes": "set_group",
    "delete_group": "delete",
    "set_member_attributes": "set_member",
    "split_group": "split",
    "merge_group": "merge",
    "send_msg": "send",
    "join_group": "join",
    "leave_group": "leave",
}
"""The kind of each call; all others are reads."""
SUBJECTS = ("group", "name", "group_1")
"""The argument that names the group of a call."""


def group_call(
    id_: str, interface: str, call: str, arguments: Mapping[str, Any], new_uid: str
) -> GroupCall:
    """The message for a call whose arguments have been checked."""
    subject = next((arguments[key] for key in SUBJECTS if key in arguments), "")
    texts = {
        key: _text(key, value)
        for key, value in arguments.items()
        if value is not None and key not in (*SUBJECTS, "member")
    }
    properties = arguments.get("properties") or {}
    scope = properties.get("scope") if call == "create_group" else None
    kind = KINDS.get(call, "read")
    if kind == "read":
        texts["call"] = call
    return GroupCall(
        id=id_,
        kind=kind,
        interface=interface,
        name=subject,
        member=arguments.get("member") or "",
        scope=scope or "",
        arguments=texts,
        new_uid=new_uid,
    )


def call_reply(number: int, result: CallResult) -> CallReply:
    """The answer to the client."""
    if result.error:
        code, _, detail = result.error.partition("(")
        return CallReply(number, code, detail.removesuffix(")"))
    values: dict[str, Any] = {key: _value(text) for key, text in result.values.items()}
    if result.uid:
        values.setdefault("uid", result.uid)
    if result.vid is not None:
        values.setdefault("vid", str(result.vid))
    return CallReply(number, result=values)


def _text(key: str, value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if key == "properties":
        present = {name: each for name, each in value.items() if each is not None}
        removed = {name: "" for name, each in value.items() if each is None}
        return json.dumps(encoded_attributes(present) | removed, ensure_ascii=False)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(text: str) -> Any:
    """A result: JSON where it is a list, an object, a number or a truth value, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
