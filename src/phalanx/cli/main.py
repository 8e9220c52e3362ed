"""The command `phalanx`: finds the commands, and turns errors into one line and exit 2.

A command is imported when it is called: only the commands that simulate load the simulator.

Exit codes: 0 success, 1 something was found (a violation, a stuck run), 2 bad input or no room for
the output, 3 an error in phalanx itself, 130 interrupted, 141 the reader of the output has gone.
`phalanx watch` has 4 besides.
"""

from __future__ import annotations

import sys
import traceback

try:  # importing takes long enough to be interrupted
    import errno
    import importlib
    import io
    import os
    from collections.abc import Iterator, Sequence
    from contextlib import contextmanager, suppress
    from typing import Any, NoReturn

    import click

    from phalanx.cli.options import own_version
    from phalanx.errors import PhalanxError
    from phalanx.text import one_line
except KeyboardInterrupt:
    sys.exit(130)
except Exception:  # a broken installation: Python itself would exit with 1
    traceback.print_exc()
    sys.exit(3)

CRASHED = 3
"""1 means that something was found: an error of our own must not look like it."""
INTERRUPTED = 130
NOBODY_READS = 141
NAME_SHOWN = 200
EXTRAS = {
    "pyspark": "spark",
    "pandas": "spark",
    "numpy": "spark",
    "pyarrow": "parquet",
    "deltalake": "lake",
}
"""What not everybody installs, and the extra that brings it."""


COMMANDS = {
    "audit": "audit",
    "bench": "bench",
    "campaign": "campaign",
    "chat": "node",
    "check": "check",
    "demo": "demo",
    "doctor": "doctor",
    "explore": "explore",
    "history": "history",
    "ingest": "ingest",
    "journal": "journal",
    "lake": "lake",
    "measures": "measures",
    "mi": "mi",
    "ms": "ms",
    "mserver": "mserver",
    "node": "node",
    "report": "report",
    "sim": "sim",
    "watch": "watch",
}
"""Commands, and the modules of `phalanx.cli` that have them."""
_ATTRIBUTES = {"lake": "lake_group"}
"""Commands whose objects have another name."""


class OneLineErrors(click.Group):
    """A group of commands whose errors are one line on stderr: what is wrong, what to do. It has
    the names of the commands and imports the one that is called."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        try:  # importing takes long enough to be interrupted
            module = importlib.import_module(f"phalanx.cli.{COMMANDS[cmd_name]}")
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        command: click.Command = getattr(module, _ATTRIBUTES.get(cmd_name, cmd_name))
        return command

    def main(  # type: ignore[override]  # click overloads it by standalone_mode
        self, args: Sequence[str] | None = None, standalone_mode: bool = True, **more: Any
    ) -> Any:
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **more)
        _print_anything()
        try:
            code = super().main(args, standalone_mode=False, **more)
        except PhalanxError as error:
            _fail(str(error), 2)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "phalanx"
            _fail(f"{error.format_message().rstrip('.')}; see {path} --help", 2)
        except click.ClickException as error:
            _fail(error.format_message(), error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            _fail("interrupted", INTERRUPTED)
        except _NobodyReads:
            _let_go()
            sys.exit(NOBODY_READS)
        except ModuleNotFoundError as error:
            module = (error.name or "").partition(".")[0]
            if module not in EXTRAS:
                _fail_crashed()
            _fail(f"{module}: this command needs it; pip install 'phalanx[{EXTRAS[module]}]'", 2)
        except UnicodeEncodeError as error:
            _fail(f"{error.object[:NAME_SHOWN]!a}: not UTF-8; give it another name", 2)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else "cannot write the output: "
            full = not error.filename or error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = (
                "make room, or choose another place" if full else "check the path and its rights"
            )
            _let_go()
            _fail(f"{place}{error.strerror or error}; {remedy}", 2)
        except SystemExit:
            raise
        except BaseException:  # a panic of the Delta library is no Exception
            _fail_crashed()
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _broken_pipes_apart():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _broken_pipes_apart():
            return super().invoke(ctx)


class _NobodyReads(Exception):
    """The reader of our output has gone, as `head` does."""


@contextmanager
def _broken_pipes_apart() -> Iterator[None]:
    """click would make exit 1 of a broken pipe, and 1 means that something was found."""
    try:
        yield
    except BrokenPipeError as error:
        raise _NobodyReads from error


def _fail(message: str, code: int) -> NoReturn:
    with suppress(OSError):
        click.echo(f"phalanx: {one_line(message)}", err=True)
    sys.exit(code)


def _fail_crashed() -> NoReturn:
    with suppress(OSError):
        traceback.print_exc()
    _fail("an error in phalanx itself, see above; please report it", CRASHED)


def _print_anything() -> None:
    """Names may hold characters that the terminal does not know; they are escaped then."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _let_go() -> None:
    """What is still in the buffer of stdout cannot be written: let it go, quietly."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=OneLineErrors,
    commands={name: click.Command(name) for name in COMMANDS},
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(own_version(), prog_name="phalanx")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Processes that act as one group: the same views, the same messages, the same order.

    \b
    Example:
      phalanx demo
      phalanx sim demo
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


if __name__ == "__main__":
    main()
