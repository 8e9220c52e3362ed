"""A removal as lines for people, and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.pipeline.history.instant import wall
from phalanx.pipeline.history.removals import Proof, Removal

FATE = {
    "LEFT": "it left on request",
    "CRASHED": "it had crashed",
    "ENDED": "its journal ends without a stop: it was killed, or the rest was not read",
    "STOPPED": "its journal ends in that view, with a stop",
    "APART": "it was alive and installed a different next view",
    "NEVER": "it never installed that view itself",
    "UNKNOWN": "its journal is missing or incomplete",
}
EVIDENCE = {
    "SILENCE": "no packets received",
    "STALLED": "packets received, but no acknowledgements",
    "T_CHANGE": "it did not answer the view change in time",
    "TOLD": "another member proposed its removal",
    "MOVED": "it is in another view, or has removed this member",
    "REPLACED": "a later process with its name has joined",
    "OPERATOR": "an operator requested its removal",
    "RELAY": "packets received only through other members",
    "DIRECT": "packets received directly",
}


def story(removal: Removal, several: bool = False) -> list[str]:
    """Lines for people: one timeline if the observers share a clock, else one per observer. With
    `several` the first line names the run."""
    where = f" in run {removal.run} of {removal.cluster}" if several else ""
    lines = [
        f"{removal.label} was removed{where}: view {removal.view} became {removal.next_view}",
        f"  {_fate(removal)}",
    ]
    if removal.one_clock:
        chain = sorted(removal.chain, key=lambda proof: (proof.at_ns, proof.label, proof.lseq))
        lines += _timeline(removal, chain, chain[0].at_ns)
    else:
        for observer in removal.observers:
            chain = [proof for proof in removal.chain if proof.label == observer.label]
            lines += _timeline(removal, chain, chain[0].at_ns)
    return [*lines, *(f"  {line}" for line in _durations(removal)), f"  {_return(removal)}"]


def _fate(removal: Removal) -> str:
    fate = FATE[removal.fate]
    if removal.fate == "APART":
        fate += f", {removal.own_next_view}"
    removed = min(observer.removed_ns for observer in removal.observers)
    if removal.fate == "CRASHED" and removal.own_end_sim_ns is not None:
        fate += f" {_span(removed - removal.own_end_sim_ns)} before the first view without it"
    return fate


def _timeline(removal: Removal, chain: list[Proof], zero: int) -> list[str]:
    first = chain[0]
    when = (
        f"{zero / 1e9:.6f} s, simulated" if first.sim_ns is not None else wall(first.wall_ns or 0)
    )
    lines = [f"  from {when}:"]
    wide = max(len(proof.label) for proof in chain)
    for proof in chain:
        at = f"+{(proof.at_ns - zero) / 1e6:.3f} ms"
        lines.append(f"    {at:>14}  {proof.label:<{wide}}  {proof_text(removal, proof)}")
    return lines


def proof_text(removal: Removal, proof: Proof) -> str:
    """What the observer did, in words."""
    match proof.kind:
        case "SUSPECT":
            evidence = EVIDENCE.get(proof.evidence or "", proof.evidence or "")
            through = f", through {proof.relay}" if proof.relay else ""
            return f"{_state(removal, proof)}: {evidence}{through}"
        case "STEP":
            return _step(proof)
        case "MARKER":
            return f"deliveries are transitional from position {proof.pos} on"
        case _:
            return f"installs {removal.next_view} of {', '.join(proof.members or [])}"


def _state(removal: Removal, proof: Proof) -> str:
    if proof.state == "SUSPECTED":
        return f"suspects {removal.label}"
    state = "semi-operational" if proof.state == "SEMI" else (proof.state or "").lower()
    return f"considers {removal.label} {state}"


def _step(proof: Proof) -> str:
    words = {
        "START": "starts a view change and collects participants",
        "FORGET": "abandons the view change",
        "COMMIT": "proposes the next view",
        "FOLLOW": "accepts the proposal of another member",
        "FA": "proposes a removal",
        "CLOSED": "closes the view",
        "LEAVE": "requests to leave",
    }
    text = words.get(proof.action or "", proof.action or "")
    failed = ", ".join([*(proof.failed_before or []), *(proof.failed_after or [])])
    if failed:
        text = (
            f"proposes to remove {failed}" if proof.action == "FA" else f"{text}, without {failed}"
        )
    return f"{text} ({proof.action})"


def _durations(removal: Removal) -> list[str]:
    lines = []
    for observer in removal.observers:
        parts = []
        failed = observer.removed_ns if observer.stepped_ns is None else observer.stepped_ns
        if observer.suspected_ns is not None:
            parts.append(f"suspected for {_span(max(0, failed - observer.suspected_ns))}")
        parts.append(f"removed {_span(observer.removed_ns - failed)} after the proposal")
        lines.append(f"at {observer.label}: {', '.join(parts)}")
    return lines


def _return(removal: Removal) -> str:
    if removal.back_view is None:
        return "it did not rejoin the members that removed it"
    spans = [o.back_ns - o.removed_ns for o in removal.observers if o.back_ns is not None]
    name = f"{removal.target}.{removal.back_incarnation}"
    as_new = "" if removal.back_incarnation == removal.target_incarnation else f", as {name}"
    return f"it rejoined{as_new} in view {removal.back_view}, after {_span(min(spans))}"


def _span(ns: int) -> str:
    return f"{ns / 1e6:,.3f} ms" if abs(ns) < 10_000_000_000 else f"{ns / 1e9:,.3f} s"


def to_json(removal: Removal) -> dict[str, Any]:
    """For `json.dumps`; fields of the chain that are null are left out."""
    facts: dict[str, Any] = msgspec.to_builtins(removal)
    facts["chain"] = [
        {name: value for name, value in proof.items() if value is not None}
        for proof in facts["chain"]
    ]
    return facts
