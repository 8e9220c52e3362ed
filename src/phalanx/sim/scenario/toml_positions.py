"""Where in a TOML text each key, table and element stands.

tomllib does not say where a value stood. `places` reads a text that tomllib has accepted once
more, only for lines: it knows strings of all four kinds, comments, dotted and quoted keys,
arrays and inline tables over several lines, and arrays of tables. Lines end at a line feed and
nowhere else, as in TOML.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

Path = tuple[str | int, ...]

DEPTH_MAX = 32
_TOKEN = re.compile(
    r"""
    (?P<skip>[^\S\n]+|\#[^\n]*)
    | (?P<newline>\n)
    | (?P<text>\"\"\"(?:\\.|[^\\])*?\"{3,5} | '''.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
    | (?P<mark>[][{},=.])
    | (?P<word>[^][{},=.\#"'\s]+)
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def line_of(text: str, path: Path) -> int:
    """The line, counted from 1, of the value at `path` or of the nearest thing that holds it."""
    found = places(text)
    for length in range(len(path), 0, -1):
        if path[:length] in found:
            return found[path[:length]]
    return 1


def places(text: str) -> dict[Path, int]:
    """The line on which each key, each table and each element of an array begins.

    What lies deeper than DEPTH_MAX is not listed, nor anything after it.
    """
    scan = _Scan(list(_tokens(text)))
    with suppress(IndexError, _TooDeep):  # torn text, or deeper than anyone writes
        scan.document()
    return scan.places


def deep_line(text: str) -> int:
    """The line on which brackets are first nested deeper than DEPTH_MAX, else 1."""
    depth = 0
    for token in _tokens(text):
        if token.kind == "mark":
            depth += (token.text in "[{") - (token.text in "]}")
            if depth > DEPTH_MAX:
                return token.line
    return 1


def last_line(text: str) -> int:
    """The number of the last line that holds anything, at least 1."""
    return max(1, text.rstrip("\n").count("\n") + 1)


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        if kind != "skip":
            yield _Token(kind, match[0], line)
        line += match[0].count("\n")


class _TooDeep(Exception):
    pass


class _Scan:
    """One reading of the tokens of a text."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.places: dict[Path, int] = {}
        self._tokens = tokens
        self._at = 0
        self._rows: dict[Path, int] = {}
        """Arrays of tables, and the index of the row that was begun last."""

    def document(self) -> None:
        inside: Path = ()
        while self._at < len(self._tokens):
            if self._tokens[self._at].kind == "newline":
                self._at += 1
            elif self._sees("["):
                inside = self._header()
            else:
                self._pair(inside, 1)

    def _sees(self, marks: str) -> bool:
        token = self._tokens[self._at]
        return token.kind == "mark" and token.text in marks

    def _header(self) -> Path:
        line = self._tokens[self._at].line
        self._at += 1
        many = self._sees("[")
        self._at += many
        *parents, last = self._key()
        self._at += 2 if many else 1
        path: Path = ()
        for part in parents:
            path = self._current((*path, part))
        path = (*path, last)
        self.places.setdefault(path, line)
        if many:
            self._rows[path] = self._rows.get(path, -1) + 1
        path = self._current(path)
        self.places.setdefault(path, line)
        return path

    def _current(self, path: Path) -> Path:
        """The path with the index of the row that is open, if it leads to an array of tables."""
        return (*path, self._rows[path]) if path in self._rows else path

    def _key(self) -> list[str]:
        parts: list[str] = []
        while not self._sees("]="):
            token = self._tokens[self._at]
            if token.kind == "text":
                parts.append(str(tomllib.loads(f"x = {token.text}")["x"]))
            elif token.kind == "word":
                parts.append(token.text)
            self._at += 1
        return parts

    def _pair(self, inside: Path, depth: int) -> None:
        line = self._tokens[self._at].line
        path = inside
        for part in self._key():
            path = (*path, part)
            self.places.setdefault(path, line)
        self._at += 1  # the equals sign
        self._value(path, depth)

    def _value(self, path: Path, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise _TooDeep
        if self._sees("["):
            self._array(path, depth)
        elif self._sees("{"):
            self._inline_table(path, depth)
        else:
            while self._at < len(self._tokens) and not (
                self._tokens[self._at].kind == "newline" or self._sees(",]}")
            ):
                self._at += 1

    def _array(self, path: Path, depth: int) -> None:
        self._at += 1
        index = 0
        while not self._sees("]"):
            token = self._tokens[self._at]
            if token.kind == "newline" or token.text == ",":
                self._at += 1
                continue
            self.places.setdefault((*path, index), token.line)
            self._value((*path, index), depth + 1)
            index += 1
        self._at += 1

    def _inline_table(self, path: Path, depth: int) -> None:
        self._at += 1
        while not self._sees("}"):
            token = self._tokens[self._at]
            if token.kind == "newline" or token.text == ",":
                self._at += 1
                continue
            self._pair(path, depth + 1)
        self._at += 1
