"""Small scenarios as text files that read like prose: a command, then all that it brings about.

A block is a command, a line `----`, and the full output up to an empty line. Packets do not travel
by themselves: `carry a b` brings what a has sent to b, `lose a b` drops it. To accept new output
after reading it: `PHALANX_REWRITE=1 pytest tests/transcripts`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phalanx.config import lan
from phalanx.core.codec import Codec
from phalanx.core.effects import (
    Accepted,
    Close,
    Datagrams,
    DeadlinePassed,
    Deliver,
    Effect,
    Ordered,
    Refused,
    Sent,
    Service,
    Stable,
    Submit,
    Transmit,
    ViewInstalled,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.frames import Fragment, Frame, Nack
from phalanx.core.framing import decode_frame
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member import Member
from phalanx.errors import SubmissionError

HERE = Path(__file__).parent
CODEC = Codec("phalanx", "g")
US = 1000


class Stage:
    """The members of a transcript and the packets between them."""

    def __init__(self) -> None:
        self.now = 0
        self.members: dict[str, Member] = {}
        self.between: dict[tuple[str, str], list[bytes]] = {}
        self.names: list[str] = []

    def do(self, line: str) -> list[str]:
        command, *words = line.split()
        match command:
            case "group":
                return self.group(words)
            case "submit":
                return self.submit(words)
            case "carry":
                packets = self.between.pop((words[0], words[1]), [])
                return self.step(words[1], Datagrams(packets)) if packets else ["nothing to carry"]
            case "lose":
                return [f"{len(self.between.pop((words[0], words[1]), []))} packets lost"]
            case "wait":
                return self.wait(int(words[0].removesuffix("us")) * US)
            case "garbage":
                return self.step(words[0], Datagrams([" ".join(words[1:]).encode()]))
            case "close":
                return self.step(words[0], Close())
            case "state":
                return self.members[words[0]].story()
        raise AssertionError(f"unknown command: {line}")

    def group(self, words: list[str]) -> list[str]:
        self.names = [w for w in words if "=" not in w]
        settings = dict(w.split("=") for w in words if "=" in w)
        typed = {k: int(v) if v.isdigit() else v == "yes" or v for k, v in settings.items()}
        view = boot_view([MemberId(name) for name in self.names])
        out = []
        for i, name in enumerate(self.names):
            self.members[name] = Member(MemberId(name), view, "g", lan(**typed), i)
            out += self.show(name, self.members[name].start(0))
        return out

    def submit(self, words: list[str]) -> list[str]:
        name, service, *rest = words
        to = None
        if rest[-1].startswith("to="):
            to = tuple(MemberId(n) for n in rest.pop()[3:].split(","))
        bodies = [w.encode() for w in rest]
        return self.step(name, Submit(bodies, Service[service.upper()], to))

    def wait(self, span: int) -> list[str]:
        """Let time pass; timers go off at their members in order."""
        end = self.now + span
        out = []
        while True:
            due, name = min((m.deadline() or end + 1, n) for n, m in self.members.items())
            if due > end:
                break
            self.now = max(self.now, due)
            out += self.step(name, DeadlinePassed())
        self.now = end
        return out or ["all quiet"]

    def step(self, name: str, given: Datagrams | DeadlinePassed | Submit | Close) -> list[str]:
        try:
            effects = self.members[name].step(self.now, given)
        except SubmissionError as error:
            return [f"{name}: {type(error).__name__}: {error}"]
        return self.show(name, effects) or [f"{name}: nothing"]

    def show(self, name: str, effects: list[Effect]) -> list[str]:
        return [f"{name}: {text}" for effect in effects for text in self.tell(name, effect)]

    def tell(self, name: str, effect: Effect) -> list[str]:
        match effect:
            case ViewInstalled(view):
                return ["view " + " ".join(m.name for m in view.members)]
            case Accepted(first, last):
                return [f"accepted {span(first, last)}"]
            case Sent(first, last, frame, service):
                return [f"sent {span(first, last)} {service.name.lower()} in frame {frame}"]
            case Transmit(packets):
                for other in self.names:
                    if other != name:
                        self.between.setdefault((name, other), []).extend(packets)
                return [self.packet(packet) for packet in packets]
            case Deliver():
                bodies = " ".join(body.decode() for body in effect.bodies())
                place = "" if effect.pos is None else f" at {effect.pos}"
                whose = f"{effect.sender.name}{span(effect.first, effect.last)}"
                return [f"deliver {whose} {effect.service.name.lower()}{place}: {bodies}"]
            case Ordered(upto):
                return [f"ordered up to #{upto}"]
            case Stable(upto):
                return [f"stable up to #{upto}"]
            case WindowClosed() | WindowOpened():
                return ["window closed" if isinstance(effect, WindowClosed) else "window opened"]
            case Refused(reason, count):
                return [f"refused {count} as {reason}"]

    def packet(self, packet: bytes) -> str:
        got = CODEC.decode(packet)
        if isinstance(got, Nack):
            wants = [f"{self.names[w.sender]}/{w.first}-{w.last}" for w in got.wants]
            return f"nack {' '.join(wants)}"
        assert isinstance(got, Fragment)
        name = f"{'repeat' if got.repeat else 'transmit'} {self.names[got.sender]}/{got.number}"
        if got.count > 1:
            return f"{name} fragment {got.index + 1} of {got.count}"
        frame = decode_frame(got.sender, got.number, got.piece, 0, got.table, len(self.names))
        assert isinstance(frame, Frame)
        acks = [
            f"{self.names[q]}{c}" for q, c in zip(frame.ack_members, frame.ack_numbers, strict=True)
        ]
        return f"{name} {'data' if frame.runs else 'ack'} acks [{' '.join(acks)}]"


def span(first: int, last: int) -> str:
    return f"#{first}" if first == last else f"#{first}-{last}"


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
