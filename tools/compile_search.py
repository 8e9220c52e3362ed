"""Builds a compiled copy of the core, the simulator and the explorer, for long searches.

    python tools/compile_search.py build/compiled --profiled
    build/compiled/phalanx sim sweep --seeds 0:100000
    build/compiled/phalanx explore --walk --seconds 3600

`--profiled` compiles it twice, the second time with the profile of the first (gcc). Use a Python
that was itself built with a profile, such as Debian's.

The copy is compiled by mypyc (in the `dev` extra; needs a C compiler and the headers of Python).
It plays the same seeds to the same digests about twice as fast; the build fails if 24 scenarios, a
small search and the walks of 24 seeds do not have equal digests in the source and in the copy.
Mutants do not work in it: compiled methods cannot be replaced. Nothing else uses it, and it is not
installed.

mypyc compiles classes to C structs and ignores class keywords (`frozen=True`), so classes of
msgspec are moved to modules beside their own that stay interpreted. Classes that the explorer
copies are marked, because a compiled class otherwise cannot exist without its `__init__`.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILED = (
    *(f"core{part}" for part in ("", "/wire", "/broadcast", "/delivery", "/membership", "/member")),
    *("sim", "sim/faults", "sim/generators", "verify/checkers", "explore"),
)
INTERPRETED = re.compile(
    r"__init__|_values\.py|core/(effects|wire/frames|wire/packets|ids)\.py"
    r"|explore/(walk_runner|fast_copy|schedule_policy)\.py"
    r"|sim/(demo|mutation_testing|journal_export|shrink|sweep|worker_pool)\.py"
)
"""Values only, or code that is not worth it or that mypyc cannot compile."""
VALUES = ("Struct", "Enum", "Protocol")
OPEN = (
    "Discovery",
    "FrozenTimeMember",
    "Member",
    "ViewChange",
    "NameClaim",
    "AlwaysMutualDiscovery",
    "Search",
    "Sender",
)
"""Classes that are made by interpreted code, called through a variable, or that others derive from.
"""
COPIED = ("core/", "explore/")
PLAYED = 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("into", type=Path, help="the folder, made anew: build/compiled")
    parser.add_argument("--profiled", action="store_true", help="compile twice, with a profile")
    arguments = parser.parse_args()
    into: Path = arguments.into.resolve()
    shutil.rmtree(into, ignore_errors=True)
    package = into / "lib" / "phalanx"
    shutil.copytree(ROOT / "src" / "phalanx", package, ignore=shutil.ignore_patterns("__pycache__"))
    modules = [
        path
        for folder in COMPILED
        for path in sorted((package / folder).glob("*.py"))
        if not INTERPRETED.search(path.as_posix())
    ]
    modules.append(package / "journal" / "recorder.py")
    for path in modules:
        _move_values(path, package.parent)
        if path.relative_to(package).as_posix().startswith(COPIED):
            _mark_classes(path)
    _let_copies_see_compiled(package / "explore" / "fast_copy.py")
    _let_digests_see_compiled(package / "explore" / "canonical_form.py")
    if arguments.profiled:
        _compile(modules, package.parent, "-fprofile-generate")
        _digests(package.parent)
        for made in (*package.parent.rglob("*.so"), *package.parent.rglob("*.o")):
            made.unlink()
        shutil.rmtree(package.parent / ".mypy_cache", ignore_errors=True)
        _compile(modules, package.parent, "-fprofile-use -fprofile-partial-training")
    else:
        _compile(modules, package.parent)
    program = into / "phalanx"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"os.environ['PYTHONPATH'] = {str(package.parent)!r}\n"
        f"os.execv(sys.executable, [sys.executable, '-c',\n"
        "    'from phalanx.cli.main import main; main()', *sys.argv[1:]])\n"
    )
    program.chmod(0o755)
    plain, compiled = _digests(ROOT / "src"), _digests(package.parent)
    if plain != compiled:
        sys.exit(f"compile_search: the copy plays otherwise: {plain} in the source, {compiled}")
    print(f"{program}: {len(modules)} modules compiled, digests equal ({plain})")


def _move_values(path: Path, root: Path) -> None:
    """Moves classes of values, and what they need, to a module beside this one."""
    source = path.read_text()
    lines, body = source.splitlines(keepends=True), ast.parse(source).body
    moved: list[ast.stmt] = [node for node in body if _is_value(node)]
    if not moved:
        return
    defined = {name: node for node in body for name in _defined(node)}
    waiting = list(moved)
    while waiting:
        for name in _names(waiting.pop()):
            node = defined.get(name)
            if node is not None and node not in moved:
                moved.append(node)
                waiting.append(node)
    moved.sort(key=lambda node: node.lineno)
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom | ast.If)]
    beside = path.with_name(f"{path.stem}_values.py")
    beside.write_text("\n".join(_text(node, lines) for node in (*imports, *moved)))
    gone = {at for node in moved for at in range(_first(node) - 1, node.end_lineno or 0)}
    kept = ["" if at in gone else line for at, line in enumerate(lines)]
    module = ".".join(beside.relative_to(root).with_suffix("").parts)
    found = "".join(
        f"from {module} import {name} as {name}\n" for node in moved for name in _defined(node)
    )
    kept[(imports[-1].end_lineno or 0) - 1] += found
    path.write_text("".join(kept))


def _is_value(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        ast.unparse(base).endswith(VALUES) for base in node.bases
    )


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _names(node: ast.AST) -> Iterable[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _text(node: ast.stmt, lines: list[str]) -> str:
    return "".join(lines[_first(node) - 1 : node.end_lineno])


def _mark_classes(path: Path) -> None:
    """Lets instances be made without `__init__`, as a copy is."""

    def marked(found: re.Match[str]) -> str:
        how = "allow_interpreted_subclasses" if found[2] in OPEN else "serializable"
        return f"@mypyc_attr({how}=True)\n{found[1]}"

    source = re.sub(
        r"^(class (\w+)(?:\((?!.*(?:Any|dict|Error|Exception|Random))[^)]*\))?:)",
        marked,
        path.read_text(),
        flags=re.MULTILINE,
    )
    future = "from __future__ import annotations\n"
    source = source.replace(future, f"{future}from mypy_extensions import mypyc_attr\n", 1)
    path.write_text(source)


def _let_copies_see_compiled(path: Path) -> None:
    """Attributes of a compiled class have no slots and no dict; some may not be set yet."""
    source = path.read_text()
    before = "    names = tuple(slots)\n"
    assert source.count(before) == 1, "explore/fast_copy.py has changed"
    path.write_text(
        source.replace(
            before,
            """\
    names = tuple(slots)
    if hasattr(kind, "__mypyc_attrs__"):

        def of_compiled(thing: Any, memo: Memo) -> Any:
            made = memo.get(id(thing))
            if made is None:
                made = memo[id(thing)] = kind.__new__(kind)  # type: ignore[call-overload]
                state = thing.__getstate__()  # what is set; in C
                for name, value in state.items():
                    if type(value) not in SHARED:
                        state[name] = _RULES[type(value)](value, memo)
                made.__setstate__(state)
            return made

        return of_compiled
""",
        )
    )


def _let_digests_see_compiled(path: Path) -> None:
    """Attributes of a compiled class are none of its slots."""
    source = path.read_text()
    before = 'slots = base.__dict__.get("__slots__", ())\n'
    assert source.count(before) == 1, "explore/canonical_form.py has changed"
    after = """\
slots = base.__dict__.get("__slots__") or [
            name for name in base.__dict__.get("__mypyc_attrs__", ()) if name != "__dict__"
        ]
"""
    path.write_text(source.replace(before, after))


def _compile(modules: list[Path], root: Path, flags: str = "") -> None:
    names = [str(path.relative_to(root)) for path in modules]
    config = ["--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("mypyc")), *config, *names],
        cwd=root,
        env=_flagged(flags),
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        wrong = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        sys.exit("compile_search: " + "\n".join(wrong[:20] or [done.stderr]))


def _flagged(flags: str) -> dict[str, str]:
    """The environment with more flags for gcc, for compiling and linking."""
    return {
        **os.environ,
        **{name: f"{os.environ.get(name, '')} {flags}".strip() for name in ("CFLAGS", "LDFLAGS")},
    }


_PLAY = f"""
from hashlib import blake2b
from phalanx.explore.guided_walk import walks
from phalanx.explore.search import Search, SearchLimits
from phalanx.explore.state_space import Options
from phalanx.sim.generators import scenario_of
from phalanx.sim.run import run
digest = blake2b(digest_size=8)
for seed in range({PLAYED}):
    for kind in ("membership", "storm", "fixed"):
        if seed % 3 == 0 or kind == "membership":
            digest.update(run(scenario_of(seed, 3, 8, kind)).digest.encode())
for walked in walks(range({PLAYED})):
    digest.update(repr((walked.story, walked.finding)).encode())
found = Search(Options(2, attempts=2, suspicions=1)).run(SearchLimits())
digest.update(repr((found.states, found.transitions, found.counts)).encode())
print(digest.hexdigest())
"""


def _digests(package: Path) -> str:
    """What some seeds come to, played by the package in this folder."""
    env = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.check_output([sys.executable, "-c", _PLAY], env=env, text=True).strip()


if __name__ == "__main__":
    main()
