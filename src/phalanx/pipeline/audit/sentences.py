"""How each kind of violation is worded. {who} and {other} are members, {what} are messages, {v} and
{w} are views, {note} is what the check adds."""

from __future__ import annotations

from phalanx.verify.properties import Judges, judged_by

SENTENCES = {f"{name}/": "{note}" for name in judged_by(Judges.ONE_PROGRAM)} | {
    "initial-view/sent": "{who} sent {what} in {v} while in {w}",
    "initial-view/delivered": "{who} delivered {what} in {v} while in {w}",
    "initial-view/marked": "{who} marked the end of {v} while in {w}",
    "integrity/unsent": "{who} delivered {what} in {v}, which was never sent",
    "integrity/outsider": "{who} delivered {what}, whose sender is not in {w}",
    "integrity/stranger": "{what} for {note} was shown to a stranger, {who}",
    "integrity/receivers": "{who} delivered {what} as sent to {note}",
    "integrity/service": "{who} delivered {what} as {note}",
    "integrity/frame": "{who} delivered {what} from frame {note}",
    "integrity/origin": "{who} delivered {what} as sent in {v}, it was sent in {w}",
    "integrity/early": "{who} delivered {what} in {v} before it was sent",
    "integrity/accepted": "{what} was accepted for {note}",
    "integrity/contradiction": "{who} and {other} delivered {what} with another {note}",
    "integrity/altered": "{who} delivered {what} with other bodies than were submitted",
    "integrity/bodies": "{who} and {other} got different bodies of {what}",
    "integrity/loop": (
        "{what} depends on itself: something it follows was delivered before it was sent"
    ),
    "no-duplication/again": "{who} delivered {what} again, in {v}",
    "no-duplication/resent": "{what} was sent twice, in {v}",
    "sending-view/": "{who} delivered {what} in {v}, it was sent in {w}",
    "same-view/moved": "{who} delivered {what} in {v}, it was sent in {w} before any change",
    "same-view/several": "{who} delivered {what} in {v}, {other} in {w}",
    "virtual-synchrony/": "{who} delivered {what} in {v} before {w}, {other} did not",
    "self-delivery/": "{who} never delivered its own {what}, sent in {v}",
    "self-delivery/accepted": "{who} never delivered its own {what}, which it accepted",
    "fifo/": "{who} delivered {what} after {note} in {v}",
    "causal/": "{who} delivered {note} in {v}, which follows, but delivered {what} only later",
    "reliable-causal/": "{who} delivered {note} in {v}, which follows, but never delivered {what}",
    "no-view-crossing-inversion/": (
        "{who} delivered {note} in {v}, which follows, but delivered {what} in the later {w}"
    ),
    "weak-total-order/": "{who} and {other} delivered {what} and {note} in {v} in different orders",
    "running-prefix/placeless": "{who} delivered {what} in {v} without a position",
    "running-prefix/back": "{who} delivered {what} in {v} at position {note}",
    "running-prefix/moved": "{who} has {what} at position {note} of {v}",
    "running-prefix/taken": "{who} has {what} at position {note} of {v}",
    "running-prefix/skipped": (
        "{other} skipped {what} at position {note} of {v}, which {who} delivered"
    ),
    "toto-refinement/back": "{who} went back to {what} in {v}, {note}",
    "toto-refinement/apart": "{who} has {what} in {v}, {note}",
    "toto-refinement/order": "{who} delivered {what} in {v} after {note} of the same batch",
    "toto-refinement/follows": "{what} follows {note}, yet both are in one batch of {v} at {who}",
    "safe-prefix/absent": "{who} delivered {what} as safe in {v}, which {other} never installed",
    "safe-prefix/missing": (
        "{who} delivered {what} as safe in {v}, {other} did not deliver it there"
    ),
    "safe-marker/apart": (
        "the transitional marker of {v} before {w} is at different positions: {note}"
    ),
    "safe-marker/names": (
        "the marker of {v} at {who} names others than those that move on with it to {w}"
    ),
    "safe-marker/region": "{who} delivered {what} in {v} {note}",
    "safe-marker/side": "{who} delivered {what} in {v} {note}",
    "basic/unsent": "{who} delivered {what} in {v}, which was never sent",
    "basic/outsider": "{who} delivered {what}, whose sender is not in {w}",
    "basic/stranger": "{what} for {note} was shown to a stranger, {who}",
    "basic/receivers": "{who} delivered {what} as sent to {note}",
    "basic/service": "{who} delivered {what} as {note}",
    "basic/frame": "{who} delivered {what} from frame {note}",
    "basic/origin": "{who} delivered {what} as sent in {v}, it was sent in {w}",
    "basic/early": "{who} delivered {what} in {v} before it was sent",
    "basic/contradiction": "{who} and {other} delivered {what} with another {note}",
    "basic/again": "{who} delivered {what} again, in {v}",
    "basic/missing": "{other} never delivered {what} (BASIC), sent in {v}",
    "multicast-liveness/missing": "{other} never delivered {what}, sent in {v}",
    "multicast-liveness/unsent": "{who} accepted {what} and never sent it",
    "multicast-liveness/reported": (
        "{who} got a report that {what} goes to nobody, but {note} was in its view all the time"
    ),
    "termination-of-delivery/": "{other} never delivered {what}, sent in {v}",
    "safe-indication-liveness/missing": "{other} never delivered {what} (SAFE), sent in {v}",
    "safe-indication-liveness/region": (
        "{other} delivered {what} without knowing that all of {v} have it, though the view stayed"
    ),
    "receipt-truth/unsent": "{who} has a receipt for {what} in {v}, which was never sent",
    "receipt-truth/home": "{who} has a receipt for {what} in {v}, but it belongs to {w}",
    "receipt-truth/together": (
        "{who} has a receipt for {note}, who do not move on from {v} together"
    ),
    "receipt-truth/foreign": "{who} has a receipt for messages of {note}",
    "receipt-truth/absent": (
        "{who} has a receipt that {what} is stable in {v}, but {other} never installed it"
    ),
    "receipt-truth/missing": (
        "{who} has a receipt that {what} is stable in {v}, but {other} did not deliver it there"
    ),
    "receipt-truth/undelivered": (
        "{who} has a receipt that {what} is delivered by all of {v}, but {other} had not delivered"
        " it there"
    ),
    "receipt-liveness/": "{who} never got a receipt that {what} is {note}",
    "not-sent-liveness/untold": (
        "{who} got no report that {what} does not go to {note}, which is not in {v}"
    ),
    "not-sent-liveness/delivered": (
        "{who} got a report that {what} does not go to {other}, which delivered it"
    ),
    "not-sent-liveness/home": (
        "{who} got a report that {what} does not go to {note}, which is in {v}"
    ),
    "not-sent-liveness/stayed": (
        "{who} got a report that {what} does not go to {note}, which was in its view all the time"
    ),
    "not-sent-liveness/rest": "{who} got a report on {what} that {note}",
    "not-sent-liveness/stranger": "{who} got a report that {note} is gone, which was not addressed",
    "merge-report-truth/each": "{who} got no report of each component of {v}",
    "merge-report-truth/members": "{v} reports to {who} that {w} was of {note}",
    "merge-report-truth/apart": "{who} and {other} got different reports of {v}",
    "merge-report-truth/upto": (
        "{v} reports to {who} that {w} had delivered up to {note}, but it was {what}"
    ),
    "merge-report-truth/alone": "{v} reports wrongly to {who} what only {w} had delivered",
    "accepted-is-sent/counts": "{who}: the counts of its queue contradict each other",
    "accepted-is-sent/given": "{who} submitted {note}",
    "accepted-is-sent/kept": "{who} accepted {note}",
}
"""By kind: the property, and the way in which it was broken."""
