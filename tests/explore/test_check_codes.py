"""Codes of the explorer: each is in the table, and names a property of the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

import phalanx.explore
from phalanx.explore import check_codes
from phalanx.explore.check_codes import PROPERTY_OF
from phalanx.explore.member_history import Finding
from phalanx.verify.properties import PROPERTIES

FOLDER = Path(phalanx.explore.__file__).parent


def used() -> set[str]:
    """The codes that the sources of the explorer make findings of."""
    texts = [file.read_text(encoding="utf-8") for file in FOLDER.glob("*.py")]
    return {code for text in texts for code in re.findall(r'Finding\(\s*"(\w+)"', text)}


def test_every_code_is_in_the_table_and_none_is_left_over() -> None:
    assert used() == set(PROPERTY_OF)


def test_every_code_has_a_description() -> None:
    assert check_codes.__doc__ is not None
    described = set(re.findall(r"^(J\w+) ", check_codes.__doc__, re.MULTILINE))
    assert described == set(PROPERTY_OF)


def test_every_code_names_a_property_of_the_catalogue_or_none() -> None:
    assert {name for name in PROPERTY_OF.values() if name is not None} <= set(PROPERTIES)
    assert {code for code, name in PROPERTY_OF.items() if name is None} == {"JN", "JX"}


def test_a_finding_is_shown_with_its_code_and_its_property() -> None:
    assert str(Finding("J7", "m0 delivers it twice")) == "J7: m0 delivers it twice [no-duplication]"
    assert str(Finding("JX", "m0 raised KeyError")) == "JX: m0 raised KeyError"
