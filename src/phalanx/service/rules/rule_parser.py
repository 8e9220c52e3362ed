"""Parser of partition rules and selectors: recursive descent, one token ahead.

An error names the line, the column, what was found and everything that could stand there instead.
"""

from __future__ import annotations

from phalanx.service.calls.call_errors import BadRule
from phalanx.service.rules.rule_lexer import Token, TokenKind, tokens_of
from phalanx.service.rules.rule_syntax import (
    COMPARISONS,
    MILLION,
    RULE_DEPTH_MAX,
    WHOLE_MAX,
    AllMatch,
    Always,
    AndRule,
    AnyMatch,
    AttributeValue,
    Comparison,
    Condition,
    CountIs,
    FractionIs,
    HasMember,
    Never,
    NotRule,
    OrRule,
    Rule,
    Selector,
    SizeIs,
)

ATOMS = ("(", "always", "never", "size", "fraction", "has", "count", "any", "all")
DIGITS_MAX = 19
DECIMALS_MAX = 6


def parse_rule(text: str) -> Rule:
    """The rule. BadRule if the text is none."""
    parser = _Parser(text)
    rule = parser.rule(0)
    parser.end("and", "or")
    return rule


def parse_selector(text: str) -> Selector:
    """The selector; an empty text matches every member. BadRule if the text is none."""
    parser = _Parser(text)
    if parser.token.kind == "end":
        return ()
    selector = parser.selector()
    parser.end(",")
    return selector


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = tokens_of(text)
        self._place = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._place]

    # ------------------------------------------------------------------ the grammar

    def rule(self, depth: int) -> Rule:
        terms = [self._and(depth)]
        while self._takes("word", "or"):
            terms.append(self._and(depth))
        return OrRule(tuple(terms)) if len(terms) > 1 else terms[0]

    def _and(self, depth: int) -> Rule:
        terms = [self._not(depth)]
        while self._takes("word", "and"):
            terms.append(self._not(depth))
        return AndRule(tuple(terms)) if len(terms) > 1 else terms[0]

    def _not(self, depth: int) -> Rule:
        if self._takes("word", "not"):
            return NotRule(self._atom(self._deeper(depth), ATOMS))
        return self._atom(depth, ("not", *ATOMS))

    def _atom(self, depth: int, expected: tuple[str, ...]) -> Rule:
        if self._takes("mark", "("):
            rule = self.rule(self._deeper(depth))
            self._expect("mark", ")", "and", "or")
            return rule
        word = self.token.text if self.token.kind == "word" else ""
        if word not in ATOMS:
            raise self._error(*expected)
        self._place += 1
        match word:
            case "always":
                return Always()
            case "never":
                return Never()
            case "size":
                return SizeIs(self._comparison(), self._whole())
            case "fraction":
                return FractionIs(self._comparison(), self._fraction())
            case "has":
                return HasMember(self._string())
            case "count":
                return CountIs(self._in_parentheses(), self._comparison(), self._whole())
            case "any":
                return AnyMatch(self._in_parentheses())
            case _:
                return AllMatch(self._in_parentheses())

    def _in_parentheses(self) -> Selector:
        self._expect("mark", "(")
        selector = self.selector()
        self._expect("mark", ")", ",")
        return selector

    def selector(self) -> Selector:
        conditions = [self._condition()]
        while self._takes("mark", ","):
            conditions.append(self._condition())
        return tuple(conditions)

    def _condition(self) -> Condition:
        if self.token.kind != "word":
            raise self._error("the key of an attribute")
        key = self._next().text
        place = self.token
        comparison = self._comparison()
        value = self._value()
        if isinstance(value, bool) and comparison != "=":
            raise BadRule(
                f"true and false have no order: expected '=', found {place}",
                place.line,
                place.column,
                ("=",),
            )
        return Condition(key, comparison, value)

    # ------------------------------------------------------------------ leaves

    def _comparison(self) -> Comparison:
        for comparison in COMPARISONS:
            if self._takes("comparison", comparison):
                return comparison
        raise self._error(*COMPARISONS)

    def _value(self) -> AttributeValue:
        token = self.token
        if token.kind == "number":
            return self._integer("a string", "a whole number", "true", "false")
        if token.kind not in ("word", "string"):
            raise self._error("a string", "a whole number", "true", "false")
        self._place += 1
        if token.kind == "word" and token.text in ("true", "false"):
            return token.text == "true"
        return token.text

    def _string(self) -> str:
        if self.token.kind not in ("word", "string"):
            raise self._error("a string")
        return self._next().text

    def _whole(self) -> int:
        if self.token.text.startswith("-"):
            raise self._error("a whole number of at least 0")
        return self._integer("a whole number of at least 0")

    def _integer(self, *expected: str) -> int:
        token = self.token
        if token.kind != "number" or "." in token.text:
            raise self._error(*expected)
        if len(token.text) > DIGITS_MAX + 1 or abs(int(token.text)) > WHOLE_MAX:
            raise self._error(f"a number up to {WHOLE_MAX}")
        return int(self._next().text)

    def _fraction(self) -> int:
        expected = f"a number from 0 to 1 with at most {DECIMALS_MAX} decimal places"
        token = self.token
        whole, _, decimals = token.text.partition(".")
        if token.kind != "number" or len(decimals) > DECIMALS_MAX or len(whole) > DIGITS_MAX:
            raise self._error(expected)
        millionths = int(whole) * MILLION + int((decimals + "0" * DECIMALS_MAX)[:DECIMALS_MAX])
        if whole.startswith("-") or millionths > MILLION:
            raise self._error(expected)
        self._place += 1
        return millionths

    # ------------------------------------------------------------------ tokens

    def _next(self) -> Token:
        self._place += 1
        return self._tokens[self._place - 1]

    def _takes(self, kind: TokenKind, text: str) -> bool:
        found = self.token.kind == kind and self.token.text == text
        self._place += found
        return found

    def _expect(self, kind: TokenKind, text: str, *more: str) -> None:
        if not self._takes(kind, text):
            raise self._error(text, *more)

    def end(self, *more: str) -> None:
        if self.token.kind != "end":
            raise self._error("the end of the rule", *more)

    def _deeper(self, depth: int) -> int:
        if depth >= RULE_DEPTH_MAX:
            place = self._tokens[self._place - 1]
            raise BadRule(
                f"more than {RULE_DEPTH_MAX} parentheses and 'not' inside each other",
                place.line,
                place.column,
            )
        return depth + 1

    def _error(self, *expected: str) -> BadRule:
        token = self.token
        text = f"expected {' or '.join(expected)}, found {token}"
        return BadRule(text, token.line, token.column, expected)
