"""Catalogue of the properties of the membership service, as `properties` has those of groups.

The checkers (`verify.service`) and the audit (`pipeline.audit.service`) judge each of them, from
the same rows and independently of each other. `rule` is the name that the rules of the service and
its simulator use (docs/service/rules.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phalanx.verify.properties import Needs

NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class ServiceProperty:
    """One guarantee of the service."""

    name: str
    rule: str
    meaning: str
    """One sentence for people, without a full stop."""
    needs: Needs


_ONE, _ALL = Needs.ONE_JOURNAL, Needs.ALL_JOURNALS
_REST = _ALL | Needs.SETTLED_RUN

SERVICE_CATALOGUE: tuple[ServiceProperty, ...] = (
    ServiceProperty(
        "set-agreement", "agreement", "one state id means the same state at all servers", _ALL
    ),
    ServiceProperty(
        "set-commit-order", "order", "the numbers of a set's states grow at each server", _ONE
    ),
    ServiceProperty(
        "one-change-at-a-time", "order", "no server applies two changes on one state", _ONE
    ),
    ServiceProperty(
        "set-inclusion", "member", "a server is in every state of a set that it applies", _ONE
    ),
    ServiceProperty(
        "set-view-agreement", "GP", "servers that keep each other apply the same change", _ALL
    ),
    ServiceProperty(
        "stable-state-truth", "C4", "a stable state has been applied by all its servers", _ALL
    ),
    ServiceProperty(
        "change-termination", "E1", "every acknowledged change is decided or given up", _REST
    ),
    ServiceProperty("change-progress", "E2", "no change is overtaken by others without end", _REST),
    ServiceProperty(
        "view-chain", "P1", "a member gets only views that follow the one it has", _ONE
    ),
    ServiceProperty(
        "group-view-agreement", "P2", "members that keep each other get the same next view", _ALL
    ),
    ServiceProperty("view-numbers", "P3", "the numbers of a member's views grow", _ONE),
    ServiceProperty(
        "view-origin", "G4", "a view that members get was made by a set, with these members", _ALL
    ),
    ServiceProperty(
        "single-service",
        "P4",
        "no member is served by two owners of its group",
        _ALL | Needs.SIMULATION,
    ),
    ServiceProperty(
        "one-owner", "P5", "at rest a group has one owner, and it spans all members", _REST
    ),
    ServiceProperty("one-name", "P6", "at rest a group has one name, and a name one group", _REST),
    ServiceProperty(
        "view-precision", "P7", "at rest a view's members are those that hold it", _REST
    ),
    ServiceProperty(
        "joinable-groups", "P8", "at rest groups can be joined, and split by their creators", _REST
    ),
    ServiceProperty(
        "subgroup-inclusion", "PG", "at rest members of a subgroup are in the parent group", _REST
    ),
    ServiceProperty(
        "service-rest", "P9", "after the last fault the service comes to rest, whole", _REST
    ),
)
"""In the order in which they are printed."""

SERVICE_PROPERTIES: tuple[str, ...] = tuple(p.name for p in SERVICE_CATALOGUE)
SERVICE_BY_NAME: dict[str, ServiceProperty] = {p.name: p for p in SERVICE_CATALOGUE}


def missing_service_evidence(
    name: str, *, settled: bool, absent: Sequence[str], torn: Sequence[str], checked: int
) -> str:
    """Why a property that no row contradicts cannot be verified; empty if it holds.

    `checked` is how often rows tested it, `absent` and `torn` are the labels of processes."""
    needs = SERVICE_BY_NAME[name].needs
    if Needs.SETTLED_RUN in needs and not settled:
        return "journals do not show that the service has come to rest"
    if absent and Needs.ALL_JOURNALS in needs:
        return f"no journal of {_names(absent)}"
    if torn:
        return f"rows are missing of {_names(torn)}"
    if Needs.SIMULATION in needs and not checked:
        return "it is asked of simulations only"
    return "" if checked else "nothing put it to the test"


def _names(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - NAMED_MAX} more" if len(labels) > NAMED_MAX else ""
    return ", ".join(labels[:NAMED_MAX]) + more
