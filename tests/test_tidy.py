"""House style that a machine can check.

A rule is a function from the source of one file and its path from the root of the
repository to the problems in it, each as `path:line: what is wrong`. For each rule one test
holds the tree to it, and one shows, with snippets that break it, that it can fail.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = PurePosixPath("src/phalanx")
CORE = PACKAGE / "core"
SERVICE = PACKAGE / "service"

Rule = Callable[[str, PurePosixPath], list[str]]

pytestmark = pytest.mark.xdist_group("tidy")
"""One process parses each file, once."""


@cache
def parsed(source: str) -> ast.Module:
    """The syntax tree, which no rule changes."""
    return ast.parse(source)


def sources(under: PurePosixPath) -> list[PurePosixPath]:
    """Every Python file there, from the root of the repository, in a fixed order."""
    return sorted(
        PurePosixPath(p.relative_to(ROOT).as_posix()) for p in (ROOT / under).rglob("*.py")
    )


def problems(rule: Rule, under: PurePosixPath) -> str:
    """What the rule finds in the tree, a line each; empty when all is well."""
    paths = sources(under)
    assert paths, f"no source under {under}: the rule would hold for want of files"
    found = [p for path in paths for p in rule((ROOT / path).read_text(encoding="utf-8"), path)]
    return "\n".join(found)


# ---------------------------------------------------------------------------- imports


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, at any depth.

    `from a import b` counts as `a.b`: whether b is a module or a name, its package is told.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            for alias in node.names:
                yield node.lineno, f"{prefix}.{alias.name}"


TOUCHES_THE_WORLD = frozenset(
    [
        "asyncio",
        "concurrent",
        "ctypes",
        "datetime",
        "importlib",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "uuid",
    ]
)
CALLS_THAT_TOUCH_THE_WORLD = frozenset({"open", "print", "input", "exec", "eval", "__import__"})
CORE_MAY_USE_OF_PHALANX = frozenset({"core", "errors", "config"})
SERVICE_MAY_USE_OF_PHALANX = CORE_MAY_USE_OF_PHALANX | {"service"}
SERVICE_OUTSIDE = frozenset({"__init__"})
"""Modules of the service that are not pure: its face, which imports clients when they are used."""
CORE_MAY_USE_OF_OTHERS = frozenset({"msgspec"})


def purity(source: str, path: PurePosixPath) -> list[str]:
    """The core has no sockets, clocks, threads, files or chance, and knows no outer package."""
    tree = parsed(source)
    found = []
    in_service = path.is_relative_to(SERVICE)
    may_use = SERVICE_MAY_USE_OF_PHALANX if in_service else CORE_MAY_USE_OF_PHALANX
    for line, name in imports(tree):
        top, _, rest = name.partition(".")
        if top == "phalanx":
            allowed = rest.partition(".")[0] in may_use
        elif top in sys.stdlib_module_names:
            allowed = top not in TOUCHES_THE_WORLD
        else:  # a relative import has an empty top, and is refused with the strangers
            allowed = top in CORE_MAY_USE_OF_OTHERS
        if not allowed:
            found.append(f"{path}:{line}: the core must not import {name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in CALLS_THAT_TOUCH_THE_WORLD:
                found.append(f"{path}:{node.lineno}: the core must not call {node.func.id}()")
    return found


def of_the_service(rule: Rule) -> Rule:
    """The rule for the modules of the service that are pure."""

    def held(source: str, path: PurePosixPath) -> list[str]:
        first = path.relative_to(SERVICE).parts[0].removesuffix(".py")
        return [] if first in SERVICE_OUTSIDE else rule(source, path)

    return held


def test_the_core_imports_nothing_that_touches_the_world() -> None:
    assert problems(purity, CORE) == ""


def test_the_machines_of_the_service_import_nothing_that_touches_the_world() -> None:
    assert problems(of_the_service(purity), SERVICE) == ""


@pytest.mark.parametrize(
    "snippet",
    [
        "import time",
        "import os.path",
        "from datetime import datetime",
        "from concurrent.futures import Future",
        "def f():\n    import random",
        "if TYPE_CHECKING:\n    import asyncio",
        "import numpy",
        "from . import ids",
        "from phalanx.sim.world import World",
        "from phalanx import journal",
        "import phalanx",
        "open('x')",
        "print('x')",
    ],
)
def test_the_rule_of_purity_can_fail(snippet: str) -> None:
    assert purity(snippet, CORE / "x.py") != []
    assert of_the_service(purity)(snippet, SERVICE / "x.py") != []


def test_only_the_service_may_import_the_service() -> None:
    snippet = "from phalanx.service.values import Vid"
    assert purity(snippet, CORE / "x.py") != []
    assert purity(snippet, SERVICE / "x.py") == []


def test_the_core_may_import_pure_modules_and_its_own() -> None:
    snippet = (
        "import msgspec\n"
        "from hashlib import blake2b\n"
        "from collections.abc import Sequence\n"
        "from phalanx.core.ids import View\n"
        "from phalanx import errors\n"
        "from phalanx.config import Config\n"
    )
    assert purity(snippet, CORE / "x.py") == []


# From DESIGN section 2: each may import what stands before it. `__init__` is the public face
# (`import phalanx`): it gathers what stands before it, and only what stands after may use it.
ORDER = [
    "errors",
    "text",
    "config",
    "core",
    "domains",
    "service",
    "journal",
    "verify",
    "sim",
    "explore",
    "transport",
    "runtime",
    "mserver",
    "api",
    "blocking",
    "__init__",
    "harness",
    "benchmark",
    "blocks",
    "pipeline",
    "cli",
    "console",
    "__main__",
]


def direction(source: str, path: PurePosixPath) -> list[str]:
    """A package imports only what stands above it."""
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if path == SERVICE / "__init__.py":
        own = "api"  # the face of the service
    if own not in ORDER:
        return [f"{path}:1: {own} has no place in the order of packages: give it one in ORDER"]
    found = []
    for line, name in imports(parsed(source)):
        top, _, rest = name.partition(".")
        if top == "":
            found.append(f"{path}:{line}: relative import of {name}: write it from phalanx")
        if top != "phalanx":
            continue
        other = rest.partition(".")[0]
        if other not in ORDER:  # a name that the face offers
            other = "__init__"
        if ORDER.index(other) > ORDER.index(own):
            found.append(f"{path}:{line}: {own} stands above {other} and must not import {name}")
    return found


def test_a_package_imports_only_what_stands_above_it() -> None:
    assert problems(direction, PACKAGE) == ""


@pytest.mark.parametrize(
    ("path", "snippet"),
    [
        ("errors.py", "from phalanx.config import Config"),
        ("config.py", "from phalanx.core.ids import MemberId"),
        ("core/ids.py", "def f():\n    from phalanx.journal import events"),
        ("core/ids.py", "from phalanx import sim"),
        ("journal/recorder.py", "import phalanx.sim.world"),
        ("sim/world.py", "from phalanx.cli.main import main"),
        ("sim/world.py", "import phalanx"),
        ("sim/world.py", "from phalanx import join"),
        ("sim/world.py", "from . import network"),
        ("sim/world.py", "from .network import Network"),
        ("__init__.py", "from phalanx.cli import main"),
        ("helpers/x.py", ""),
    ],
)
def test_the_rule_of_direction_can_fail(path: str, snippet: str) -> None:
    assert direction(snippet, PACKAGE / path) != []


@pytest.mark.parametrize(
    ("path", "snippet"),
    [
        ("config.py", "from phalanx.errors import ConfigurationError"),
        ("core/ids.py", "from phalanx.core import frames"),
        ("sim/world.py", "from phalanx.journal.schema import Row"),
        ("cli/main.py", "from phalanx import __version__, sim"),
        ("__init__.py", "from phalanx.core.ids import View"),
    ],
)
def test_the_rule_of_direction_lets_a_package_look_up(path: str, snippet: str) -> None:
    assert direction(snippet, PACKAGE / path) == []


PRODUCTION = frozenset(
    [
        "journal",
        "verify",
        "transport",
        "runtime",
        "mserver",
        "api",
        "blocking",
        "__init__",
        "harness",
        "benchmark",
        "pipeline",
        "cli",
    ]
)
"""Packages that work on real groups and their journals."""
SIMULATES = ("pipeline/campaign/", "cli/sim.py", "cli/sim_", "cli/campaign.py", "cli/explore.py")
"""Modules among them that run simulations. `cli/main.py` only gathers the commands."""


def production(source: str, path: PurePosixPath) -> list[str]:
    """Production code does not import the simulator: what both need lies below both."""
    within = path.relative_to(PACKAGE)
    if within.parts[0].removesuffix(".py") not in PRODUCTION:
        return []
    if within.as_posix().startswith(SIMULATES):
        return []
    return [
        f"{path}:{line}: production code must not import {name}"
        for line, name in imports(parsed(source))
        if f"{name}.".startswith("phalanx.sim.")
    ]


def test_production_code_does_not_import_the_simulator() -> None:
    assert problems(production, PACKAGE) == ""


@pytest.mark.parametrize(
    "path", ["verify/evidence.py", "pipeline/report/html.py", "cli/check.py", "__init__.py"]
)
@pytest.mark.parametrize(
    "snippet",
    [
        "from phalanx.sim.run import run",
        "import phalanx.sim.world",
        "from phalanx import sim",
        "def f():\n    from phalanx.sim import mutants",
    ],
)
def test_the_rule_of_production_can_fail(path: str, snippet: str) -> None:
    assert production(snippet, PACKAGE / path) != []


@pytest.mark.parametrize(
    ("path", "snippet"),
    [
        ("cli/sim_output.py", "from phalanx.sim.run import run"),
        ("pipeline/campaign/store.py", "from phalanx.sim.run import run"),
        ("explore/search.py", "from phalanx.sim.run import without_garbage_collection"),
        ("cli/main.py", "from phalanx.cli.sim import sim"),
        ("cli/check.py", "import phalanx.similar"),
    ],
)
def test_the_rule_of_production_lets_simulations_pass(path: str, snippet: str) -> None:
    assert production(snippet, PACKAGE / path) == []


def eager_mutants(source: str, path: PurePosixPath) -> list[str]:
    """`phalanx explore` loads nothing of the simulator but mutants, and these when asked."""
    tree = parsed(source)
    at_top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    eager = {line for node in at_top for line, _ in imports(node)}
    return [
        f"{path}:{line}: import {name} in a function, and only mutants"
        for line, name in imports(tree)
        if f"{name}.".startswith("phalanx.sim.")
        and (line in eager or not f"{name}.".startswith("phalanx.sim.mutants."))
    ]


def test_the_explorer_loads_mutants_only_when_asked() -> None:
    path = PACKAGE / "cli/explore.py"
    assert eager_mutants((ROOT / path).read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize(
    "snippet",
    ["from phalanx.sim.mutants import apply", "def f():\n    from phalanx.sim.run import run"],
)
def test_the_rule_of_the_explorer_can_fail(snippet: str) -> None:
    assert eager_mutants(snippet, PACKAGE / "cli/explore.py") != []


# Within the core, in the order in which parts build on each other.
CORE_ORDER = [
    "__init__",
    "deadline",
    "prng",
    "ids",
    "roles",
    "effects",
    "submission",
    "wire",
    "membership",
    "broadcast",
    "delivery",
    "failure_detector",
    "member",
]


def core_direction(source: str, path: PurePosixPath) -> list[str]:
    """A package of the core imports only packages of the core that stand above it."""
    own = path.relative_to(CORE).parts[0].removesuffix(".py")
    if own not in CORE_ORDER:
        return [f"{path}:1: {own} has no place in the order of the core: give it one in CORE_ORDER"]
    found = []
    for line, name in imports(parsed(source)):
        parts = name.split(".")
        if parts[:2] == ["phalanx", "core"] and len(parts) > 2 and parts[2] in CORE_ORDER:
            if CORE_ORDER.index(parts[2]) > CORE_ORDER.index(own):
                found.append(f"{path}:{line}: {own} stands above {parts[2]} in the core")
    return found


def test_packages_of_the_core_import_only_those_that_stand_above_them() -> None:
    assert problems(core_direction, CORE) == ""


@pytest.mark.parametrize(
    ("path", "snippet"),
    [
        ("ids.py", "from phalanx.core.effects import Service"),
        ("wire/frames.py", "from phalanx.core.broadcast.dag import Dag"),
        ("broadcast/dag.py", "from phalanx.core import member"),
        ("helpers/x.py", ""),
    ],
)
def test_the_rule_of_the_core_s_order_can_fail(path: str, snippet: str) -> None:
    assert core_direction(snippet, CORE / path) != []


# ---------------------------------------------------------------------------- structure and names

VALUES = frozenset({"ABC", "Enum", "Exception", "IntEnum", "NamedTuple", "Protocol", "Struct"})
"""A class may derive from these wherever they come from: interfaces, values, exceptions."""


def composition(source: str, path: PurePosixPath) -> list[str]:
    """In the core no class derives from a class of another module."""
    tree = parsed(source)
    local = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    found = []
    for node in ast.walk(tree):
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
            if name not in local | VALUES and not name.endswith("Error"):
                found.append(f"{path}:{base.lineno}: {ast.unparse(base)} is of another module")
    return found


def test_no_class_of_the_core_derives_from_another_module() -> None:
    assert problems(composition, CORE) == ""


def test_no_machine_of_the_service_derives_from_another_module() -> None:
    assert problems(of_the_service(composition), SERVICE) == ""


@pytest.mark.parametrize(
    "snippet",
    [
        "from phalanx.core.member.sender import Sender\nclass Member(Sender): pass",
        "from phalanx.core.member import sender\nclass Member(sender.Sender): pass",
        "class Counted(dict[str, int]): pass",
    ],
)
def test_the_rule_of_composition_can_fail(snippet: str) -> None:
    assert composition(snippet, CORE / "x.py") != []


@pytest.mark.parametrize(
    "snippet",
    [
        "class A(msgspec.Struct, frozen=True): pass",
        "class A(ABC): pass\nclass B(A): pass",
        "class A(IntEnum): pass",
        "class A(SubmissionError): pass",
    ],
)
def test_the_rule_of_composition_lets_values_and_interfaces_pass(snippet: str) -> None:
    assert composition(snippet, CORE / "x.py") == []


TWICE = {
    "core/effects.py": {"journal/schema.py", "runtime/events.py"},
    "core/ids.py": {"runtime/events.py"},
    "api/asyncio_group.py": {"api/blocking_group.py"},
}
"""Modules whose classes may exist again there under the same name, because they are the same fact
on another layer: effects, rows of the journal and events of the application; the two APIs."""


def doubles(classes: dict[str, list[str]]) -> list[str]:
    """Class names that exist twice in the package, where that is not meant."""
    found = []
    for name, paths in sorted(classes.items()):
        first, rest = paths[0], set(paths[1:])
        if not rest <= TWICE.get(first, set()):
            found.append(f"{name}: {', '.join(paths)}")
    return found


def defined_classes() -> dict[str, list[str]]:
    """The modules of each class that is defined at the top of one, in the order of ORDER."""
    out: dict[str, list[str]] = {}
    order = {name: place for place, name in enumerate(ORDER)}
    parts = [(path, path.relative_to(PACKAGE)) for path in sources(PACKAGE)]
    parts.sort(key=lambda both: (order[both[1].parts[0].removesuffix(".py")], both[1]))
    for path, inside in parts:
        for node in parsed((ROOT / path).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                out.setdefault(node.name, []).append(str(inside))
    return out


def test_no_class_name_exists_twice() -> None:
    assert "\n".join(doubles(defined_classes())) == ""


def test_the_rule_of_class_names_can_fail() -> None:
    assert doubles({"Link": ["journal/schema.py", "sim/scenario/model.py"]}) != []
    assert doubles({"View": ["core/ids.py", "runtime/events.py", "sim/run.py"]}) != []
    assert doubles({"Deliver": ["core/effects.py", "journal/schema.py"]}) == []
    assert doubles({"Group": ["api/asyncio_group.py", "api/blocking_group.py"]}) == []
    assert doubles({"Dag": ["core/broadcast/dag.py"]}) == []


TERMS = frozenset({"blocking", "mutation_testing"})
"""Technical terms that end in -ing."""


def named_after_a_thing(source: str, path: PurePosixPath) -> list[str]:
    """No module is named after an activity (`taking`, `telling`)."""
    if path.stem.endswith("ing") and path.stem not in TERMS:
        return [f"{path}:1: name the module after its main class or function"]
    return []


def test_no_module_is_named_after_an_activity() -> None:
    assert problems(named_after_a_thing, PACKAGE) == ""


def test_the_rule_of_module_names_can_fail() -> None:
    assert named_after_a_thing("", PACKAGE / "pipeline" / "taking.py") != []
    assert named_after_a_thing("", PACKAGE / "blocking.py") == []


# ---------------------------------------------------------------------------- size

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 80


def size(source: str, path: PurePosixPath) -> list[str]:
    """No file and no function grows beyond what one can hold in one's head."""
    found = []
    lines = len(source.splitlines())
    if lines > FILE_LINES_MAX:
        found.append(f"{path}:1: {lines} lines, over {FILE_LINES_MAX}: find the second concern")
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append(
                    f"{path}:{node.lineno}: {node.name} has {lines} lines, "
                    f"over {FUNCTION_LINES_MAX}: split it"
                )
    return found


def test_no_file_and_no_function_is_too_long() -> None:
    assert problems(size, PACKAGE) == ""


def test_the_rule_of_size_can_fail() -> None:
    def function(lines: int) -> str:
        return "class C:\n    async def f():\n" + "        pass\n" * (lines - 1)

    path = PACKAGE / "x.py"
    assert size("pass\n" * FILE_LINES_MAX, path) == []
    assert size("pass\n" * (FILE_LINES_MAX + 1), path) != []
    assert size(function(FUNCTION_LINES_MAX), path) == []
    assert size(function(FUNCTION_LINES_MAX + 1), path) != []


# ---------------------------------------------------------------------------- determinism

KEEPS_THE_ORDER_OF_ITS_ARGUMENT = frozenset({"list", "tuple", "enumerate", "iter"})


def is_set(node: ast.expr) -> bool:
    """Whether the expression is, on its face, a set."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.BitXor() | ast.Sub()):
            return is_set(left) or is_set(node.right)
    return False


def determinism(source: str, path: PurePosixPath) -> list[str]:
    """In the core no float decides anything, and nothing takes its order from a set.

    String hashes differ from process to process, and with them the order of a set; a
    generator or set comprehension over one is let through, since what consumes it (sorted,
    min, any) seldom minds.
    """
    found = []
    for node in ast.walk(parsed(source)):
        match node:
            case ast.Constant(value=float()):
                found.append(f"{path}:{node.lineno}: float {node.value!r}: use integers")
            case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
                found.append(f"{path}:{node.lineno}: true division makes a float: use //")
            case ast.For(iter=iterated) if is_set(iterated):
                found.append(f"{path}:{node.lineno}: loop over a set: sort it first")
            case ast.ListComp(generators=generators) | ast.DictComp(generators=generators):
                if any(is_set(g.iter) for g in generators):
                    found.append(f"{path}:{node.lineno}: loop over a set: sort it first")
            case ast.Call(func=ast.Name(id=name), args=[first, *_]):
                if name in KEEPS_THE_ORDER_OF_ITS_ARGUMENT and is_set(first):
                    found.append(f"{path}:{node.lineno}: {name}() of a set: sort it first")
    return found


def test_the_core_knows_no_float_and_no_order_of_a_set() -> None:
    assert problems(determinism, CORE) == ""


def test_the_machines_of_the_service_know_no_float_and_no_order_of_a_set() -> None:
    assert problems(of_the_service(determinism), SERVICE) == ""


@pytest.mark.parametrize(
    "snippet",
    [
        "x = 0.5",
        "x = -1e9",
        "x = a / b",
        "x /= 2",
        "for x in {1, 2}: pass",
        "for x in set(y): pass",
        "for x in {z for z in y}: pass",
        "for x in set(y) | z: pass",
        "for x in y - frozenset(z): pass",
        "for i, x in enumerate(set(y)): pass",
        "x = [z for z in set(y)]",
        "x = {z: 1 for z in set(y)}",
        "x = tuple({1, 2})",
    ],
)
def test_the_rule_of_determinism_can_fail(snippet: str) -> None:
    assert determinism(snippet, CORE / "x.py") != []


@pytest.mark.parametrize(
    "snippet",
    ["x = a // b", "for x in sorted(set(y)): pass", "for x in [1, 2]: pass", "n = len({1, 2})"],
)
def test_the_rule_of_determinism_lets_integers_and_sorted_sets_pass(snippet: str) -> None:
    assert determinism(snippet, CORE / "x.py") == []


# ---------------------------------------------------------------------------- docstrings


def docstring(source: str, path: PurePosixPath) -> list[str]:
    """A module says what it is for; an empty __init__.py need not."""
    if path.name == "__init__.py" and not source.strip():
        return []
    if ast.get_docstring(parsed(source)):
        return []
    return [f"{path}:1: the module has no docstring"]


def test_every_module_says_what_it_is_for() -> None:
    assert problems(docstring, PACKAGE) == ""


def test_the_rule_of_docstrings_can_fail() -> None:
    assert docstring("x = 1\n", PACKAGE / "x.py") != []
    assert docstring("", PACKAGE / "x.py") != []
    assert docstring("x = 1\n", PACKAGE / "__init__.py") != []
    assert docstring("", PACKAGE / "__init__.py") == []
    assert docstring('"""Why."""\n', PACKAGE / "x.py") == []


# ---------------------------------------------------------------------------- tracked text

# Put together from parts, so that this file does not name what it forbids.
ONE_MACHINE = re.compile(r"(?<![\w.-])/" + "(?:work|root|home|Users)" + r"/")
REGISTRY = re.compile(
    "|".join(["pypi" + r"\.org", "python" + "hosted", "npm" + "js"]), re.IGNORECASE
)


# Documents that the authors have and readers of this repository do not.
ELSEWHERE = re.compile(
    "|".join(["PROTO" + "COLS", "SERV" + r"ICE\.md", "FLEX" + r"IBLE\.md", "XP" + r"ORT\.md"])
)


def portability(source: str, path: PurePosixPath) -> list[str]:
    """Nothing we track holds only on one machine, or names a package registry or a document that
    readers do not have."""
    found = []
    for number, line in enumerate(source.splitlines(), start=1):
        for pattern, what in (
            (ONE_MACHINE, "a path of one machine"),
            (REGISTRY, "a registry"),
            (ELSEWHERE, "a document that is not here"),
        ):
            if hit := pattern.search(line):
                found.append(f"{path}:{number}: {what}: {hit.group()}")
    return found


def tracked() -> list[PurePosixPath]:
    """What git tracks or would be asked to: a new file is held to the rule before its commit."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listing.returncode != 0:
        pytest.skip(f"not a git checkout: {listing.stderr.decode(errors='replace').strip()}")
    return [PurePosixPath(name.decode()) for name in listing.stdout.split(b"\0") if name]


def test_tracked_text_names_no_machine_and_no_registry() -> None:
    found = []
    for path in tracked():
        file = ROOT / path
        if not file.is_file():  # deleted, but not yet in the index
            continue
        raw = file.read_bytes()
        if b"\0" not in raw:
            found += portability(raw.decode("utf-8", errors="replace"), path)
    assert "\n".join(found) == ""


@pytest.mark.parametrize(
    "snippet",
    [
        "open('/" + "work/x')",
        "cd /" + "root/x",
        "file:///" + "home/me/x",
        "--index-url https://pypi" + ".org/simple",
        "https://files.Python" + "Hosted.org/x",
        "registry.npm" + "js.com",
        "rule C.4 of PROTO" + "COLS.md",
        "(SERV" + "ICE.md section 9)",
    ],
)
def test_the_rule_of_portability_can_fail(snippet: str) -> None:
    assert portability(snippet, PurePosixPath("x")) != []


@pytest.mark.parametrize(
    "snippet", ["src/work/x.py", "docs/home/", "../root/x", "https://a.b/home/"]
)
def test_the_rule_of_portability_lets_relative_paths_pass(snippet: str) -> None:
    assert portability(snippet, PurePosixPath("x")) == []
