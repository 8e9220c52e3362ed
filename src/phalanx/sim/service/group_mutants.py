"""Mutants of groups, names and interfaces (docs/service/rules.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from phalanx.service import (
    call_desk,
    group_calls,
    group_claims,
    group_duties,
    group_moves,
    group_server,
    group_union,
    group_views,
    scope_calls,
    served_table,
    set_union,
    state_draft,
)
from phalanx.service.directive_sender import DirectiveSender
from phalanx.service.effects import Persist, SetRecord
from phalanx.service.entries import RegisterName
from phalanx.service.group_claims import GroupClaims
from phalanx.service.group_duties import without_want
from phalanx.service.group_messages import PathStep, Served
from phalanx.service.group_server import GroupServer
from phalanx.service.home_choice import HomeChoice
from phalanx.service.member_interface import MemberInterface
from phalanx.service.membership_book import MembershipBook
from phalanx.service.open_calls import OpenCalls
from phalanx.service.served_table import ServedTable
from phalanx.service.server_machine import Mserver
from phalanx.service.set_facts import SetFacts
from phalanx.service.set_speaker import SetSpeaker
from phalanx.service.values import GroupRecord, ServiceGroup, SetState, interface_of
from phalanx.sim.mutants.mutant import Patch
from phalanx.sim.service.simulated_hosts import SimServer

_groups: Callable[..., dict[str, GroupRecord]] = set_union._groups
_directed: Callable[..., list[Any]] = MemberInterface._directed
_bind: Callable[..., tuple[list[Any], list[Any]]] = OpenCalls.bind
_look: Callable[..., list[Any]] = DirectiveSender.look
_served: Callable[..., Served] = MembershipBook.served


def never_frozen(self: SetFacts, group: ServiceGroup) -> bool:
    return False


def claims_all(facts: SetFacts, group: ServiceGroup, without_owner: object) -> list[str]:
    return list(group.view.members)


def claims_nothing(self: GroupClaims, *facts: object) -> list[Any]:
    return []


def sees_no_strays(self: SetSpeaker, now: int, state: SetState, linked: bool) -> tuple[()]:
    return ()


def fits_always(group: ServiceGroup, member: str, last: object) -> bool:
    return True


def writes_nothing(self: MemberInterface, *message: Any) -> list[Any]:
    done = _directed(self, *message)
    return [e for e in done if not isinstance(e, Persist)]


def lower_number(preds: Any) -> int:
    return 1 + min((vid.number for vid in preds), default=0)


def unites_from_below(self: Mserver, now: int, state: SetState, view: Any, above: object) -> bool:
    mine = {m.name for m in state.view}
    return self._settled(now, state.set) and not any(m.name in mine for m in view)


def settled_always(self: GroupServer, now: int, logs: object, name: str) -> bool:
    return True


def never_repeated(draft: object, pend: object) -> bool:
    return False


def loses_nobody(facts: SetFacts, group: ServiceGroup) -> tuple[()]:
    return ()


def pends_become_owned(first: SetState, second: SetState) -> dict[str, GroupRecord]:
    out = {}
    for uid, record in _groups(first, second).items():
        for pend in record.pends:
            own = record.own or pend.group
            record = replace(record, own=own)
        out[uid] = replace(record, pends=())
    return out


def name_if_free(names: Any, group: ServiceGroup) -> RegisterName | None:
    return None if group.name in names else RegisterName(group.name, group.uid)


def later_name(first: Any, second: Any) -> dict[str, str]:
    return {**second, **first}


def forgets_uid(self: OpenCalls, now: int, id_: str, uid: str) -> Any:
    before = self.open.get(id_)
    records, calls = _bind(self, now, id_, uid)
    if before is not None:
        self.open[id_] = before
    return records, calls


def recalls_nothing(draft: object, above: object, scope: object = None) -> None:
    return None


def waits_for_own_server(self: HomeChoice, now: int) -> list[Any]:
    self._next_at = now + self._times.rehome_ns
    return []


def admits_nobody(facts: object, draft: object, record: object, own: ServiceGroup) -> ServiceGroup:
    return without_want(own)


def higher_epoch(x: ServiceGroup, y: ServiceGroup, *rest: Any, **more: Any) -> Any:
    return (x if x.epoch >= y.epoch else y), None


def keeps_first(self: SimServer, record: Any) -> None:
    if isinstance(record, SetRecord):
        self.disk.setdefault(record.state.set, record)
    else:
        self.disk.pop(record.set, None)


def reports_no_position(self: MembershipBook, last_number: int) -> Served:
    served = _served(self, last_number)
    return replace(served, positions=dict.fromkeys(served.positions))


def takes_from_anywhere(self: HomeChoice, step: object) -> bool:
    return True


def relays_last_state(self: DirectiveSender, facts: SetFacts, step: Any) -> list[Any]:
    return _look(self, replace(facts, stable=facts.state), step)


def always(*_: Any) -> bool:
    return True


def stable_always(self: SetFacts) -> bool:
    return True


def unless_present(group: ServiceGroup, member: str) -> bool:
    return member not in group.view.members


def nothing_held(self: ServedTable, *place: Any) -> frozenset[str]:
    return frozenset()


def only_yielded(facts: SetFacts, own: ServiceGroup) -> tuple[str, ...]:
    entries = {
        m: facts.table.entry(facts.now, facts.state, interface_of(m)) for m in own.view.members
    }
    held = {m: e is not None and own.uid in facts.table.held_by(e) for m, e in entries.items()}
    lost = facts.unserved(own, sure=True)
    return tuple(m for m in lost if held[m]) or lost


def last_known(facts: SetFacts, own: ServiceGroup) -> tuple[str, ...]:
    return facts.unserved(own)


def keeps_answers(self: ServedTable, now: int, lineage: bytes) -> int:
    self.lineage = lineage
    self.asked = max(now, self.asked + 1)
    return self.asked


def on_path_now(self: HomeChoice, step: PathStep) -> bool:
    here = next((each for each in self.path if each.set == step.set), None)
    return here is not None and here.lineage == step.lineage and here.speaker == step.speaker


def never(*_: Any) -> bool:
    return False


def all_pends(record: GroupRecord, seen: object) -> list[Any]:
    return list(record.pends)


def created_at_once(facts: SetFacts, call: object) -> bool:
    return facts.level == 1


def pins_nothing(draft: object, uid: object, call_id: object) -> None:
    return None


GROUP_MUTANTS: dict[str, tuple[str, tuple[Patch, ...]]] = {
    "no-freeze": (
        "G2: views are made and relayed although members are unserved",
        ((SetFacts, "is_frozen", never_frozen),),
    ),
    "claim-all": (
        "G10: a claim keeps members that the claimer does not serve",
        ((group_claims, "members_kept", claims_all),),
    ),
    "no-claim": (
        "G10: nobody claims groups whose owner is lost",
        ((GroupClaims, "look", claims_nothing),),
    ),
    "no-fragment": (
        "G10: a claim is made only for groups that nobody knows",
        ((SetSpeaker, "_strays", sees_no_strays),),
    ),
    "no-fit": (
        "G4: members that went through another history count as served",
        ((served_table, "fits", fits_always),),
    ),
    "bare-home": (
        "I2: an interface does not say how far its members are",
        ((MembershipBook, "served", reports_no_position),),
    ),
    "mi-volatile": (
        "I3: an interface acknowledges a directive that is not on disk",
        ((MemberInterface, "_directed", writes_nothing),),
    ),
    "any-path": (
        "G4: an interface takes directives of owners that are not on its path",
        ((HomeChoice, "is_on_path", takes_from_anywhere),),
    ),
    "number-reuse": (
        "M13: a union numbers its view 1 + the lower side",
        ((group_views, "number_after", lower_number),),
    ),
    "bottom-up": (
        "H3: sets unite without waiting for the sets above them",
        ((Mserver, "_may_unite", unites_from_below),),
    ),
    "unsettled-union": (
        "H4: components unite while groups hold members that they do not serve",
        ((GroupServer, "is_settled", settled_always),),
    ),
    "no-seen": (
        "G5: ADOPT is not recognized as a repetition",
        ((group_moves, "is_repeated", never_repeated),),
    ),
    "adopt-all": (
        "G5: a set takes over members that the set below no longer serves",
        ((group_moves, "lost_on_the_way", loses_nobody),),
    ),
    "pend-owns": (
        "G9: a union turns a group that is under way into an owned one",
        ((set_union, "_groups", pends_become_owned),),
    ),
    "no-suffix": (
        "N4: names of two groups that meet are not told apart",
        (
            (state_draft, "name_wanted", name_if_free),
            (set_union, "names_united", later_name),
        ),
    ),
    "unbound-call": (
        "G7: a repeated join looks its name up again",
        ((OpenCalls, "bind", forgets_uid),),
    ),
    "no-recall": (
        "G6: two owners below one set are not called up",
        ((group_server, "heed_recall", recalls_nothing),),
    ),
    "no-rehome": (
        "I2: interfaces wait for their own server",
        ((HomeChoice, "questions", waits_for_own_server),),
    ),
    "no-want": (
        "G5: a move up for a join does not carry the join",
        ((group_moves, "_with_wanted_member", admits_nobody),),
    ),
    "epoch-wins": (
        "G9: the higher epoch replaces the other content (printed)",
        ((group_moves, "joined", higher_epoch),),
    ),
    "no-pin": (
        "N3: groups that are called up for a split or a merge are not held in their scope",
        ((scope_calls, "pin", pins_nothing), (call_desk, "pin", pins_nothing)),
    ),
    "early-relay": (
        "C4: a directive is sent before all of the set have its view",
        ((DirectiveSender, "look", relays_last_state),),
    ),
    "unstable-handover": (
        "C4: a hand-over is acted upon before its state is stable",
        (
            (group_server, "all_have_applied", always),
            (SetFacts, "is_stable", property(stable_always)),
        ),
    ),
    "free-carrier": (
        "G5: any parent takes a group down, not the named one",
        ((group_moves, "is_carrier", always),),
    ),
    "take-back-all": (
        "G5: a group that nobody took down comes back with all its members",
        ((group_duties, "lost_with_carrier", loses_nobody),),
    ),
    "admit-anywhere": (
        "G7: a set admits members although a set above owns the group too",
        ((SetFacts, "is_sole_owner", always),),
    ),
    "admit-twice": (
        "G3: a member id that was removed is admitted again",
        (
            (group_calls, "may_admit", unless_present),
            (group_moves, "may_admit", unless_present),
        ),
    ),
    "no-yield": (
        "G8: a set serves members below a child set that has a record of the group",
        ((ServedTable, "held_by", nothing_held),),
    ),
    "yield-some": (
        "G8: the view in which a set lets members go keeps others that are not confirmed",
        ((group_duties, "members_lost", only_yielded),),
    ),
    "stale-settle": (
        "H4: before a union members count as served by what was last known",
        ((SetFacts, "unsettled", SetFacts.unserved),),
    ),
    "stale-cut": (
        "G2: the view after a fork keeps members on what was last known",
        ((group_duties, "members_lost", last_known),),
    ),
    "no-hello": (
        "H4: a new lineage serves interfaces that have not heard of it",
        ((ServedTable, "begin", keeps_answers),),
    ),
    "no-stranger": (
        "G4: an interface takes directives that were sent before it came to the path",
        ((HomeChoice, "is_on_path", on_path_now),),
    ),
    "ff-skip": (
        "G9: a side that is behind joins a union without the views between",
        ((group_union, "follows", never),),
    ),
    "pend-again": (
        "G9: a union forgets that a group that was under way has arrived",
        ((set_union, "_open", all_pends),),
    ),
    "name-local": (
        "N1: a group is created and its name registered where it is asked for",
        ((call_desk, "is_created_in", created_at_once),),
    ),
    "disk-lost": (
        "C6: a server that restarts has forgotten its state and keeps its identity",
        ((SimServer, "write", keeps_first),),
    ),
}
"""For each mutant the rule that it breaks, and what stands in for it."""
