"""Generates docs/traceability.md: for each rule of docs/protocol, what cites it.

    python tools/traceability.py            write the page
    python tools/traceability.py --check    print what is wrong, and exit with 1 if anything is

A citation is `rule B-7`, `rules B-7 and B-9`, `rules R1 to R5`. Code is everything in src/phalanx
but the mutants, which are listed apart: the text of a mutant begins with the rule that it breaks.
Places are file and function, not lines, so that the page changes only when citations do.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "wire.md",
    "broadcast.md",
    "flow-control.md",
    "total-order.md",
    "services.md",
    "membership.md",
    "detector.md",
)
PAGE = "docs/traceability.md"
MUTANTS_FOLDER = "sim/mutants/"

_NAME = r"(?:[A-Z]-\d+|R\d+|N(?:\.\d+)?|J|T|Cut|Early\s+delivery|LEAVE|Roles)(?![\w-])"
_GAP = r"(?:\s+(?:#\s*)?)"
_JOIN = rf"(?:,{_GAP}and{_GAP}|,{_GAP}|{_GAP}(?:and|or|to){_GAP})"
_CITATION = re.compile(rf"\b[Rr]ules?{_GAP}({_NAME}(?:{_JOIN}{_NAME})*)")
_DEFINITION = re.compile(
    r"^\*\*([A-Z]-\d+|R\d|N|J|T|Cut|Early delivery|LEAVE|Roles)\b ?([^.*]*)\.?\*\*(.*)",
    re.MULTILINE,
)
_SUBRULE = re.compile(r"^(\d)\. ", re.MULTILINE)


@dataclass(frozen=True)
class Rule:
    """A rule of the specification."""

    name: str
    title: str
    page: str
    retired: bool


@dataclass(frozen=True)
class Citation:
    """A place that cites a rule."""

    rule: str
    file: str
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.function}" if self.function else self.file


# ------------------------------------------------------------------ rules


def rules_in(page: str, text: str) -> list[Rule]:
    """The rules that a page of the specification defines, in its order."""
    out = []
    for found in _DEFINITION.finditer(text):
        name, title, rest = found.groups()
        out.append(Rule(name, title.strip(), page, rest.strip().startswith("*Retired*")))
        if name == "N":  # its numbered clauses are rules of their own
            end = text.index("\n\n", found.end())
            clauses = _SUBRULE.finditer(text[found.end() : end])
            out += [Rule(f"N.{clause[1]}", "", page, False) for clause in clauses]
    return out


def all_rules(root: Path = ROOT) -> dict[str, Rule]:
    """Every rule by name. ValueError if one is defined twice."""
    out: dict[str, Rule] = {}
    for page in PAGES:
        for rule in rules_in(page, (root / "docs/protocol" / page).read_text(encoding="utf-8")):
            if rule.name in out:
                raise ValueError(f"{page}: rule {rule.name} is defined twice")
            out[rule.name] = rule
    return out


# ------------------------------------------------------------------ citations


def names_in(text: str) -> Iterator[tuple[int, str]]:
    """Position and name of each rule that a text cites; ranges are expanded."""
    for found in _CITATION.finditer(text):
        for name in _expanded(found[1]):
            yield found.start(), name


def _expanded(listed: str) -> Iterator[str]:
    words = re.split(rf"({_JOIN})", listed)
    previous = ""
    for index in range(0, len(words), 2):
        name = re.sub(r"\s+", " ", words[index])
        if index and words[index - 1].strip(" #\n") == "to":
            yield from _between(previous, name)
        yield name
        previous = name


def _between(first: str, last: str) -> Iterator[str]:
    """The names between two of one kind, without them; the last alone if they differ in kind."""
    a, b = (re.fullmatch(r"(\D+?)(\d+)", name) for name in (first, last))
    if a is None or b is None or a[1] != b[1]:
        yield f"{first} to {last}"  # no rule: reported as one that does not exist
        return
    for number in range(int(a[2]) + 1, int(b[2])):
        yield f"{a[1]}{number}"


def citations_in(file: str, text: str) -> list[Citation]:
    """What a file cites; in Python with the function or class around each citation."""
    spans = _functions(text) if file.endswith(".py") else []
    out: dict[Citation, None] = {}
    for at, name in names_in(text):
        line = text.count("\n", 0, at) + 1
        inside = [span for span in spans if span[0] <= line <= span[1]]
        function = max(inside)[2] if inside else ""
        out[Citation(name, file, function)] = None
    return list(out)


def _functions(source: str) -> list[tuple[int, int, str]]:
    """First and last line of every function and class, with its name."""
    out = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                assert child.end_lineno is not None
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                out.append((first, child.end_lineno, prefix + child.name))
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    visit(ast.parse(source), "")
    return out


def cited_under(folder: Path, suffixes: Iterable[str]) -> list[Citation]:
    out = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in suffixes and path.is_file():
            text = path.read_text(encoding="utf-8")
            out += citations_in(path.relative_to(folder).as_posix(), text)
    return out


def cited_by_code(root: Path = ROOT) -> list[Citation]:
    found = cited_under(root / "src/phalanx", (".py",))
    return [citation for citation in found if not citation.file.startswith(MUTANTS_FOLDER)]


def cited_by_tests(root: Path = ROOT) -> list[Citation]:
    found = cited_under(root / "tests", (".py", ".txt", ".story", ".toml"))
    return [citation for citation in found if citation.file != "test_traceability.py"]


def cited_by_docs(root: Path = ROOT) -> list[Citation]:
    found = cited_under(root / "docs", (".md",)) + cited_under(root / "models", (".md", ".py"))
    return [citation for citation in found if citation.file != Path(PAGE).name]


def broken_by_mutants() -> list[Citation]:
    """Which rule each mutant breaks, as its text says."""
    from phalanx.sim.mutants import MUTANTS

    return [
        Citation(mutant.breaks.partition(": ")[0], name, "") for name, mutant in MUTANTS.items()
    ]


# ------------------------------------------------------------------ what is wrong


def unknown(rules: dict[str, Rule], citations: Iterable[Citation]) -> list[str]:
    """Citations of rules that do not exist or are retired."""
    out = []
    for citation in citations:
        rule = rules.get(citation.rule)
        if rule is None:
            out.append(f"{citation} cites rule {citation.rule}, which does not exist")
        elif rule.retired:
            out.append(f"{citation} cites rule {citation.rule}, which is retired")
    return out


def uncited(rules: dict[str, Rule], code: Iterable[Citation]) -> list[str]:
    """Rules that no code cites."""
    cited = {citation.rule for citation in code}
    return [
        f"{rule.page}: rule {rule.name} is cited by no code"
        for rule in rules.values()
        if not rule.retired and rule.name not in cited
    ]


def stale(written: str, generated: str) -> list[str]:
    """Whether the page is not what would be generated now."""
    if written == generated:
        return []
    return [f"{PAGE} is out of date: run python tools/traceability.py"]


# ------------------------------------------------------------------ the page

_HEAD = """# Traceability

Generated by `python tools/traceability.py`; do not edit. For each [rule](protocol/README.md): the
code that cites it (in `src/phalanx`), the tests that mention it (in `tests`), and the mutants of
`phalanx.sim.mutants` that break it. A test that does not mention a rule may still test it; sweeps
and mutants test all of them together.
"""


def page(
    rules: dict[str, Rule],
    code: Iterable[Citation],
    tests: Iterable[Citation],
    mutants: Iterable[Citation],
) -> str:
    """The text of the page."""
    columns = [_by_rule(kind) for kind in (code, tests, mutants)]
    out = [_HEAD]
    for file in PAGES:
        out.append(f"## [{file}](protocol/{file})\n")
        out.append("| rule | code | tests | mutants |")
        out.append("| --- | --- | --- | --- |")
        for rule in rules.values():
            if rule.page == file:
                name = f"{rule.name} {rule.title}".strip()
                cells = [", ".join(column.get(rule.name, ())) for column in columns]
                if rule.retired:
                    cells[0] = "*retired*"
                out.append(f"| {' | '.join([name, *cells])} |")
        out.append("")
    return "\n".join(out)


def _by_rule(citations: Iterable[Citation]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for citation in citations:
        places = out.setdefault(citation.rule, [])
        if (place := f"`{citation}`") not in places:
            places.append(place)
    return out


def generated(root: Path = ROOT) -> str:
    return page(all_rules(root), cited_by_code(root), cited_by_tests(root), broken_by_mutants())


def problems(root: Path = ROOT) -> list[str]:
    """All that is wrong with rules and citations."""
    rules, code = all_rules(root), cited_by_code(root)
    others = [*cited_by_tests(root), *cited_by_docs(root), *broken_by_mutants()]
    written = (root / PAGE).read_text(encoding="utf-8") if (root / PAGE).exists() else ""
    found = unknown(rules, [*code, *others])
    return [*found, *uncited(rules, code), *stale(written, generated(root))]


def main(argv: list[str]) -> int:
    if argv == ["--check"]:
        found = problems()
        print("\n".join(found))
        return 1 if found else 0
    (ROOT / PAGE).write_text(generated(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
