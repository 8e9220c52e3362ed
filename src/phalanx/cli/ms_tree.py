"""`phalanx ms tree`: the hierarchy as configured, and what the mservers of this machine see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from phalanx.mserver.service_config import ServiceConfig, SetConfig, read_service_config
from phalanx.mserver.status_socket import read_status, status_path
from phalanx.text import one_line


@click.command("tree")
@click.option(
    "--config",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The hierarchy of sets, in TOML.",
)
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="State directory of mservers on this machine: ask them what they see.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def tree(file: Path, state: Path | None, as_json: bool) -> None:
    """Print the tree of sets. With --state, also the components of each set.

    A component is a state of the set that some mservers of this machine are at: its id, its view
    and its parent. A set that is whole has one component with all of its members. Mservers
    of other machines, and those that do not answer, are listed as not asked.

    \b
    Example:
      phalanx ms tree --config service.toml --state /var/lib/phalanx
    """
    config = read_service_config(file)
    found: dict[str, dict[str, Any]] = {}
    for name in config.servers if state is not None else ():
        status = read_status(status_path(state, name)) if state is not None else None
        if status is not None:
            found[name] = status
    whole = [described(config, each, found) for each in in_order(config)]
    if as_json:
        missing = [name for name in config.servers if name not in found]
        fields = {"cluster": config.cluster, "sets": whole, "not_asked": missing}
        click.echo(json.dumps(fields))
        return
    for row in whole:
        for line in lines_of(row, depth_of(config, row["set"]), bool(found)):
            click.echo(one_line(line))


def in_order(config: ServiceConfig) -> list[SetConfig]:
    """Each set before those below it."""

    def below(each: SetConfig) -> list[SetConfig]:
        return [each, *(s for child in config.children_of(each.name) for s in below(child))]

    return below(config.top)


def depth_of(config: ServiceConfig, name: str) -> int:
    parent = config.sets[name].parent
    return 0 if parent is None else 1 + depth_of(config, parent)


def described(
    config: ServiceConfig, each: SetConfig, found: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """One set: as configured, and the components that were found."""
    components: dict[str, dict[str, Any]] = {}
    for name, status in found.items():
        seen = status["sets"].get(each.name)
        if seen is not None:
            row = {key: seen[key] for key in ("vid", "view", "parent", "groups")}
            components.setdefault(seen["vid"], {**row, "at": []})["at"].append(name)
    return {
        "set": each.name,
        "level": each.level,
        "parent_set": each.parent,
        "link": each.link,
        "members": list(each.members),
        "interfaces": [i.name for i in config.interfaces.values() if i.set == each.name],
        "components": list(components.values()),
    }


def lines_of(row: dict[str, Any], depth: int, asked: bool) -> list[str]:
    """One set as text, indented by its depth."""
    indent = "  " * depth
    link = f", link {row['link']}" if row["link"] else ""
    lines = [f"{indent}{row['set']} (level {row['level']}{link}): {', '.join(row['members'])}"]
    if row["interfaces"]:
        lines.append(f"{indent}  interfaces {', '.join(row['interfaces'])}")
    for part in row["components"]:
        parent = f", parent {part['parent']}" if part["parent"] else ""
        view = ", ".join(part["view"])
        at = ", ".join(part["at"])
        lines.append(f"{indent}  {part['vid']} [{view}]{parent}, groups {part['groups']}; at {at}")
    if asked and not row["components"]:
        lines.append(f"{indent}  no component on this machine")
    return lines
