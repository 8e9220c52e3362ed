"""The file as text: nothing that a name holds can become markup, and nothing is loaded."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.report.made import made

from phalanx.pipeline.report.html import SCRIPTS, STYLES, assemble, embedded
from phalanx.pipeline.report.model import Page

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>&lt;&#60;",
    '"><img src=x onerror=alert(1)>',
    "{{DATA}} {{SCRIPT}}",
    "\u202eevil\u2028\u2029\x00\x1b[31m",
    "a" * 5_000,
    "",
]


class Elements(HTMLParser):
    """Names of all elements, and the text of each script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._raw = False
        self.names: list[str] = []
        self.inside: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        self._raw = tag in ("script", "style")
        if self._raw:
            self.inside.append("")

    def handle_endtag(self, tag: str) -> None:
        self._raw = False

    def handle_data(self, data: str) -> None:
        if self._raw:
            self.inside[-1] += data


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_cannot_add_an_element_and_comes_through_unchanged(name: str) -> None:
    plain = Elements(assemble(made("ada")))
    found = Elements(assemble(made(name)))
    assert found.names == plain.names
    data = next(text for text in found.inside if text.startswith("{"))
    assert msgspec.json.decode(data, type=Page) == made(name)


@given(st.text())
def test_embedded_data_holds_no_character_of_markup(name: str) -> None:
    text = embedded(made(name))
    assert not set(text) & set("<>&\u2028\u2029")
    assert msgspec.json.decode(text, type=Page) == made(name)


def test_the_policy_allows_the_script_and_the_style_of_the_page_and_nothing_else() -> None:
    found = Elements(assemble(made("ada")))
    policy = next(v for k, v in found.attributes if k == "content" and v and "default-src" in v)
    style, _, script = found.inside

    def digest(text: str) -> str:
        return "'sha256-" + b64encode(sha256(text.encode()).digest()).decode() + "'"

    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["script-src"] == digest(script)
    assert parts["style-src"] == digest(style)


def test_the_page_names_no_other_place() -> None:
    text = assemble(made("ada")).replace('"http://www.w3.org/2000/svg"', "")
    assert re.findall(r"https?:|url\((?!#)|@import|\bfetch\(|XMLHttpRequest", text) == []


def test_nothing_of_a_journal_is_ever_parsed_as_markup() -> None:
    folder = files("phalanx.pipeline.report").joinpath("page")
    for name in SCRIPTS:
        code = folder.joinpath(name).read_text("utf-8")
        code = re.sub(r"//.*", "", code)
        forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\("
        assert re.findall(forbidden, code) == [], name


def test_every_file_of_the_page_is_used() -> None:
    folder = files("phalanx.pipeline.report").joinpath("page")
    there = {file.name for file in folder.iterdir()}
    assert there == {*SCRIPTS, *STYLES, "page.html"}
