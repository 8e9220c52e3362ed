"""The seventeen calls of the service (S3 II.C, Table 2) as one table.

The table drives the client, the command `phalanx ms CALL`, the validation at the server and
docs/service/calls.md, so that they cannot differ. An argument without a default is required.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.service.rules.rule_syntax import AttributeValue

ArgumentType = Literal[
    "name",
    "group",
    "groups",
    "member",
    "view",
    "selector",
    "group properties",
    "member properties",
    "level",
    "address",
    "body",
    "flag",
]
Category = Literal["create and change", "query", "communicate", "join and leave"]


class Required(msgspec.Struct, frozen=True):
    """The default of an argument that has none."""


REQUIRED = Required()


class CallArgument(msgspec.Struct, frozen=True):
    name: str
    type: ArgumentType
    default: AttributeValue | Required | None = REQUIRED
    meaning: str = ""

    @property
    def required(self) -> bool:
        return isinstance(self.default, Required)


class CallSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One call: its arguments in the order of the Python method, the fields of its result, the
    right that the caller needs in the group, and the errors beside `COMMON_ERRORS`."""

    name: str
    category: Category
    meaning: str
    arguments: tuple[CallArgument, ...]
    result: tuple[str, ...]
    right: str | None = None
    right_note: str = ""
    errors: tuple[str, ...] = ()

    @property
    def reads(self) -> bool:
        return self.category == "query"


COMMON_ERRORS = ("no-such-group", "unavailable", "denied", "bad-argument", "too-large")
"""Errors of every call."""

_GROUP = CallArgument("group", "group", meaning="name or uid of the group")
_MEMBER = CallArgument("member", "member", meaning="id of the member")
_VIEW = CallArgument("view", "view", None, "id of a view; default the current one")
_SELECTOR = CallArgument("selector", "selector", "", "conditions on attributes; default all")
_LINEAR = CallArgument(
    "linear", "flag", False, "ask the owner of the group, not the nearest mserver that has it"
)

_CREATE_AND_CHANGE = (
    CallSpec(
        name="create_group",
        category="create and change",
        meaning="Create a group without members in its scope; with `parent_group` a subgroup.",
        arguments=(
            CallArgument("name", "name", meaning="unique in the scope"),
            CallArgument("properties", "group properties", None, "attributes of the group"),
        ),
        result=("uid", "vid"),
        right_note="with `parent_group`: split in the parent",
        errors=("name-in-use", "bad-scope", "bad-rule"),
    ),
    CallSpec(
        name="set_group_attributes",
        category="create and change",
        meaning="Change attributes of a group, its scope too; a value of null removes one.",
        arguments=(_GROUP, CallArgument("properties", "group properties", meaning="changes")),
        result=("vid",),
        right="attr",
        errors=("bad-scope", "bad-rule"),
    ),
    CallSpec(
        name="delete_group",
        category="create and change",
        meaning="End a group; its members are informed.",
        arguments=(_GROUP,),
        result=("vid",),
        right="delete",
    ),
    CallSpec(
        name="set_member_attributes",
        category="create and change",
        meaning="Change attributes of a member; a value of null removes one.",
        arguments=(
            _GROUP,
            _MEMBER,
            CallArgument("properties", "member properties", meaning="changes"),
        ),
        result=("vid",),
        right="attr",
        right_note="own attributes: none; `right.*`: admin",
        errors=("no-such-member",),
    ),
    CallSpec(
        name="split_group",
        category="create and change",
        meaning="Replace a group by two.",
        arguments=(
            _GROUP,
            CallArgument("child_1", "name", meaning="gets the members that match"),
            CallArgument("child_2", "name", meaning="gets the others"),
            CallArgument("by", "selector", "", "default: alternate ranks"),
        ),
        result=("uid_1", "uid_2"),
        right="split",
        errors=("name-in-use", "not-whole"),
    ),
    CallSpec(
        name="merge_group",
        category="create and change",
        meaning="Replace two groups of one scope by one.",
        arguments=(
            CallArgument("group_1", "group", meaning="name or uid"),
            CallArgument("group_2", "group", meaning="name or uid"),
            CallArgument("new", "name", meaning="name of the new group"),
        ),
        result=("uid",),
        right="merge",
        right_note="in both groups",
        errors=("name-in-use", "scope-mismatch", "not-whole"),
    ),
)

_QUERY = (
    CallSpec(
        name="is_member",
        category="query",
        meaning="Whether a member is in a view of a group, and its rank.",
        arguments=(_MEMBER, _GROUP, _VIEW, _LINEAR),
        result=("is_member", "rank"),
        right="read",
        errors=("unknown-view",),
    ),
    CallSpec(
        name="get_view",
        category="query",
        meaning="The current view of a group.",
        arguments=(_GROUP, _LINEAR),
        result=("vid", "members", "ranks"),
        right="read",
    ),
    CallSpec(
        name="get_list",
        category="query",
        meaning="The members of a view that match a selector, in rank order.",
        arguments=(_GROUP, _SELECTOR, _VIEW, _LINEAR),
        result=("members",),
        right="read",
        errors=("unknown-view",),
    ),
    CallSpec(
        name="get_groups",
        category="query",
        meaning="The groups that the set on one level above this host owns.",
        arguments=(
            CallArgument("level", "level", meaning="1 is the level of LAN mservers"),
            CallArgument("member", "member", None, "only groups with this member"),
            CallArgument("selector", "selector", "", "conditions on attributes of the groups"),
            _LINEAR,
        ),
        result=("names", "uids"),
        right="read",
        errors=("bad-level",),
    ),
    CallSpec(
        name="get_member_attributes",
        category="query",
        meaning="The attributes of a member.",
        arguments=(_GROUP, _MEMBER, _LINEAR),
        result=("properties",),
        right="read",
        errors=("no-such-member",),
    ),
    CallSpec(
        name="get_group_attributes",
        category="query",
        meaning="The attributes of a group.",
        arguments=(_GROUP, _LINEAR),
        result=("properties",),
        right="read",
    ),
    CallSpec(
        name="get_sites",
        category="query",
        meaning="The sites of groups: interface, LAN mserver, set and address of each member.",
        arguments=(CallArgument("groups", "groups", meaning="names or uids"), _LINEAR),
        result=("sites",),
        right="read",
    ),
    CallSpec(
        name="get_gsites",
        category="query",
        meaning="The sites of the members of a group that match a selector.",
        arguments=(_GROUP, _SELECTOR, _LINEAR),
        result=("sites",),
        right="read",
    ),
)

_COMMUNICATE = (
    CallSpec(
        name="send_msg",
        category="communicate",
        meaning="Send a message to the members that match; at most once to each, in no order.",
        arguments=(_GROUP, CallArgument("body", "body", meaning="bytes"), _SELECTOR),
        result=("vid", "addressed", "answered"),
        right="send",
        errors=("no-match",),
    ),
)

_JOIN_AND_LEAVE = (
    CallSpec(
        name="join_group",
        category="join and leave",
        meaning="Become a member of a group.",
        arguments=(
            CallArgument("name", "group", meaning="name or uid of the group"),
            CallArgument(
                "address", "address", "", "how members reach this one; get_sites shows it"
            ),
            CallArgument("properties", "member properties", None, "attributes of the member"),
            CallArgument("create", "flag", True, "create the group if it does not exist"),
        ),
        result=("member", "uid", "vid", "members"),
        right="join",
        errors=("out-of-scope", "name-in-use"),
    ),
    CallSpec(
        name="leave_group",
        category="join and leave",
        meaning="End the membership of a member, or of all that match.",
        arguments=(
            CallArgument("name", "group", meaning="name or uid of the group"),
            CallArgument("member", "member", None, "id of the member"),
            CallArgument("selector", "selector", None, "or conditions on attributes"),
        ),
        result=("vid",),
        right_note="own members: none; others: admin",
        errors=("no-such-member",),
    ),
)

CALLS: dict[str, CallSpec] = {
    spec.name: spec for spec in (*_CREATE_AND_CHANGE, *_QUERY, *_COMMUNICATE, *_JOIN_AND_LEAVE)
}
