"""Catalogue of the guaranteed properties: name, meaning, services, evidence, judging programs.

Every program that names, prints or judges properties takes them from CATALOGUE: the checkers,
`phalanx check`, `phalanx audit`, the report page, the simulator, campaigns and the explorer.
docs/protocol/properties.md states each property in full under the same name; docs/guarantees.md
states them for users.

A verdict is `holds` if rows tested the property and none contradicts it, `violated` if rows
contradict it, and `unverifiable` otherwise: a property that was never tested is not proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Literal

Verdict = Literal["holds", "violated", "unverifiable"]


class Needs(Flag):
    """Evidence that a property needs before it can be verified."""

    ONE_JOURNAL = 0
    """The journal of one member is enough, whatever the others did."""
    ALL_JOURNALS = auto()
    """The journals of all members that a view names."""
    SETTLED_RUN = auto()
    """A run at whose end nothing more would happen. Only a simulator knows that."""
    TWO_VIEWS = auto()
    """Some member installs a second view."""
    MODE_HOLD = auto()
    """The members run in mode `hold`; mode `flow` does not promise the property."""
    SIMULATION = auto()
    """Settings of the members that journals do not record."""


class Judges(Enum):
    """Which programs judge a property."""

    TWO_PROGRAMS = "two programs"
    """The checkers, and independently the audit on Spark."""
    ONE_PROGRAM = "one program"
    """The checkers. The audit runs the same checkers on the same rows."""
    CHECKERS_ONLY = "the checkers only"
    """The checkers. The audit reports the property as unverifiable."""


@dataclass(frozen=True, slots=True)
class Property:
    """One guarantee."""

    name: str
    meaning: str
    """One sentence for people, without a full stop."""
    services: tuple[str, ...]
    """The delivery services it concerns; empty if it is about views, lives or queues."""
    needs: Needs
    judges: Judges


ALL = ("basic", "causal", "agreed", "safe")
CAUSAL = ("causal", "agreed", "safe")
AGREED = ("agreed", "safe")
SAFE = ("safe",)
VIEWS: tuple[str, ...] = ()

_ONE, _ALL = Needs.ONE_JOURNAL, Needs.ALL_JOURNALS
_CHANGE = _ALL | Needs.TWO_VIEWS
_SETTLED = _ALL | Needs.SETTLED_RUN

_SAME, _TWO, _SIM = Judges.ONE_PROGRAM, Judges.TWO_PROGRAMS, Judges.CHECKERS_ONLY

CATALOGUE: tuple[Property, ...] = (
    Property(
        "self-inclusion",
        "a member belongs to every view it installs",
        *(VIEWS, _ONE, _SAME),
    ),
    Property(
        "local-monotonicity",
        "each view of a member is newer than its previous one",
        *(VIEWS, _ONE | Needs.TWO_VIEWS, _SAME),
    ),
    Property(
        "initial-view",
        "a member sends and delivers only in the view it is in",
        *(ALL, _ONE, _TWO),
    ),
    Property(
        "vid-sanity",
        "a view id means the same view at all members",
        *(VIEWS, _ALL, _SAME),
    ),
    Property(
        "mutual-agreement",
        "members that keep each other install the same next view",
        *(VIEWS, _CHANGE, _SAME),
    ),
    Property(
        "integrity",
        "a delivered message was sent before, with the same content",
        *(ALL, _ALL, _TWO),
    ),
    Property(
        "no-duplication",
        "no member delivers a message twice",
        *(ALL, _ONE, _TWO),
    ),
    Property(
        "sending-view",
        "a message is delivered in the view it was sent in (mode hold)",
        *(ALL, _ALL | Needs.MODE_HOLD, _TWO),
    ),
    Property(
        "same-view",
        "members that share both views deliver a message in the same view",
        *(CAUSAL, _ALL, _TWO),
    ),
    Property(
        "virtual-synchrony",
        "members with the same next view delivered the same messages",
        *(CAUSAL, _CHANGE, _TWO),
    ),
    Property(
        "transitional-set",
        "a new view names the members that came from the same previous view",
        *(VIEWS, _CHANGE, _SAME),
    ),
    Property(
        "self-delivery",
        "a member delivers its own messages",
        *(ALL, _ALL, _TWO),
    ),
    Property(
        "fifo",
        "messages of one sender are delivered in the order they were sent",
        *(CAUSAL, _ONE, _TWO),
    ),
    Property(
        "causal",
        "the causes of a message are delivered before it",
        *(CAUSAL, _ALL, _TWO),
    ),
    Property(
        "reliable-causal",
        "no cause of a delivered message is missing",
        *(CAUSAL, _ALL, _TWO),
    ),
    Property(
        "weak-total-order",
        "members with the same next view delivered in the same order",
        *(AGREED, _CHANGE, _TWO),
    ),
    Property(
        "running-prefix",
        "agreed and safe messages have one order at all members",
        *(AGREED, _ALL, _TWO),
    ),
    Property(
        "toto-refinement",
        "batches of the total order are sorted and the same at all members",
        *(AGREED, _ALL, _TWO),
    ),
    Property(
        "safe-prefix",
        "a safe message is delivered only when all members have it",
        *(SAFE, _ALL, _TWO),
    ),
    Property(
        "safe-marker",
        "members with the same next view saw the marker at the same place",
        *(SAFE, _CHANGE, _TWO),
    ),
    Property(
        "no-view-crossing-inversion",
        "no message is delivered in a view before that of its cause",
        *(CAUSAL, _CHANGE, _TWO),
    ),
    Property(
        "basic",
        "a basic message was sent, and is delivered at most once",
        *(("basic",), _ALL, _TWO),
    ),
    Property(
        "membership-precision",
        "members that can reach each other end in one common view",
        *(VIEWS, _SETTLED, _SAME),
    ),
    Property(
        "multicast-liveness",
        "every message is delivered by all members it is addressed to",
        *(ALL, _SETTLED, _TWO),
    ),
    Property(
        "termination-of-delivery",
        "no delivery is delayed indefinitely",
        *(ALL, _SETTLED, _TWO),
    ),
    Property(
        "safe-indication-liveness",
        "every safe message becomes safe",
        *(SAFE, _SETTLED, _TWO),
    ),
    Property(
        "protocol-termination",
        "every view change comes to an end",
        *(VIEWS, _SETTLED | Needs.TWO_VIEWS, _SAME),
    ),
    Property(
        "bounded-views",
        "views stop changing soon after the network does",
        *(VIEWS, _SETTLED, _SAME),
    ),
    Property(
        "receipt-truth",
        "a receipt is true: messages are ordered, stable or delivered",
        *(ALL, _ALL, _TWO),
    ),
    Property(
        "receipt-liveness",
        "every sender gets a receipt for every message it sent",
        *(ALL, _SETTLED, _TWO),
    ),
    Property(
        "not-sent-liveness",
        "addressed members that are gone are reported to the sender",
        *(ALL, _ALL, _TWO),
    ),
    Property(
        "view-delta-truth",
        "a view reports correctly which members joined and left",
        *(VIEWS, _ONE, _SAME),
    ),
    Property(
        "merge-report-truth",
        "a merged view reports correctly what each component had delivered",
        *(ALL, _CHANGE, _TWO),
    ),
    Property(
        "no-needless-stop",
        "a member stops only on request or because its name is in use",
        *(VIEWS, _CHANGE, _SAME),
    ),
    Property(
        "accepted-is-sent",
        "every accepted message is sent, or refused with a reason",
        *(ALL, _ONE, _TWO),
    ),
    Property(
        "bounded-window",
        "no member has more in flight than its flow-control window allows",
        *(ALL, _ALL | Needs.SIMULATION, _SIM),
    ),
)
"""In the order in which they are printed."""

PROPERTIES: tuple[str, ...] = tuple(p.name for p in CATALOGUE)
BY_NAME: dict[str, Property] = {p.name: p for p in CATALOGUE}
MEANING: dict[str, str] = {p.name: p.meaning for p in CATALOGUE}


def needing(evidence: Needs) -> frozenset[str]:
    """The names of the properties that need this evidence."""
    return frozenset(p.name for p in CATALOGUE if evidence in p.needs)


def judged_by(judges: Judges) -> tuple[str, ...]:
    """The names of the properties that these programs judge, in the order of the catalogue."""
    return tuple(p.name for p in CATALOGUE if p.judges is judges)


FIXED_VIEW: tuple[str, ...] = tuple(p.name for p in CATALOGUE if Needs.TWO_VIEWS not in p.needs)
"""The properties that rows can test while no member installs a second view."""
