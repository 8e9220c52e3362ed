"""The command `phalanx`: registers the commands, and turns errors into one line and exit 2.

Exit codes: 0 success, 1 something was found (a violation, a stuck run), 2 bad input or no room for
the output, 3 an error in phalanx itself, 130 interrupted, 141 the reader of the output has gone.
`phalanx watch` has 4 besides.
"""

from __future__ import annotations

import sys
import traceback

try:  # importing takes long enough to be interrupted
    import errno
    import io
    import os
    from collections.abc import Iterator, Sequence
    from contextlib import contextmanager, suppress
    from typing import Any, NoReturn

    import click

    from phalanx.cli.audit import audit
    from phalanx.cli.bench import bench
    from phalanx.cli.campaign import campaign
    from phalanx.cli.check import check
    from phalanx.cli.demo import demo
    from phalanx.cli.doctor import doctor
    from phalanx.cli.explore import explore
    from phalanx.cli.history import history
    from phalanx.cli.ingest import ingest
    from phalanx.cli.journal import journal
    from phalanx.cli.lake import lake_group
    from phalanx.cli.measures import measures
    from phalanx.cli.ms import ms
    from phalanx.cli.mserver import mserver
    from phalanx.cli.node import chat, node
    from phalanx.cli.options import own_version
    from phalanx.cli.report import report
    from phalanx.cli.sim import sim
    from phalanx.cli.watch import watch
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


class OneLineErrors(click.Group):
    """A group of commands whose errors are one line on stderr: what is wrong, what to do."""

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


main.add_command(audit)
main.add_command(bench)
main.add_command(campaign)
main.add_command(chat)
main.add_command(check)
main.add_command(demo)
main.add_command(doctor)
main.add_command(explore)
main.add_command(ingest)
main.add_command(history)
main.add_command(journal)
main.add_command(lake_group)
main.add_command(measures)
main.add_command(ms)
main.add_command(mserver)
main.add_command(node)
main.add_command(report)
main.add_command(sim)
main.add_command(watch)

if __name__ == "__main__":
    main()
