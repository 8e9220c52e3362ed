"""The error tree: who descends from whom, what an error holds, what its message says."""

from __future__ import annotations

import pickle

import pytest

from phalanx import errors
from phalanx.errors import (
    ConfigurationError,
    EventFileError,
    MemberClosed,
    MessageTooLarge,
    OutboxFull,
    PhalanxError,
    ScenarioError,
    SubmissionError,
    UnknownMember,
)


def descendants(kind: type[Exception]) -> list[type[Exception]]:
    return [kind] + [d for child in kind.__subclasses__() for d in descendants(child)]


def test_every_error_of_the_module_descends_from_one() -> None:
    defined = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and kind.__module__ == errors.__name__
    }
    assert defined <= set(descendants(PhalanxError))


def test_the_tree_in_the_docstring_names_every_error() -> None:
    assert errors.__doc__ is not None
    for kind in descendants(PhalanxError):
        if kind.__module__ == errors.__name__:
            assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize("kind", [ConfigurationError, ScenarioError, EventFileError])
def test_a_bad_input_is_also_a_value_error(kind: type[Exception]) -> None:
    assert issubclass(kind, ValueError)


@pytest.mark.parametrize("kind", [MessageTooLarge, UnknownMember, OutboxFull, MemberClosed])
def test_a_refused_submission_can_be_caught_as_one(kind: type[Exception]) -> None:
    assert issubclass(kind, SubmissionError)
    assert not issubclass(kind, ValueError)


def test_a_configuration_error_names_field_value_and_remedy() -> None:
    error = ConfigurationError("nack_ns_min", -1, "must be above 0")
    assert (error.field, error.value, error.remedy) == ("nack_ns_min", -1, "must be above 0")
    assert str(error) == "nack_ns_min = -1: must be above 0"


@pytest.mark.parametrize("kind", [ScenarioError, EventFileError])
def test_a_file_error_names_the_place_and_the_remedy(
    kind: type[ScenarioError] | type[EventFileError],
) -> None:
    error = kind("cut.toml", 7, "no member is called 'x'", "name one of a, b")
    assert (error.file, error.line) == ("cut.toml", 7)
    assert str(error) == "cut.toml:7: no member is called 'x'; name one of a, b"


@pytest.mark.parametrize("kind", [ScenarioError, EventFileError])
def test_a_file_error_without_a_line_names_the_file_alone(
    kind: type[ScenarioError] | type[EventFileError],
) -> None:
    error = kind("cut.toml", None, "is empty", "write a scenario")
    assert error.line is None
    assert str(error) == "cut.toml: is empty; write a scenario"


@pytest.mark.parametrize(
    ("error", "held", "said"),
    [
        (
            MessageTooLarge(900, 800),
            {"size": 900, "limit": 800},
            ["900", "message_bytes_max = 800", "split it"],
        ),
        (
            UnknownMember("x", ("a", "b")),
            {"name": "x", "known": ("a", "b")},
            ["'x'", "its members: a, b"],
        ),
        (
            OutboxFull(900, 800),
            {"waiting": 900, "limit": 800},
            ["900", "outbox_bytes_max = 800", "submit again"],
        ),
        (MemberClosed("a.1"), {"member": "a.1"}, ["a.1", "join again"]),
    ],
)
def test_a_refused_submission_holds_its_values_and_says_what_to_do(
    error: SubmissionError, held: dict[str, object], said: list[str]
) -> None:
    assert {name: getattr(error, name) for name in held} == held
    for words in said:
        assert words in str(error)


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("order", "x", "must be 'toto'"),
        ScenarioError("a.toml", 3, "unknown key", "remove it"),
        EventFileError("a.jsonl", None, "torn", "cut the last line"),
        MessageTooLarge(5, 4),
        UnknownMember("eve", ("ada", "bob")),
        OutboxFull(9, 8),
        MemberClosed("ada.1"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_an_error_reads_the_same_after_it_crossed_to_another_process(error: PhalanxError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
