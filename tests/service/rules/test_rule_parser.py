"""Partition rules: what is parsed, what is refused and where, and that printing loses nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.service.calls.call_errors import BadRule
from phalanx.service.rules import rule_syntax as syntax
from phalanx.service.rules.rule_parser import parse_rule, parse_selector
from phalanx.service.rules.rule_syntax import (
    COMPARISONS,
    RULE_LENGTH_MAX,
    AllMatch,
    Always,
    AndRule,
    AnyMatch,
    Condition,
    CountIs,
    FractionIs,
    HasMember,
    Never,
    NotRule,
    OrRule,
    Rule,
    SizeIs,
    print_rule,
    print_selector,
)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("always", Always()),
        ("never", Never()),
        ("size>=3", SizeIs(">=", 3)),
        ("fraction > 0.5", FractionIs(">", 500_000)),
        ("fraction = 1", FractionIs("=", 1_000_000)),
        ("has 'ada'", HasMember("ada")),
        ("has ada", HasMember("ada")),
        ('count(role = "db", tier <= -2) < 2', CountIs((
            Condition("role", "=", "db"), Condition("tier", "<=", -2)), "<", 2)),
        ("any(right.admin = true)", AnyMatch((Condition("right.admin", "=", True),))),
        ("all(size = small)", AllMatch((Condition("size", "=", "small"),))),
        ("not never", NotRule(Never())),
        ("not (not never)", NotRule(NotRule(Never()))),
        ("((always))", Always()),
        ("always or never and always", OrRule((Always(), AndRule((Never(), Always()))))),
        ("(always or never) and always", AndRule((OrRule((Always(), Never())), Always()))),
        ("always\n  or\n\tnever", OrRule((Always(), Never()))),
        (r'has "a\"\\\u00e9\U0001f600\n"', HasMember('a"\\é😀\n')),
    ],
)  # fmt: skip
def test_a_rule_is_parsed(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("", 1, 1, "expected not or ( or always"),
        ("size 3", 1, 6, "expected < or <= or = or >= or >, found '3'"),
        ("size >= many", 1, 9, "expected a whole number of at least 0, found 'many'"),
        ("size >= -1", 1, 9, "at least 0"),
        ("size >= 2.5", 1, 9, "a whole number"),
        ("fraction > 1.5", 1, 12, "from 0 to 1"),
        ("fraction > -0.5", 1, 12, "from 0 to 1"),
        ("fraction > 0.1234567", 1, 12, "at most 6 decimal places"),
        ("has", 1, 4, "expected a string, found the end of the rule"),
        ("always never", 1, 8, "expected the end of the rule or and or or, found 'never'"),
        ("always and\n  (size > 1", 2, 12, "expected ) or and or or, found the end of the rule"),
        ("any(role)", 1, 9, "expected <"),
        ("any()", 1, 5, "expected the key of an attribute, found ')'"),
        ("any(up > true)", 1, 8, "expected '=', found '>'"),
        ("not not always", 1, 5, "expected ( or always"),
        ("size ! 3", 1, 6, "unexpected character '!'"),
        ("has 'ada", 1, 5, "no closing quote"),
        (r"has 'a\q'", 1, 5, "unknown escape"),
        (r"has '\ud800'", 1, 5, "is no character"),
        (r"has '\U00110000'", 1, 5, "is no character"),
        ("any(x = 99999999999999999999999)", 1, 9, "a number up to"),
        ("any(x = 9223372036854775808)", 1, 9, "a number up to"),
        ("size > ٣", 1, 8, "unexpected character"),
    ],
)
def test_an_error_names_line_column_and_what_is_expected(
    text: str, line: int, column: int, part: str
) -> None:
    with pytest.raises(BadRule) as caught:
        parse_rule(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert part in str(caught.value)
    assert str(caught.value).startswith(f"bad-rule: {line}:{column}: ")


def test_length_and_depth_are_bounded() -> None:
    assert parse_rule(" " * (RULE_LENGTH_MAX - 6) + "always") == Always()
    with pytest.raises(BadRule, match="257 characters"):
        parse_rule(" " * (RULE_LENGTH_MAX - 5) + "always")
    assert parse_rule("(" * 16 + "always" + ")" * 16) == Always()
    with pytest.raises(BadRule, match="more than 16"):
        parse_rule("(" * 17 + "always" + ")" * 17)
    with pytest.raises(BadRule, match="more than 16"):
        parse_rule("not (" * 9 + "always" + ")" * 9)


def test_the_empty_selector_matches_all_and_an_error_names_its_place() -> None:
    assert parse_selector(" ") == ()
    with pytest.raises(BadRule) as caught:
        parse_selector("role = db tier = 1")
    assert caught.value.expected == ("the end of the rule", ",")
    assert caught.value.column == 11


keys = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,6}", fullmatch=True)
strings = st.text("ab '\"\\\n\t\0é\u2028😀\U000e0001", max_size=8)
wholes = st.integers(0, 1 << 40)
comparisons = st.sampled_from(COMPARISONS)
conditions = st.one_of(
    st.builds(Condition, keys, comparisons, st.one_of(strings, st.integers(-9, 1 << 62))),
    st.builds(Condition, keys, st.just("="), st.booleans()),
)
selectors = st.lists(conditions, min_size=1, max_size=3).map(tuple)
atoms: st.SearchStrategy[Rule] = st.one_of(
    st.builds(Always),
    st.builds(Never),
    st.builds(SizeIs, comparisons, wholes),
    st.builds(FractionIs, comparisons, st.integers(0, syntax.MILLION)),
    st.builds(HasMember, strings),
    st.builds(CountIs, selectors, comparisons, wholes),
    st.builds(AnyMatch, selectors),
    st.builds(AllMatch, selectors),
)


def compounds(inner: st.SearchStrategy[Rule]) -> st.SearchStrategy[Rule]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(NotRule, inner), st.builds(AndRule, several), st.builds(OrRule, several)
    )


rules = st.recursive(atoms, compounds, max_leaves=6)


@settings(deadline=None)
@given(rules)
def test_parsing_the_printed_form_gives_the_same_rule(rule: Rule) -> None:
    text = print_rule(rule)
    if len(text) <= RULE_LENGTH_MAX:
        assert repr(parse_rule(text)) == repr(rule)  # repr tells 1 from True


@settings(deadline=None)
@given(selectors)
def test_parsing_a_printed_selector_gives_the_same_selector(
    selector: tuple[Condition, ...],
) -> None:
    text = print_selector(selector)
    assert repr(parse_selector(text)) == repr(selector)


def refusal(text: str) -> BadRule | None:
    try:
        parse_rule(text)
    except BadRule as error:
        return error
    return None


@settings(deadline=None)
@given(st.text("not(),any=<>0.5-'\"\\u\n é😀", max_size=40))
def test_any_text_is_a_rule_or_refused_with_a_place(text: str) -> None:
    error = refusal(text)
    assert error is None or (error.line >= 1 and error.column >= 1)


pieces = st.sampled_from(
    [*"(),", "always", "not", "and", "or", "size", "has", "count", "any", "fraction",
     ">=", "=", "3", "0.5", "-1", "'x'", "k", "true"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(pieces, max_size=20))
def test_any_sequence_of_tokens_is_a_rule_or_refused_with_a_place(parts: list[str]) -> None:
    text = " ".join(parts)
    error = refusal(text)
    if error is None:
        assert parse_rule(print_rule(parse_rule(text))) == parse_rule(text)
    else:
        assert 1 <= error.column <= len(text) + 1
