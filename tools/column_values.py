"""The values of columns that have only a few, from the code, with a sentence for each.

A column whose annotation is a Literal has the values of it; `OPEN` has columns of plain text whose
values the code lists elsewhere. `column_values` fails with AssertionError if the code has a value
that is not described here, or lacks one that is, so that docs/tables.md cannot drift from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from phalanx.config import Mode, Order
from phalanx.core.effects import Stopped
from phalanx.core.wire.packets import REASONS
from phalanx.journal.recorder import Recorder

FAILED = "failed"
"""What the runner gives as the reason of a stop after an error."""
STOP_REASONS = (
    *get_args(get_type_hints(Stopped)["reason"]),
    FAILED,
    inspect.signature(Recorder.stop).parameters["reason"].default,
)
OPEN: dict[tuple[str, str], tuple[str, ...]] = {
    ("refused", "reason"): REASONS,
    ("life", "reason"): STOP_REASONS,
    ("journals", "mode"): get_args(Mode),
    ("segments", "mode"): get_args(Mode),
    ("journals", "order"): get_args(Order),
    ("segments", "order"): get_args(Order),
}
MEANINGS: Sequence[Mapping[str, str]] = (
    {
        "BASIC": "In no particular order.",
        "CAUSAL": "After all messages that its sender had delivered.",
        "AGREED": "In one order at all members, and causal.",
        "SAFE": "Agreed, and delivered only when every member of the view has it.",
    },
    {"T": "A member of a group.", "S": "A process of the membership service."},
    {"SERVER": "A server (`phalanx mserver`).", "INTERFACE": "An interface (`phalanx mi`)."},
    {
        "FOUNDED": "The server began a component of the set.",
        "RESTORED": "It was on the disk when the process began.",
        "LAST": "What the process held when it ended as intended.",
    },
    {
        "CHANGE": "The same servers agreed, but for those that joined or asked to leave.",
        "FORK": "Servers that did not answer were left out.",
        "UNION": "Two components became one.",
        "ENTRY": "The server took the state over from others.",
    },
    {
        "RESTORED": "It was on the disk when the process began.",
        "TAKEN": "The interface took it.",
        "LAST": "It was its home when the process ended as intended.",
    },
    {
        "RESTORED": "It was on the disk when the process began.",
        "LAST": "It was there when the process ended as intended.",
    },
    {
        "REGULAR": "While the view is in use.",
        "TRANSITIONAL": "While the view closes: a safe message is known to be only at the members "
        "that move on together.",
    },
    {
        "boot": "The first view of a process.",
        "removal": "One view went on, without members that it lost; with all of them, if a join "
        "was given up after it was proposed.",
        "join": "Members joined, or components merged.",
        "role": "The same members, with other roles.",
    },
    {
        "OPERATIONAL": "Packets of it arrive directly.",
        "SUSPECTED": "It was silent for too long.",
        "SEMI": "It is reached only through other members (`relay`).",
        "FAULTY": "The next view will be without it.",
    },
    {
        "SILENCE": "No packets of it arrived.",
        "RELAY": "Other members hear it.",
        "DIRECT": "A packet of it arrived.",
        "STALLED": "Packets of it arrive, but it acknowledges nothing.",
        "T_CHANGE": "It did not answer a view change in time.",
        "TOLD": "Another member proposed its removal.",
        "MOVED": "It is in another view, or has removed this member.",
        "REPLACED": "A later process with its name has joined.",
        "OPERATOR": "An operator requested its removal.",
    },
    {
        "IDLE": "No other component takes part: members leave or are removed, or nothing changes.",
        "COLLECT": "Components that will merge are collected.",
        "COMMIT": "The merged view is proposed.",
    },
    {
        "START": "Begins a change and collects participants.",
        "FORGET": "Abandons the change.",
        "COMMIT": "Proposes the next view.",
        "FA": "Proposes to remove members: `failed_before` and `failed_after`.",
        "FOLLOW": "Accepts the proposal of another member.",
        "CLOSED": "Closes the view; the next one follows.",
        "LEAVE": "Requests to leave the group.",
    },
    {
        "UP": "A channel opened.",
        "DOWN": "A channel that was up broke, or was closed.",
        "REFUSED": "This member refused a channel.",
        "REJECTED": "The peer refused this member.",
    },
    {"CLOSED": "Submitting stopped.", "OPENED": "Submitting may go on."},
    {
        "START": "The process began.",
        "STOP": "It ended as intended (`reason`).",
        "CRASH": "It was ended from outside; only a simulator records that.",
    },
    {
        "left": "It left the group.",
        "name-in-use": "Another live process has its name.",
        "incarnation-used": "An earlier process had its name and incarnation.",
        "failed": "It stopped because of an error.",
        "ended": "The simulation ended.",
    },
    {
        "short": "Too few bytes for a header.",
        "version": "Another version of the protocol.",
        "cluster": "Another cluster on this address.",
        "group": "Another group of the cluster.",
        "settings": "This group, with other settings that must agree.",
        "kind": "A kind of packet that this version does not know.",
        "checksum": "Damaged on the way.",
        "malformed": "The content cannot be decoded.",
        "table": "It refers to a table of members that this member does not know.",
        "sender": "An index outside of the table, or this member's own.",
        "view": "A view that this member does not know.",
        "ahead": "Further ahead than the buffers reach; it is requested again later.",
        "vector": "It acknowledges what cannot be.",
        "conflict": "Fragments of one frame that do not fit together.",
        "impossible": "Control data that contradicts itself, or claims what cannot be.",
    },
    {
        "hold": "During a view change messages wait for the next view.",
        "flow": "Messages are sent during a view change too.",
    },
    {"toto": "Agreed order by ToTo.", "all-ack": "Agreed order by a frame of every member."},
    {
        "VIEW": "The member installed a view that ended it.",
        "STOP": "The journal ends with a stop.",
        "CRASH": "The journal ends with a crash; only a simulator records that.",
        "OPEN": "The journal ends without a stop: the member was killed, or is running.",
    },
    {
        "TRUST": "The observer trusted the target again.",
        "REMOVAL": "A view without the target.",
        "END": "The journal of the observer ends.",
    },
    {
        "RIGHT": "The target was down.",
        "APART": "It was up, and parted from the observer.",
        "MISTAKE": "It was up, and could be reached as far as is known.",
        "UNKNOWN": "Nothing shows it.",
    },
    {
        "LEFT": "It requested to leave.",
        "CRASHED": "It crashed; only a simulator records that.",
        "ENDED": "Its journal ends without a stop: it was killed, or the rest was not read.",
        "STOPPED": "Its journal ends in that view with a stop, without a request to leave.",
        "APART": "It went on to another view: it was alive.",
        "NEVER": "Its journal is complete, and has other views but not that one.",
        "UNKNOWN": "Its journal is missing, or lacks rows that might show it.",
    },
    {
        "SUSPECT": "Of `peer_suspicion`: a state since the target last was OPERATIONAL.",
        "STEP": "Of `view_change_step`.",
        "MARKER": "Of `transitional`.",
        "VIEW": "Of `view_installed`: the view without the target.",
    },
    {
        "KNOWN": "A simulator recorded the crash.",
        "ESTIMATED": "The journal ends without a stop: the crash came later.",
    },
    {"SELF": "Deliveries at the sender.", "OTHERS": "Deliveries at other members."},
    {"SIM": "Simulated time.", "WALL": "The wall clock of the member."},
    {
        "open": "Some members are still in the view.",
        "incomplete": "Judged although rows of members may be missing that were silent too long.",
        "closed": "Nothing about the view can follow.",
    },
    {
        "holds": "Rows put properties to the test, and none contradicts them.",
        "violated": "Rows contradict a property.",
        "unverifiable": "Neither: rows are missing, or nothing put it to the test.",
    },
)


class ColumnValues(NamedTuple):
    """Values that some columns share, with a sentence each."""

    columns: list[tuple[str, str]]
    """Tables and their columns."""
    meanings: Mapping[str, str]


def literal_values(hint: Any) -> tuple[str, ...]:
    """The values of a Literal, also of one that may be null; none for another type."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((found for arg in get_args(hint) if (found := literal_values(arg))), ())


def column_values(tables: Mapping[str, type]) -> list[ColumnValues]:
    """The values of all columns of these classes of rows, in the order of the sentences."""
    found: dict[frozenset[str], list[tuple[str, str]]] = {}
    for table, kind in tables.items():
        for column, hint in get_type_hints(kind).items():
            values = literal_values(hint) or OPEN.get((table, column), ())
            if values:
                found.setdefault(frozenset(values), []).append((table, column))
    known = {frozenset(meanings): meanings for meanings in MEANINGS}
    for some, columns in found.items():
        assert some in known, f"describe {sorted(some)} of {columns} in tools/column_values.py"
    for some in known:
        assert some in found, f"no column has {sorted(some)}: tools/column_values.py"
    return [ColumnValues(found[some], meanings) for some, meanings in known.items()]
