"""Calls that wait at the speaker of a set, and what becomes of them.

A call comes from an interface through its home, climbs along the speakers until a set has its name
or its group, and goes down along pointers to the owner. Nobody but the interface keeps it: it
repeats the call, under the same id, until there is a result, and a speaker drops one that is not
repeated.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from phalanx.service.call_outcomes import (
    CLIMBS,
    WAITS,
    CallDescends,
    CallDone,
    CallNeedsPin,
    CallOutcome,
    CallRefused,
)
from phalanx.service.group_calls import (
    call_result,
    carry_out,
    change_scope,
    create_group,
    create_refusal,
    refusal,
    scope_wanted,
)
from phalanx.service.group_messages import CallResult, GroupCall, Resolve
from phalanx.service.group_reads import check_group, list_groups, read_group
from phalanx.service.group_views import follows
from phalanx.service.scope_calls import (
    SCOPE_CALLS,
    carry_out_in_scope,
    not_whole,
    pin,
    scope_call_refusal,
    scope_call_result,
    uid_named,
)
from phalanx.service.set_facts import SetFacts
from phalanx.service.state_draft import StateDraft
from phalanx.service.values import GROUPS_MAX, NO_RECORD, ServiceGroup, Vid

WAITING_MAX = 8192
HOPS_MAX = 16
UNBOUND = ("read", "check", "send")
"""Calls that change nothing: each repetition may find another group."""


class WaitingCall(msgspec.Struct, frozen=True):
    """A call at the speaker of a set, since it came there first. `confirmed`: all members of the
    set have answered since then, at this state."""

    request: Resolve
    until: int
    since: int
    confirmed: Vid | None = None

    @property
    def call(self) -> GroupCall:
        return self.request.call


class CallDesk:
    """The waiting calls of one set, at its speaker."""

    def __init__(self) -> None:
        self.waiting: dict[str, WaitingCall] = {}
        self.leases: dict[str, int] = {}
        """Until when the pin of a call holds."""
        self._promised: dict[str, tuple[CallResult, Vid]] = {}
        """Results that are due when their view is stable, and the states that their changes were
        made for."""

    def take(self, now: int, keep_ns: int, pin_ns: int, request: Resolve) -> None:
        """A call has come, for the first time or again."""
        id_ = key_of(request.call)
        if len(self.waiting) >= WAITING_MAX and id_ not in self.waiting:
            return
        known = self.waiting.get(id_)
        confirmed = known.confirmed if known is not None else None
        sure = request.sure or (known is not None and known.request.sure)
        since = known.since if known is not None else now
        again = replace(request, sure=sure)
        self.waiting[id_] = WaitingCall(again, now + keep_ns, since, confirmed)
        self.leases[request.call.id] = now + pin_ns

    def confirmed(self, id_: str, vid: Vid) -> None:
        """All members of the set have answered for a call."""
        if id_ in self.waiting:
            self.waiting[id_] = replace(self.waiting[id_], confirmed=vid)

    def close(self, id_: str) -> None:
        """The call has an answer, has gone on, or is not repeated. Its pin is not renewed."""
        self.waiting.pop(id_, None)
        self._promised.pop(id_, None)

    def expire(self, now: int) -> None:
        """Drop calls that are not repeated, and leases that have ended long ago."""
        for id_ in [i for i, waiting in self.waiting.items() if waiting.until < now]:
            self.close(id_)
        for id_ in [i for i, until in self.leases.items() if until < now - 60_000_000_000]:
            del self.leases[id_]

    # -------------------------------------------------------------- what becomes of a call

    def outcome(self, waiting: WaitingCall, facts: SetFacts) -> CallOutcome:
        """By the stable state, as far as it answers; nothing is changed."""
        call = waiting.call
        if call.kind == "create":
            return self._create_outcome(call, facts)
        if call.kind == "read" and call.arguments.get("call") == "get_groups":
            return _list_outcome(call, facts)
        stable = facts.stable
        if stable is None or stable.lineage != facts.state.lineage:
            return WAITS
        done = scope_call_result(call, stable)
        if done is not None:
            return CallDone(done)
        uid = call.bound or uid_named(facts.state, call.name)
        if not uid:
            return CLIMBS
        if not call.bound and call.kind not in UNBOUND:
            return CallDone(CallResult(call.id, bound=uid))
        record = facts.state.groups.get(uid, NO_RECORD)
        if record == NO_RECORD:
            return WAITS if waiting.request.down else CLIMBS
        if record.pends:
            return WAITS
        if record.own is None:
            return CallDescends(record.below[0], uid) if record.below else WAITS
        kept = stable.groups.get(uid, NO_RECORD).own
        if kept is None:
            return WAITS
        return self._at_owner(waiting, record.own, kept, facts)

    def _at_owner(
        self, waiting: WaitingCall, own: ServiceGroup, stable: ServiceGroup, facts: SetFacts
    ) -> CallOutcome:
        call = waiting.call
        if call.kind == "read":
            return read_group(call, stable, facts.topology)
        if call.kind == "check":
            return check_group(call, stable, facts.topology)
        if call.member == PIN_ONLY:
            return WAITS
        promised, base = self._promised.get(call.id, (None, None))
        if promised is not None and promised.vid is not None:
            if stable.view.vid == promised.vid or follows(stable, promised.vid):
                return CallDone(promised)
            if own.view.vid == promised.vid or follows(own, promised.vid):
                return WAITS
            if facts.state.vid == base:
                return WAITS  # the change is under way
            del self._promised[call.id]
        result = call_result(call, stable)
        if result is not None:
            return CallDone(result)
        if call_result(call, own) is not None or call.kind == "send":
            return WAITS
        why = refusal(call, own, facts)
        if not why and call.kind in SCOPE_CALLS:
            why = scope_call_refusal(call, own, facts.state)
            why = why or not_whole(call, own, facts, waiting.since)
        return CallRefused(why) if why else WAITS

    def _create_outcome(self, call: GroupCall, facts: SetFacts) -> CallOutcome:
        stable, state = facts.stable, facts.state
        if stable is not None and call.new_uid in stable.groups:
            own = stable.groups[call.new_uid].own
            vid = own.view.vid if own is not None else None
            return CallDone(CallResult(call.id, call.new_uid, vid=vid))
        if call.new_uid in state.groups:
            return WAITS
        why = create_refusal(call, facts.topology)
        if why:
            return CallRefused(why)
        if call.name in state.names:
            return CallRefused(f"name-in-use({call.name})")
        if len(state.groups) >= GROUPS_MAX:
            return CallRefused(f"too-large(set: {GROUPS_MAX} groups)")
        return WAITS if is_created_in(facts, call) else CLIMBS

    # -------------------------------------------------------------- changes

    def changes(self, facts: SetFacts, draft: StateDraft) -> list[CallNeedsPin]:
        """Carry out what the waiting calls ask for, on the draft. Returns what has to be pinned in
        sets below."""
        pins: list[CallNeedsPin] = []
        for id_ in sorted(self.waiting):
            waiting = self.waiting[id_]
            if draft.is_full or waiting.call.kind in UNBOUND:
                continue
            if id_ in self._promised or self.outcome(waiting, facts) != WAITS:
                continue
            outcome = self._change(waiting.call, facts, draft)
            if isinstance(outcome, CallDone):
                self._promised[id_] = (outcome.result, draft.base)
            elif isinstance(outcome, CallNeedsPin):
                pins.append(outcome)
        return pins

    def _change(self, call: GroupCall, facts: SetFacts, draft: StateDraft) -> CallOutcome:
        if call.kind == "create":
            if is_created_in(facts, call) and call.new_uid not in draft.state.groups:
                if call.name not in draft.state.names:
                    create_group(call, draft)
            return WAITS
        record = draft.record(call.bound)
        own = record.own
        if own is None or own.ended is not None or record.pends or facts.is_frozen(own):
            return WAITS
        if call.kind == "merge" and call.member == PIN_ONLY:
            pin(draft, own.uid, call.id)
            return WAITS
        if record.below:
            return WAITS
        if call.kind in SCOPE_CALLS:
            return carry_out_in_scope(call, own, facts, draft)
        if scope_wanted(call, own):
            return change_scope(call, own, facts, draft)
        return carry_out(call, own, facts, draft)


def is_created_in(facts: SetFacts, call: GroupCall) -> bool:
    """A group is created, and its name registered, in its scope (rules G1, N1)."""
    return facts.name == call.scope


PIN_ONLY = "~pin"
"""In place of a member: the call pins this group for a merge, and does nothing else."""


def key_of(call: GroupCall) -> str:
    """One call may wait at one desk twice: for itself, and to pin the other group of a merge."""
    return f"{call.id} pin" if call.member == PIN_ONLY else call.id


def pin_request(request: Resolve, needed: CallNeedsPin) -> Resolve:
    """The request that pins the other group of a merge in the child set that has it."""
    call = replace(request.call, bound=needed.uid, member=PIN_ONLY)
    return replace(request, set=needed.child, call=call, down=True, hops=request.hops + 1)


def _list_outcome(call: GroupCall, facts: SetFacts) -> CallOutcome:
    level = call.arguments.get("level", "")
    if level == str(facts.level):
        stable = facts.stable
        return WAITS if stable is None else list_groups(call, stable)
    return CLIMBS


def no_such_group(request: Resolve) -> str:
    """The error of a call that nobody up to the top has an answer for."""
    call = request.call
    if call.kind == "read" and call.arguments.get("call") == "get_groups":
        return f"bad-level({call.arguments.get('level', '')})"
    return f"no-such-group({call.name})"
