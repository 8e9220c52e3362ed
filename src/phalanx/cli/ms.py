"""`phalanx ms`: commands for the wide-area membership service."""

from __future__ import annotations

import click

from phalanx.cli.ms_calls import COMMANDS
from phalanx.cli.ms_demo import demo
from phalanx.cli.ms_example import example
from phalanx.cli.ms_rules import rules
from phalanx.cli.ms_tree import tree
from phalanx.cli.ms_watch import watch_group


@click.group("ms")
def ms() -> None:
    """Use and inspect the wide-area membership service.

    \b
    Example:
      phalanx ms example > service.toml
      phalanx ms create_group --interface mi.sock orders
      phalanx ms rules check 'fraction > 0.5 or has ada'
    """


ms.add_command(demo)
ms.add_command(example)
ms.add_command(rules)
ms.add_command(tree)
ms.add_command(watch_group)
for command in COMMANDS:
    ms.add_command(command)
