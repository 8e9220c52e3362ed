"""The syntax tree of partition rules, and its printed form.

A rule answers one question about a group: may this part of it go on (`survive`), may two parts
become one group again (`merge`, S3 III.C)? The grammar:

    rule     = and { "or" and }
    and      = not { "and" not }
    not      = [ "not" ] atom
    atom     = "(" rule ")" | "always" | "never"
             | "size" cmp whole | "fraction" cmp decimal | "has" string
             | "count" "(" selector ")" cmp whole
             | "any" "(" selector ")" | "all" "(" selector ")"
    selector = key cmp value { "," key cmp value }
    cmp      = "<" | "<=" | "=" | ">=" | ">"
    value    = string | whole | "true" | "false"

Parsing the printed form of a tree gives the same tree. All numbers are integers: a fraction is kept
in millionths, so that two mservers never round differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Comparison = Literal["<", "<=", "=", ">=", ">"]
COMPARISONS: tuple[Comparison, ...] = ("<", "<=", "=", ">=", ">")
AttributeValue = str | int | bool

RULE_LENGTH_MAX = 256
"""Characters of a rule: it travels in the attributes of the group."""
RULE_DEPTH_MAX = 16
"""Parentheses and `not` around an atom."""
WHOLE_MAX = (1 << 63) - 1
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a member's attribute. A member without the attribute, or with one of
    another type, does not satisfy it."""

    key: str
    comparison: Comparison
    value: AttributeValue


Selector = tuple[Condition, ...]
"""A member matches if it satisfies all conditions."""


@dataclass(frozen=True, slots=True)
class Always:
    pass


@dataclass(frozen=True, slots=True)
class Never:
    pass


@dataclass(frozen=True, slots=True)
class SizeIs:
    """The number of members of this part."""

    comparison: Comparison
    size: int


@dataclass(frozen=True, slots=True)
class FractionIs:
    """The size of this part, divided by the largest size since the last union."""

    comparison: Comparison
    millionths: int


@dataclass(frozen=True, slots=True)
class HasMember:
    """Whether the member with this id or address is in this part."""

    name: str


@dataclass(frozen=True, slots=True)
class CountIs:
    """The number of members that match."""

    selector: Selector
    comparison: Comparison
    count: int


@dataclass(frozen=True, slots=True)
class AnyMatch:
    selector: Selector


@dataclass(frozen=True, slots=True)
class AllMatch:
    """Also true of a part without members."""

    selector: Selector


@dataclass(frozen=True, slots=True)
class NotRule:
    term: Rule


@dataclass(frozen=True, slots=True)
class AndRule:
    terms: tuple[Rule, ...]
    """At least two."""


@dataclass(frozen=True, slots=True)
class OrRule:
    terms: tuple[Rule, ...]
    """At least two."""


Rule = (
    Always
    | Never
    | SizeIs
    | FractionIs
    | HasMember
    | CountIs
    | AnyMatch
    | AllMatch
    | NotRule
    | AndRule
    | OrRule
)


def print_rule(rule: Rule) -> str:
    """The rule as text, with only the parentheses that it needs."""
    match rule:
        case OrRule(terms):
            return " or ".join(_within(term, OrRule) for term in terms)
        case AndRule(terms):
            return " and ".join(_within(term, OrRule, AndRule) for term in terms)
        case NotRule(term):
            return f"not {_within(term, OrRule, AndRule, NotRule)}"
        case Always():
            return "always"
        case Never():
            return "never"
        case SizeIs(comparison, size):
            return f"size {comparison} {size}"
        case FractionIs(comparison, millionths):
            return f"fraction {comparison} {_decimal(millionths)}"
        case HasMember(name):
            return f"has {_quoted(name)}"
        case CountIs(selector, comparison, count):
            return f"count({print_selector(selector)}) {comparison} {count}"
        case AnyMatch(selector):
            return f"any({print_selector(selector)})"
        case AllMatch(selector):
            return f"all({print_selector(selector)})"


def print_selector(selector: Selector) -> str:
    """The selector as text; the empty selector, which matches every member, is empty."""
    return ", ".join(f"{c.key} {c.comparison} {_value(c.value)}" for c in selector)


def _within(term: Rule, *loose: type[Rule]) -> str:
    text = print_rule(term)
    return f"({text})" if isinstance(term, loose) else text


def _decimal(millionths: int) -> str:
    whole, rest = divmod(millionths, MILLION)
    return f"{whole}.{rest:06}".rstrip("0").rstrip(".")


def _value(value: AttributeValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
