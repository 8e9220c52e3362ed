"""The tree of a campus as text: for each set its components, the groups that they own and hosts.

campus    building-1, building-2            orders (8), chat (8)
          building-3, cut off               chat (3)
  b1      building-1, lan-1, lan-2          sensors (4)
          host-1 at lan-1, host-2 at building-1
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from phalanx.mserver.service_config import ServiceConfig

MEMBERS_WIDTH = 58


def tree_lines(
    config: ServiceConfig,
    statuses: Mapping[str, Mapping[str, Any]],
    down: Collection[str] = (),
    cut: Collection[str] = (),
) -> list[str]:
    """The tree as the mservers see it that answer. `down`: those that were killed; `cut`: those
    that are cut off from the rest."""
    return [line for each in _in_order(config) for line in _set_lines(*each, statuses, down, cut)]


def _in_order(config: ServiceConfig) -> list[tuple[ServiceConfig, str, int]]:
    """Each set before those below it, with its depth."""

    def below(name: str, depth: int) -> list[tuple[ServiceConfig, str, int]]:
        rows = [(config, name, depth)]
        for child in config.children_of(name):
            rows += below(child.name, depth + 1)
        return rows

    return below(config.top.name, 0)


def _set_lines(
    config: ServiceConfig,
    name: str,
    depth: int,
    statuses: Mapping[str, Mapping[str, Any]],
    down: Collection[str],
    cut: Collection[str],
) -> list[str]:
    """One line for each component of a set, and one for its hosts."""
    parts: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for server in config.sets[name].members:
        seen = statuses.get(server, {}).get("sets", {}).get(name)
        if seen is not None:
            view = tuple(sorted((each.rpartition(".")[0] for each in seen["view"]), key=_natural))
            if server in view:
                parts[view] = seen
    label = f"{'  ' * depth}{name}"
    lines = []
    for view, seen in parts.items():
        shown = ", ".join(view) + (", cut off" if cut and set(view) <= set(cut) else "")
        owned = [g for g in seen.get("owned", {}).values() if not g["ended"] and g["members"]]
        groups = ", ".join(sorted(f"{each['name']} ({each['members']})" for each in owned))
        lines.append(f"{label:<10}{shown:<{MEMBERS_WIDTH}}{groups}".rstrip())
        label = ""
    killed = [each for each in config.sets[name].members if each in down]
    if killed:
        lines.append(f"{label:<10}{', '.join(killed)}: killed")
        label = ""
    if not lines:
        lines.append(f"{label:<10}no mserver answers")
    homes = {
        host: at.rpartition(".")[0]
        for seen in parts.values()
        for host, at in seen["interfaces"].items()
    }
    if homes:
        shown = ", ".join(f"{host} at {homes[host]}" for host in sorted(homes, key=_natural))
        lines.append(f"{'':<10}{shown}")
    return lines


def _natural(name: str) -> tuple[str, int]:
    """lan-10 behind lan-9."""
    word, _, number = name.rpartition("-")
    return (word, int(number)) if number.isdigit() else (name, 0)
