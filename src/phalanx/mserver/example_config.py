"""Example configurations: a tree of sets on one machine, for trying out and for tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExampleShape:
    """A tree: each mserver of a set, except its link, is the link of one set below."""

    levels: int = 2
    top: int = 2
    """Mservers of the top set."""
    servers: int = 2
    """Mservers of each other set, beside its link."""
    hosts: int = 1
    """Interfaces of each mserver of level 1, links excepted."""
    host: str = "127.0.0.1"
    port: int = 7200
    """The first port; each mserver takes the next one."""
    cluster: str = "example"


def example_config(shape: ExampleShape) -> str:
    """The configuration as TOML."""
    servers: list[str] = []
    sets: list[str] = []
    homes: list[str] = []

    def grow(name: str, level: int, above: str, link: str, count: int) -> None:
        own = [f"{name}-{n}" for n in range(1, count + 1)]
        servers.extend(own)
        lines = [f"[set.{_key(name)}]", f"level = {level}"]
        members = own
        if above:
            lines += [f'parent = "{above}"', f'link = "{link}"']
            members = [link, *own]
        sets.append("\n".join([*lines, f"members = [{', '.join(map(_quoted, members))}]"]))
        if level == 1:
            homes.extend(own)
            return
        for number, server in enumerate(own, start=1):
            child = f"{name}.{number}" if above else f"s{number}"
            grow(child, level - 1, name, server, shape.servers)

    grow("top", shape.levels, "", "", shape.top)
    parts = [f"cluster = {_quoted(shape.cluster)}", *sets]
    parts += [
        f'[mserver.{_key(name)}]\naddress = "{shape.host}:{shape.port + at}"'
        for at, name in enumerate(servers)
    ]
    parts += [
        f'[interface.{_key(f"{home}-host-{number}")}]\nhome = "{home}"'
        for home in homes
        for number in range(1, shape.hosts + 1)
    ]
    return "\n\n".join(parts) + "\n"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _key(name: str) -> str:
    """A key of TOML; one with dots must be quoted."""
    return _quoted(name) if "." in name else name
