"""A fact has one name: docs/facts.md is up to date, and nothing deviates without a reason.

For each check one test holds the tree to it, and one shows on a small schema that it can fail.
"""

from __future__ import annotations

import msgspec
import pytest
from tools import facts
from tools.facts import Exceptions, Fact, facts_of, name_of_table, problems

from phalanx.core.ids import MemberId, View, ViewId
from phalanx.journal.schema import TABLES, Row


class Met(msgspec.Struct):
    """An effect."""

    peer: MemberId
    others: tuple[MemberId, ...] | None
    relay: MemberId | None
    view: ViewId
    count: int


class MetRow(Row, frozen=True, kw_only=True, tag="met"):
    peer: str
    peer_incarnation: int
    others: list[str] | None
    other_incarnations: list[int] | None
    relay: str | None
    relay_incarnation: int | None
    view: str
    count: int


MetRow.__name__ = "Met"


class Shown(msgspec.Struct):
    view: View


def test_every_effect_and_every_column_has_one_name_or_a_reason() -> None:
    assert "\n".join(problems()) == ""


def test_every_field_of_an_event_has_the_name_of_the_effect_s_or_a_reason() -> None:
    assert "\n".join(facts.event_problems()) == ""


class Noted(msgspec.Struct):
    """An event."""

    count: int
    number: int


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ({}, "Noted.number: no effect has it"),
        ({("Noted", "number"): ("n", ".")}, "Noted.number: no effect has n"),
        ({("Noted", "count"): ("view", ".")}, "Noted.count: listed with another name, and has"),
        ({("Noted", "size"): ("count", ".")}, "Noted.size: listed for no event"),
    ],
)
def test_a_name_of_an_event_that_deviates_is_found(
    others: dict[tuple[str, str], tuple[str, str]], problem: str
) -> None:
    found = facts.event_problems({Noted: (Met,)}, others)
    assert [line for line in found if line.startswith(problem)]


def test_the_page_is_what_would_be_generated_now() -> None:
    written = (facts.ROOT / facts.PAGE).read_text(encoding="utf-8")
    assert written == facts.generated(), "run tools/facts.py"


def test_the_page_names_every_table_and_every_column() -> None:
    page = facts.generated()
    for table, kind in TABLES.items():
        assert f"`{table}`" in page
        if table not in facts.EXCEPTIONS.no_effect:
            assert [name for name in kind.__struct_fields__ if f"`{name}`" not in page] == []


def test_a_row_that_obeys_the_rules_is_no_problem() -> None:
    assert problems([Met], {"met": MetRow}, Exceptions()) == []


def test_fields_become_columns_by_their_types() -> None:
    assert facts_of(Met, Exceptions()) == [
        Fact("peer", ("peer", "peer_incarnation")),
        Fact("others", ("others", "other_incarnations")),
        Fact("relay", ("relay", "relay_incarnation")),
        Fact("view", ("view",)),
        Fact("count", ("count",)),
    ]
    assert facts_of(Shown, Exceptions()) == [Fact("view", facts.VIEW)]
    assert name_of_table("ViewChangeStep") == "view_change_step"


def without(column: str, **more: type) -> type[Row]:
    """The row without a column, and with others."""
    columns = [
        (field.name, field.type)
        for field in msgspec.structs.fields(MetRow)
        if field.name != column and field.name not in facts.COMMON
    ]
    made = msgspec.defstruct("Met", [*columns, *more.items()], bases=(Row,), kw_only=True)
    assert issubclass(made, Row)
    return made


@pytest.mark.parametrize(
    ("tables", "exceptions", "problem"),
    [
        ({}, Exceptions(), "Met: no row records it"),
        ({"meet": MetRow}, Exceptions(), "meet: its row is called Met"),
        ({"met": without("count", n=int)}, Exceptions(), "Met.count: met has no column count"),
        ({"met": without("count", n=int)}, Exceptions(), "met.n: records no field"),
        ({"met": MetRow}, Exceptions(no_row={"Met": "."}), "Met: listed without a row"),
        ({"met": MetRow}, Exceptions(no_row={"Seen": "."}), "Seen: an exception for no effect"),
        (
            {"met": MetRow},
            Exceptions(in_row={"Seen": ("Met", ".")}),
            "Seen: an exception for no effect",
        ),
        (
            {"met": MetRow},
            Exceptions(no_column={("Met", "count"): "."}),
            "met.count: records no field",
        ),
        (
            {"met": MetRow},
            Exceptions(no_column={("Met", "n"): "."}),
            "Met.n: an exception for no field",
        ),
        (
            {"met": MetRow},
            Exceptions(other_columns={("Met", "count"): (("count",), ".")}),
            "Met.count: an exception that obeys the rules",
        ),
        ({"met": MetRow}, Exceptions(no_effect={"met": "."}), "met: listed without an effect"),
        ({"met": MetRow}, Exceptions(no_effect={"seen": "."}), "seen: an exception for no table"),
        (
            {"met": MetRow},
            Exceptions(no_field={("met", "n"): "."}),
            "met.n: an exception for no column",
        ),
        (
            {"met": MetRow},
            Exceptions(no_field={("met", "count"): "."}),
            "met.count: an exception for a column that records a field",
        ),
    ],
)
def test_what_deviates_is_found(
    tables: dict[str, type[Row]], exceptions: Exceptions, problem: str
) -> None:
    assert [found for found in problems([Met], tables, exceptions) if found.startswith(problem)]
