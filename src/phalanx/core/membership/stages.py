"""The stages of the membership protocol, and which handler takes which input in each.

    stage       Suspected  Heard  Entered  Met      Attempted  Expired  AllSpoke  Resumed  RoleSet
    ----------  ---------  -----  -------  -------  ---------  -------  --------  -------  -------
    STEADY      propose    weigh  weigh    collect  collect    speak    calm      again    propose
    COLLECTING  propose    weigh  weigh    -        gather     propose  calm      again    propose
    PROPOSED    propose    weigh  weigh    -        -          answer   calm      again    propose
    LEAVING     -          count  count    -        -          -        -         -        -

LeaveRequested leads from any other stage to LEAVING.
"""

from __future__ import annotations

from typing import Literal

from phalanx.core.membership.instructions import (
    AllSpoke,
    Attempted,
    Entered,
    Expired,
    Heard,
    Input,
    LeaveRequested,
    Met,
    Resumed,
    RoleSet,
    Suspected,
)

ProtocolStage = Literal["STEADY", "COLLECTING", "PROPOSED", "LEAVING"]

_AT_ANY: dict[type[Input], str | None] = {
    Suspected: "_on_suspected",
    Heard: "_on_heard",
    Entered: "_on_entered",
    AllSpoke: "_on_all_spoke",
    Resumed: "_on_resumed",
    RoleSet: "_on_role_set",
    LeaveRequested: "_on_leave",
}
TABLE: dict[ProtocolStage, dict[type[Input], str | None]] = {
    "STEADY": {**_AT_ANY, Met: "_on_met", Attempted: "_on_attempted", Expired: "_on_unspoken"},
    "COLLECTING": {**_AT_ANY, Met: None, Attempted: "_gather", Expired: "_on_collected"},
    "PROPOSED": {**_AT_ANY, Met: None, Attempted: None, Expired: "_on_unanswered"},
    "LEAVING": dict.fromkeys([*_AT_ANY, Met, Attempted, Expired])
    | {Heard: "_on_goodbye", Entered: "_on_goodbye"},
}
"""Stage and input to the handler, a method of `MembershipProtocol`; None where nothing follows."""
