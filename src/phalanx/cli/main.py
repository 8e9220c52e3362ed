"""The command `phalanx`: gathers the commands, and turns errors into one line and exit 2.

Exit codes: 0 all is well, 1 something was found (a violation, a stuck run), 2 bad input.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from phalanx.cli.sim import sim
from phalanx.errors import PhalanxError


def own_version() -> str:
    """The version that is installed."""
    try:
        return version("phalanx")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+unknown"


class OneLineErrors(click.Group):
    """A group of commands whose errors are one line on stderr: what is wrong, what to do."""

    def main(  # type: ignore[override]  # click overloads it by standalone_mode
        self, args: Sequence[str] | None = None, standalone_mode: bool = True, **more: Any
    ) -> Any:
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **more)
        try:
            code = super().main(args, standalone_mode=False, **more)
        except PhalanxError as error:
            click.echo(f"phalanx: {error}", err=True)
            sys.exit(2)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "phalanx"
            message = error.format_message().rstrip(".").replace("\n", " ")
            click.echo(f"phalanx: {message}; see {path} --help", err=True)
            sys.exit(2)
        except click.ClickException as error:
            click.echo(f"phalanx: {error.format_message()}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("phalanx: interrupted", err=True)
            sys.exit(130)
        sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(own_version(), prog_name="phalanx")
def main() -> None:
    """Processes that act as one group: the same views, the same messages, the same order.

    \b
    Example:
      phalanx sim demo
    """


main.add_command(sim)

if __name__ == "__main__":
    main()
