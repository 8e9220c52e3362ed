"""Text for terminals: escape what could break a line.

A message may contain text from elsewhere: keys, names, paths. Characters that are not printable are
escaped as in a Python string, so that no such text can break a line or change a terminal.
"""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text with every character that is not printable escaped."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
