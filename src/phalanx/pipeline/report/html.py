"""Render a model as one HTML file that needs no other resource and no network.

The data is JSON that cannot end its script element, whatever characters names contain; the page's
own code puts names only into text nodes. A content security policy in the head allows exactly the
script and the style in the file, by their hashes, and forbids loading anything.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files

import msgspec

from phalanx.pipeline.report.model import Page
from phalanx.text import one_line

SCRIPTS = (
    "base.js",
    "axis.js",
    "tips.js",
    "bands.js",
    "spacetime.js",
    "plots.js",
    "links.js",
    "verdicts.js",
    "removals.js",
    "main.js",
)
STYLES = ("page.css", "figures.css")
TITLE_MAX = 80


def assemble(page: Page) -> str:
    """The file."""
    script = "(() => {\n" + "\n".join(map(_part, SCRIPTS)) + "})();\n"
    style = "".join(_part(name) for name in STYLES)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "POLICY": escape(policy, quote=False),
        "TITLE": escape(_title(page)),
        "STYLE": style,
        "DATA": embedded(page),
        "SCRIPT": script,
    }
    text = _part("page.html")
    pieces = []
    # One pass from left to right: what was put in is never looked at for places again.
    while "{{" in text:
        before, _, rest = text.partition("{{")
        name, _, text = rest.partition("}}")
        pieces += [before, parts[name]]
    return "".join([*pieces, text])


def embedded(page: Page) -> str:
    """JSON that may stand in a script element: nothing in it can open or close a tag."""
    text = msgspec.json.encode(page).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _part(name: str) -> str:
    return files("phalanx.pipeline.report").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _title(page: Page) -> str:
    groups = ", ".join(dict.fromkeys(run.group for run in page.runs))
    text = one_line(groups)
    return (text if len(text) <= TITLE_MAX else text[:TITLE_MAX] + "…") + " · Phalanx report"
