"""The configuration of a hierarchy: what is read, and every problem with its key."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from phalanx.cli.main import main
from phalanx.errors import FileError
from phalanx.mserver.example_config import ExampleShape, example_config
from phalanx.mserver.multicast_group import MulticastGroup
from phalanx.mserver.open_link import groups_of
from phalanx.mserver.service_config import (
    ServiceConfig,
    ServiceConfigError,
    read_service_config,
)
from phalanx.mserver.service_config_check import checked_service_config

GOOD = """
cluster = "example"
[set.backbone]
level = 2
members = ["t1", "t2"]
[set.berlin]
level = 1
parent = "backbone"
link = "t1"
members = ["t1", "be1"]
[mserver.t1]
address = "10.0.0.1:7200"
[mserver.t2]
address = "10.0.0.2:7200"
[mserver.be1]
address = "10.0.1.1:7200"
[interface.host-1]
home = "be1"
"""

MULTICAST, FAN_OUT = "set.backbone.multicast", "set.backbone.fan_out"
GROUP = 'multicast = "239.1.1.1:7201"'


def problems(text: str) -> list[str]:
    found = checked_service_config(tomllib.loads(text))
    return [str(problem) for problem in found] if isinstance(found, list) else []


def test_a_good_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(GOOD)
    config = read_service_config(file)
    assert config.top.name == "backbone"
    assert [each.name for each in config.children_of("backbone")] == ["berlin"]
    assert [each.name for each in config.sets_of("t1")] == ["backbone", "berlin"]
    assert config.interfaces["host-1"].set == "berlin"
    assert config.servers["be1"].address == "10.0.1.1:7200"


def test_the_machines_get_the_same_tree(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(GOOD)
    config = read_service_config(file)
    tree = config.set_tree
    assert tree.sets_of("t1") == ("backbone", "berlin")
    assert tree.above("berlin") == "backbone"
    assert tree.sets["berlin"].parent == "t1"
    assert tree.set_of_interface("host-1") == "berlin"
    assert config.below("backbone") == ("t1", "t2", "be1")
    assert config.below("berlin") == ("t1", "be1")


def test_a_set_has_a_multicast_address_of_its_own_and_members_that_it_does_not_reach(
    tmp_path: Path,
) -> None:
    file = tmp_path / "service.toml"
    file.write_text(
        GOOD.replace("level = 2", f"level = 2\n{GROUP}\nfan_out = ['t2']", 1).replace(
            'cluster = "example"', 'cluster = "example"\nkey = "keys/ours"'
        )
    )
    config = read_service_config(file)
    assert config.key == str(tmp_path / "keys" / "ours")
    assert groups_of(config, "t1") == {
        "backbone": MulticastGroup(("239.1.1.1", 7201), frozenset({"t1"}))
    }
    assert groups_of(config, "be1") == {}
    twice = GOOD.replace("level = 2", f"level = 2\n{GROUP}").replace(
        "level = 1", f"level = 1\n{GROUP}"
    )
    [found] = problems(twice)
    assert found.startswith("set.berlin.multicast: '239.1.1.1:7201' is the address of backbone too")


@pytest.mark.parametrize(
    ("old", "new", "key", "part"),
    [
        ('cluster = "example"', "", "cluster", 'write cluster = "NAME"'),
        ('cluster = "example"', "cluster = 1", "cluster", "no printable text"),
        ('cluster = "example"', 'cluster = "a"\ncolour = 1', "colour", "unknown key"),
        ("level = 2", 'level = "2"', "set.backbone.level", "must be a whole number"),
        ("level = 2", "level = true", "set.backbone.level", "must be a whole number"),
        ("level = 2", "level = 0", "set.backbone.level", "must lie in 1..16"),
        ("level = 2", "level = 1", "set.berlin.parent", "not above 1"),
        ("level = 2", "", "set.backbone.level", "missing"),
        ("level = 2", "level = 2\nlevle = 2", "set.backbone.levle", "unknown key"),
        ('members = ["t1", "t2"]', "members = [1]", "set.backbone.members", "a list of names"),
        ('members = ["t1", "t2"]', "members = []", "set.backbone.members", "at least one"),
        ('["t1", "t2"]', '["t1", "t2", "t1"]', "set.backbone.members", "'t1' is there twice"),
        ('["t1", "t2"]', '["t1", "t2", "t3"]', "set.backbone.members", "add [mserver.t3]"),
        ('["t1", "t2"]', '["t2"]', "set.berlin.link", "add it to set.backbone.members"),
        ('["t1", "be1"]', '["be1"]', "set.berlin.link", "add it to set.berlin.members"),
        ('parent = "backbone"', 'parent = "spine"', "set.berlin.parent", "no set 'spine'"),
        ('parent = "backbone"', "", "set.berlin.parent", "only one set, such as backbone"),
        ('link = "t1"', "", "set.berlin.link", "name a member of backbone"),
        ("level = 2", 'level = 2\nlink = "t1"', "set.backbone.link", "remove the link"),
        ("level = 2", 'level = 2\nparent = "berlin"', "set", "every set has a parent"),
        ('"10.0.0.2:7200"', '"10.0.0.1:7200"', "mserver.t2.address", "of t1 too"),
        ('"10.0.0.2:7200"', '"10.0.0.2"', "mserver.t2.address", "host:port"),
        ('"10.0.0.2:7200"', '""', "mserver.t2.address", "host:port"),
        ("[mserver.t2]", "[mserver.'t 2']", "mserver.t 2", "not a name"),
        ("[set.berlin]", "[set]\nx = 1\n[set.berlin]", "set.x", "not a table"),
        ("[mserver.t2]", '[mserver.t3]\naddress = "a:1"\n[mserver.t2]', "mserver.t3", "in no set"),
        ('["t1", "be1"]', '["t1", "be1", "t2"]', "mserver.t2", "without linking them"),
        ('home = "be1"', 'home = "be2"', "interface.host-1.home", "no mserver 'be2'"),
        ('home = "be1"', 'home = "t2"', "interface.host-1.set", "not in exactly one set"),
        ('home = "be1"', 'home = "be1"\nset = "backbone"', "interface.host-1.set", "level 1"),
        ('home = "be1"', "", "interface.host-1.home", "missing"),
        ("[interface.host-1]", "[interface.be1]", "interface.be1", "mserver of that name"),
        ('cluster = "example"', 'cluster = "a"\nkey = ""', "key", 'write key = "FILE"'),
        ('cluster = "example"', 'cluster = "a"\nkey = 1', "key", "no name of a file"),
        ("level = 2", 'level = 2\nmulticast = "10.0.0.1:7201"', MULTICAST, "multicast address"),
        ("level = 2", 'level = 2\nmulticast = "239.1.1.1"', MULTICAST, "multicast address"),
        ("level = 2", 'level = 2\nmulticast = "group:7201"', MULTICAST, "multicast address"),
        ("level = 2", 'level = 2\nmulticast = "[ff15::7]:1"', MULTICAST, "name t1 in fan_out"),
        ("level = 2", 'level = 2\nfan_out = ["t1"]', "set.backbone.fan_out", "no multicast"),
        ("level = 2", f"level = 2\n{GROUP}\nfan_out = ['be1']", FAN_OUT, "'be1' is no member"),
        ('home = "be1"', 'home = "be1"\naddress = "x"', "interface.host-1.address", "host:port"),
    ],
)
def test_a_problem_names_its_key_and_the_remedy(old: str, new: str, key: str, part: str) -> None:
    assert problems(GOOD) == []
    assert old in GOOD
    found = problems(GOOD.replace(old, new, 1))
    assert [text for text in found if text.startswith(f"{key}: ") and part in text], found


def test_all_problems_are_found_at_once(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(GOOD.replace('home = "be1"', 'home = "x"').replace('"10.0.0.2:', '"10.0.0.1:'))
    with pytest.raises(ServiceConfigError) as caught:
        read_service_config(file)
    keys = [problem.key for problem in caught.value.problems]
    assert keys == ["mserver.t2.address", "interface.host-1.home"]
    assert str(caught.value).startswith(f"{file}: mserver.t2.address: ")
    assert "and 1 more" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "No such file"),
        (b"cluster = \n", "it is not TOML: .*line 1"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_refused(
    content: bytes | None, part: str, tmp_path: Path
) -> None:
    file = tmp_path / "service.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FileError, match=part) as caught:
        read_service_config(file)
    assert str(caught.value).startswith(f"{file}: ")


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("width", [1, 2])
def test_every_example_is_a_good_configuration(levels: int, width: int) -> None:
    shape = ExampleShape(levels=levels, top=width, servers=width, hosts=2)
    config = checked_service_config(tomllib.loads(example_config(shape)))
    assert isinstance(config, ServiceConfig), config
    assert config.top.level == levels
    assert len(config.interfaces) == 2 * width**levels
    assert {each.level for each in config.sets.values()} == set(range(1, levels + 1))


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_check_of_an_example_is_ok(tmp_path: Path) -> None:
    code, text, _ = run("ms", "example", "--levels", 3)
    file = tmp_path / "service.toml"
    file.write_text(text)
    assert code == 0
    code, out, _ = run("mserver", "--config", file, "--check")
    assert code == 0
    assert re.fullmatch(r".*: ok; cluster example, sets 7, mservers 14, .*, top top\n", out)
    code, out, _ = run("mserver", "--config", file, "--check", "--json")
    found: dict[str, Any] = json.loads(out)
    assert found["ok"] is True
    assert found["mservers"] == 14


def test_the_check_lists_all_problems_and_exits_with_1(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(GOOD.replace('home = "be1"', 'home = "x"').replace('"10.0.0.2:', '"10.0.0.1:'))
    code, out, _ = run("mserver", "--config", file, "--check")
    assert code == 1
    assert len(out.splitlines()) == 2
    code, out, _ = run("mserver", "--config", file, "--check", "--json")
    assert code == 1
    assert [row["key"] for row in json.loads(out)["problems"]] == [
        "mserver.t2.address",
        "interface.host-1.home",
    ]


def test_a_missing_file_is_one_line_and_exit_2(tmp_path: Path) -> None:
    code, out, err = run("mserver", "--config", tmp_path / "none.toml", "--check")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "none.toml: No such file" in err
