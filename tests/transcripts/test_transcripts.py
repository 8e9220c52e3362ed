"""Small scenarios as text files that read like prose: a command, then all that it brings about.

A block is a command, a line `----`, and the full output up to an empty line. Packets do not travel
by themselves: `carry a b` brings what a has sent to b, `lose a b` drops it. Only while a `run`
lasts they travel at once, where `cut` lets them; its output leaves out what goes on all the time,
acknowledgements, HELLOs, probes, requests and repeats. To accept new output after reading it:
`PHALANX_REWRITE=1 pytest tests/transcripts`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from phalanx.config import lan
from phalanx.core.effects import (
    Accepted,
    AllDelivered,
    Close,
    Datagrams,
    DeadlinePassed,
    Deliver,
    Effect,
    Input,
    LeaveRequest,
    LinkStats,
    MergedComponent,
    NameContested,
    NotSent,
    Ordered,
    PeerSuspicion,
    Refused,
    Region,
    RolesInstalled,
    Sent,
    Service,
    SettingsDiffer,
    Stable,
    Stopped,
    Submit,
    SuspectMember,
    Transitional,
    Transmit,
    ViewChangeStep,
    ViewInstalled,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.ids import MEMBERS_MAX, MemberId, ViewId, boot_view
from phalanx.core.member.member import Member
from phalanx.core.membership.announcement import component_of_frame
from phalanx.core.membership.proposals import Proposal, read_proposal
from phalanx.core.wire.frame_codec import decode_frame
from phalanx.core.wire.frames import Frame, Propose
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment, Hello, JoinAttempt, Nack, NameClaimed, NameHeld
from phalanx.core.wire.shared_settings import shared_digest
from phalanx.errors import SubmissionError

HERE = Path(__file__).parent
US, MS = 1_000, 1_000_000
GOES_ON = ("hello", "probe", "alive", "relay", "nack", "repeat", "ack")
"""Packets that a `run` does not show, by the first word that it would say."""


class Stage:
    """The members of a transcript and the packets between them."""

    def __init__(self) -> None:
        self.now = 0
        self.codec = PacketCodec("phalanx", "g")
        self.members: dict[str, Member] = {}
        self.between: dict[tuple[str, str], list[bytes]] = {}
        self.names: list[str] = []
        self.sides: list[list[str]] = []
        self.views: dict[ViewId, str] = {}
        self.tables: dict[bytes, tuple[MemberId, ...]] = {}

    def do(self, line: str) -> list[str]:
        command, *words = line.split()
        match command:
            case "group":
                return self.group(words)
            case "alone":
                return self.group(words, alone=True)
            case "submit":
                return self.submit(words)
            case "carry":
                packets = self.between.pop((words[0], words[1]), [])
                return self.step(words[1], Datagrams(packets)) if packets else ["nothing to carry"]
            case "lose":
                return [f"{len(self.between.pop((words[0], words[1]), []))} packets lost"]
            case "wait":
                return self.wait(time_of(words[0])) or ["all quiet"]
            case "run":
                return self.run(time_of(words[0]))
            case "garbage":
                return self.step(words[0], Datagrams([" ".join(words[1:]).encode()]))
            case "close":
                return self.step(words[0], Close())
            case "leave":
                return self.step(words[0], LeaveRequest())
            case "break":
                return self.step(words[0], SuspectMember(MemberId(words[1])))
            case "state":
                return self.members[words[0]].story()
            case "crash" | "cut" | "heal":
                return self.harm(command, words)
        raise AssertionError(f"unknown command: {line}")

    # -------------------------------------------------------------- commands

    def group(self, words: list[str], alone: bool = False) -> list[str]:
        self.names = [w for w in words if "=" not in w]
        settings = dict(w.split("=") for w in words if "=" in w)
        typed = {k: int(v) if v.isdigit() else v == "yes" or v for k, v in settings.items()}
        out = []
        for i, name in enumerate(self.names):
            view = boot_view([MemberId(n) for n in ([name] if alone else self.names)])
            config = lan(**typed)
            self.codec = PacketCodec(config.cluster, "g", shared_digest(config))
            self.members[name] = Member(MemberId(name), view, "g", config, i)
            out += self.show(name, self.members[name].start(0))
        return out

    def submit(self, words: list[str]) -> list[str]:
        name, service, *rest = words
        to = None
        if rest[-1].startswith("to="):
            to = tuple(MemberId(n) for n in rest.pop()[3:].split(","))
        bodies = [w.encode() for w in rest]
        return self.step(name, Submit(bodies, Service[service.upper()], to))

    def harm(self, command: str, words: list[str]) -> list[str]:
        if command == "crash":
            del self.members[words[0]]
            self.names.remove(words[0])
            return [f"{words[0]} is no more"]
        self.sides = [side.split() for side in " ".join(words).split("|")] if words else []
        self.between.clear()
        return ["packets on their way are lost"]

    def wait(self, span: int) -> list[str]:
        """Let time pass; timers go off at their members in order."""
        end = self.now + span
        out = []
        while True:
            due, name = min((self.due(n, end + 1), n) for n in self.names)
            if due > end:
                break
            self.now = max(self.now, due)
            out += self.step(name, DeadlinePassed())
        self.now = end
        return out

    def due(self, name: str, otherwise: int) -> int:
        due = self.members[name].deadline()
        return otherwise if due is None else due

    def run(self, span: int) -> list[str]:
        """Let time pass, with packets that travel at once; without what goes on all the time."""
        end = self.now + span
        out: list[str] = []
        while True:
            moving = [pair for pair in sorted(self.between) if pair[1] in self.names]
            while moving:
                for a, b in moving:
                    packets = self.between.pop((a, b), [])
                    if packets and self.hears(a, b):
                        out += self.step(b, Datagrams(packets))
                moving = [pair for pair in sorted(self.between) if pair[1] in self.names]
            due = min(self.due(n, end + 1) for n in self.names)
            if due > end:
                break
            out += self.wait(max(0, due - self.now))
        self.now = end
        shown = [line for line in out if not self.goes_on(line.partition(": ")[2])]
        return shown or ["all quiet"]

    def goes_on(self, text: str) -> bool:
        first, _, rest = text.partition(" ")
        if first == "transmit":
            return rest.split()[1] == "ack"
        return first in GOES_ON or text == "nothing"

    def hears(self, a: str, b: str) -> bool:
        return not self.sides or any(a in side and b in side for side in self.sides)

    def step(self, name: str, given: Input) -> list[str]:
        try:
            effects = self.members[name].step(self.now, given)
        except SubmissionError as error:
            return [f"{name}: {type(error).__name__}: {error}"]
        return self.show(name, effects) or [f"{name}: nothing"]

    # -------------------------------------------------------------- telling

    def show(self, name: str, effects: list[Effect]) -> list[str]:
        return [f"{name}: {text}" for effect in effects for text in self.tell(name, effect)]

    def tell(self, name: str, effect: Effect) -> list[str]:
        match effect:
            case ViewInstalled():
                return self.view(effect)
            case Transitional(_, pos, members):
                return [f"transitional at {pos}: {listed(members)} move on"]
            case ViewChangeStep():
                return [self.change(effect)]
            case PeerSuspicion(target, state, _, evidence, relay):
                through = f" through {relay.name}" if relay else ""
                return [f"{target.name} is {state.lower()} by {evidence.lower()}{through}"]
            case LinkStats():
                return []  # statistics
            case Stopped(reason):
                return [f"stopped: {reason}"]
            case Accepted(first, last):
                return [f"accepted {span(first, last)}"]
            case Sent(first, last, frame, service):
                late = " in a change" if effect.phase else ""
                return [f"sent {span(first, last)} {service.name.lower()} in frame {frame}{late}"]
            case NotSent(first, last):
                return [f"not sent {span(first, last)}: nobody is left to receive it"]
            case Transmit(packets):
                for other in self.names:
                    if other != name:
                        self.between.setdefault((name, other), []).extend(packets)
                return [self.packet(packet) for packet in packets]
            case Deliver():
                return [self.delivery(effect)]
            case Ordered(upto):
                return [f"ordered up to #{upto}"]
            case Stable(upto):
                return [f"stable up to #{upto}"]
            case AllDelivered(upto):
                return [f"delivered by all up to #{upto}"]
            case WindowClosed() | WindowOpened():
                return ["window closed" if isinstance(effect, WindowClosed) else "window opened"]
            case Refused(reason, count):
                return [f"refused {count} as {reason}"]
            case RolesInstalled(_, roles):
                return [f"role of {r.member.name}: {' '.join(r.operations)}" for r in roles]
            case SettingsDiffer(peer, theirs):
                return [f"{peer.name} runs with {theirs}"]
            case NameContested(rival):
                return ["has its name again" if rival is None else f"{rival} has its name"]

    def delivery(self, deliver: Deliver) -> str:
        bodies = " ".join(body.decode() for body in deliver.bodies())
        place = "" if deliver.pos is None else f" at {deliver.pos}"
        if deliver.origin != deliver.view:
            place += f", sent in {self.views[deliver.origin]}"
        if deliver.region is Region.TRANSITIONAL:
            place += ", transitional"
        whose = f"{deliver.sender.name}{span(deliver.first, deliver.last)}"
        return f"deliver {whose} {deliver.service.name.lower()}{place}: {bodies}"

    def view(self, installed: ViewInstalled) -> list[str]:
        view = installed.view
        self.views[view.id] = "{" + listed(view.members) + "}"
        self.tables[view.id.digest] = view.members
        if installed.cause == "boot":
            return [f"view {listed(view.members)}"]
        text = f"view {view.id.joins}.{view.id.removals} {listed(view.members)}"
        text += f", by {installed.cause}, together with {listed(installed.transitional)}"
        return [text, *map(self.merged, installed.merged)]

    def merged(self, merged: MergedComponent) -> str:
        upto = " ".join(f"{m.name}#{number}" for m, number in merged.delivered) or "nothing"
        alone = " ".join(f"{r.sender.name}{span(r.first, r.last)}" for r in merged.alone)
        return f"merged {self.views[merged.view]}, had delivered {upto}; alone {alone or 'nothing'}"

    def change(self, step: ViewChangeStep) -> str:
        text = f"{step.stage.lower()} {step.action.lower()}"
        if step.components:
            text += " of " + " ".join(self.views[view] for view in step.components)
        if step.failed_after:
            text += f", without {listed(step.failed_after)}"
        if step.failed_before not in ((), step.failed_after):
            text += f", before without {listed(step.failed_before)}"
        return text

    def packet(self, packet: bytes) -> str:
        got = self.codec.decode(packet)
        match got:
            case Nack():
                table = got.names or self.tables[got.table]
                wants = [f"{table[w.sender].name}/{w.first}-{w.last}" for w in got.wants]
                return f"nack {' '.join(wants)}"
            case Hello():
                return f"hello in {self.views[got.view]}, hears {listed(got.heard)}"
            case JoinAttempt():
                return f"attempt to join {listed(got.component.members)}"
            case NameClaimed():
                return "claim"
            case NameHeld():
                return "held"
            case Fragment():
                return self.fragment(got)
        return type(got).__name__.lower()

    def fragment(self, got: Fragment) -> str:
        verb = "repeat" if got.repeat else "transmit"
        if got.count > 1:
            name = self.tables[got.table][got.sender].name
            return f"{verb} {name}/{got.number} fragment {got.index + 1} of {got.count}"
        frame = decode_frame(got.sender, got.number, got.piece, 0, got.table, MEMBERS_MAX)
        assert isinstance(frame, Frame)
        table = self.table_of(frame)
        if frame.phase:
            assert frame.control is not None
            pairs = list(zip(table, frame.control.vector, strict=True))
            follows = [f"{m.name}{c}" for m, c in pairs if c and m != table[got.sender]]
        else:
            acks = zip(frame.ack_members, frame.ack_numbers, strict=True)
            follows = [f"{table[q].name}{c}" for q, c in acks]
        name = f"{verb} {table[got.sender].name}/{got.number}"
        return f"{name} {self.content(frame)} acks [{' '.join(follows)}]"

    def table_of(self, frame: Frame) -> tuple[MemberId, ...]:
        component = component_of_frame(frame)
        if component is not None:
            self.tables[frame.table] = component.members
        return self.tables[frame.table]

    def content(self, frame: Frame) -> str:
        if frame.runs:
            return "data"
        if frame.control is None or frame.control.said is None:
            return "ack"
        if not isinstance(frame.control.said, Propose):
            return "leave"
        proposal = read_proposal(frame.control.proposal)
        assert proposal is not None
        return f"propose {proposed(proposal)}"


def proposed(proposal: Proposal) -> str:
    """Per component, the members that the proposal keeps and those that it leaves out."""
    out = []
    for view, component in proposal.components.items():
        gone = [m for m in component.members if (m, view) in proposal.left_out]
        text = listed(m for m in component.members if m not in gone)
        out.append("{" + text + (f" without {listed(gone)}" if gone else "") + "}")
    return " ".join(out)


def listed(members: Iterable[MemberId]) -> str:
    return " ".join(m.name for m in members) or "nobody"


def span(first: int, last: int) -> str:
    return f"#{first}" if first == last else f"#{first}-{last}"


def time_of(word: str) -> int:
    return int(word[:-2]) * {"us": US, "ms": MS}[word[-2:]]


def play(text: str) -> str:
    """The same transcript with the output that the members produce now."""
    stage = Stage()
    out: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip() or line.startswith("#"):
            out.append(line)
            continue
        out += [line, "----", *stage.do(line)]
        for old in lines:  # skip the expected output
            if not old.strip():
                out.append("")
                break
    return "\n".join(out).rstrip() + "\n"


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda p: p.stem)
def test_the_members_do_what_the_transcript_says(path: Path) -> None:
    text = path.read_text()
    got = play(text)
    if os.environ.get("PHALANX_REWRITE"):
        path.write_text(got)
    else:
        assert got == text


def test_a_wrong_transcript_is_noticed() -> None:
    text = "group a b\n----\na: view a b c\n"
    assert play(text) != text
