"""Codes of the explorer's checks, and the property of the catalogue that each one tests.

Searches, walks and story files name a finding by its code. PROPERTY_OF translates the code into the
name that the checkers and the audit use (`verify.properties`), so that findings can be compared.

J0   a member installs a view without itself
JE   the epochs of a member's views do not grow
J1   two members leave a view for different views that contain both
J1x  the same for two members that merge each other's components
J1k  one view has two causes
JT   a transitional set differs from the members that came from the same view
J2   two members with the same next view delivered different messages
J2f  two members of one final view delivered different messages in it
JO   two members with the same next view delivered in different orders (agreed, safe)
J3   two members that were in two views delivered a message in different ones
J3s  a message is delivered in another view than it was sent in (mode hold)
JS   a member leaves a view without a message that another delivered as safe in it
JM   two members with the same next view have the marker at different positions
J5   a message is delivered before one of its causes
JA   a member delivers a message that was not addressed to it
J7   a message is delivered twice
J4   a view change does not end
J6   a member has not delivered its own message at the end
J8   members that can reach each other do not end in one view
JC   a member installs more views than there is cause for
JN   a time-out removes a member that is alive and can be reached
JX   a member raised an exception
"""

from __future__ import annotations

PROPERTY_OF: dict[str, str | None] = {
    "J0": "self-inclusion",
    "JE": "local-monotonicity",
    "J1": "mutual-agreement",
    "J1x": "mutual-agreement",
    "J1k": "vid-sanity",
    "JT": "transitional-set",
    "J2": "virtual-synchrony",
    "J2f": "multicast-liveness",
    "JO": "weak-total-order",
    "J3": "same-view",
    "J3s": "sending-view",
    "JS": "safe-prefix",
    "JM": "safe-marker",
    "J5": "causal",
    "JA": "integrity",
    "J7": "no-duplication",
    "J4": "protocol-termination",
    "J6": "self-delivery",
    "J8": "membership-precision",
    "JC": "bounded-views",
    "JN": None,
    "JX": None,
}
"""None: not a guarantee. The checkers count JN as `false-removals`; JX is a defect of the code."""


def described(code: str, text: str) -> str:
    """A finding as one line, followed by the property it violates."""
    name = PROPERTY_OF[code]
    return f"{code}: {text}" if name is None else f"{code}: {text} [{name}]"
