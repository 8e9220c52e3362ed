"""The tokens of partition rules, each with the line and column where it begins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from phalanx.service.calls.call_errors import BadRule
from phalanx.service.rules.rule_syntax import RULE_LENGTH_MAX

TokenKind = Literal["word", "string", "number", "comparison", "mark", "end"]

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<word>[A-Za-z_][A-Za-z0-9_.-]*)
      | (?P<number>-?[0-9]+(?:\.[0-9]+)?)
      | (?P<string>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
      | (?P<comparison><=|>=|<|>|=)
      | (?P<mark>[(),])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    """As written; of a string, its value."""
    line: int
    column: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end of the rule"
        return f"the string {self.text!r:.40}" if self.kind == "string" else repr(self.text[:40])


def tokens_of(text: str) -> list[Token]:
    """All tokens of the text, the last of kind `end`. BadRule at the first character that begins
    none, or if the text is too long."""
    if len(text) > RULE_LENGTH_MAX:
        raise BadRule(f"the rule has {len(text)} characters, at most {RULE_LENGTH_MAX} are allowed")
    out: list[Token] = []
    place, line, start = 0, 1, 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        column = place - start + 1
        if found is None:
            raise BadRule(_misfit(text, place), line, column)
        kind, part = found.lastgroup, found.group()
        place = found.end()
        match kind:
            case "space":
                if "\n" in part:
                    line += part.count("\n")
                    start = found.start() + part.rindex("\n") + 1
            case "string":
                out.append(Token("string", _unescaped(part[1:-1], line, column), line, column))
            case "word" | "number" | "comparison" | "mark":
                out.append(Token(kind, part, line, column))
    out.append(Token("end", "", line, place - start + 1))
    return out


def _misfit(text: str, place: int) -> str:
    if text[place] in "\"'":
        return "the string has no closing quote on its line"
    return f"unexpected character {text[place]!r}"


def _unescaped(body: str, line: int, column: int) -> str:
    def one(found: re.Match[str]) -> str:
        short, long, other = found.groups()
        if other is not None:
            if other not in _SHORT:
                raise BadRule(f"unknown escape {found.group()!r} in a string", line, column)
            return _SHORT[other]
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise BadRule(f"{found.group()!r} is no character", line, column)
        return chr(code)

    return _ESCAPE.sub(one, body)
