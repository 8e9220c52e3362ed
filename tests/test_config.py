"""Settings: defaults that work, and mistakes found before anything starts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from phalanx.config import (
    MESSAGE_BYTES_LIMIT,
    Certificates,
    Config,
    SharedKey,
    checked,
    crowded,
    lan,
    mesh,
)
from phalanx.errors import ConfigurationError

INTEGERS = [name for name, value in msgspec.structs.asdict(Config()).items() if type(value) is int]


def refusal(**settings: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        lan(**settings)
    return caught.value


def test_the_defaults_are_a_configuration_that_works() -> None:
    assert lan() == Config() == checked(Config())


def test_a_setting_replaces_its_default_and_no_other() -> None:
    changed = msgspec.structs.asdict(lan(order="all-ack"))
    assert changed == {**msgspec.structs.asdict(Config()), "order": "all-ack"}


def test_checking_hands_back_the_very_same_configuration() -> None:
    config = Config(early=True)
    assert checked(config) is config


def test_a_configuration_cannot_be_changed() -> None:
    config = lan()
    with pytest.raises(AttributeError):
        config.early = True  # type: ignore[misc]


def test_a_configuration_survives_a_round_trip_through_json() -> None:
    config = lan(cluster="north", order="all-ack", post_confirm=True, pace_ns_max=0)
    assert msgspec.json.decode(msgspec.json.encode(config), type=Config) == config


def test_settings_from_a_file_may_not_hold_a_field_we_do_not_know() -> None:
    with pytest.raises(msgspec.ValidationError, match="nack_ms"):
        msgspec.json.decode(b'{"nack_ms": 3}', type=Config)


@pytest.mark.parametrize("field", INTEGERS)
def test_no_number_may_be_negative_and_the_error_names_one_to_mend(field: str) -> None:
    error = refusal(**{field: -1})
    # A negative upper bound shows as a lower bound that exceeds it: the remedy names it.
    assert field in (error.field, error.remedy.split()[-1])
    assert error.remedy


@pytest.mark.parametrize(
    ("settings", "field", "remedy"),
    [
        ({"outbox_bytes_max": 0}, "outbox_bytes_max", "must be above 0"),
        ({"ahead_frames_max": 0}, "ahead_frames_max", "must be above 0"),
        ({"ack_prompt_ns": 0}, "ack_prompt_ns", "must be above 0"),
        ({"window_bytes_min": 4 << 20}, "window_bytes_min", "must not exceed window_bytes_max"),
        ({"nack_ns_max": 1}, "nack_ns_min", "must not exceed nack_ns_max"),
        ({"answer_ns_max": 1}, "answer_ns_min", "must not exceed answer_ns_max"),
        ({"alive_idle_ns": 1}, "alive_busy_ns", "must not exceed alive_idle_ns"),
        ({"datagram_bytes_max": 255}, "datagram_bytes_max", "must lie in 256..65507"),
        ({"datagram_bytes_max": 65_508}, "datagram_bytes_max", "must lie in 256..65507"),
        ({"frame_bytes_max": 63}, "frame_bytes_max", "must lie in 64..60000"),
        ({"frame_bytes_max": 60_001}, "frame_bytes_max", "must lie in 64..60000"),
        ({"message_bytes_max": 0}, "message_bytes_max", "must lie in 1..16777216"),
        (
            {"message_bytes_max": MESSAGE_BYTES_LIMIT + 1},
            "message_bytes_max",
            "must lie in 1..16777216",
        ),
        ({"pace_ns_max": -1}, "pace_ns_max", "must lie in 0..3600000000000"),
        ({"ack_lazy_ns": 1.5}, "ack_lazy_ns", "must be of type int"),
        ({"order": "fifo"}, "order", "must be 'toto' or 'all-ack'"),
        ({"mode": "drop"}, "mode", "must be 'hold' or 'flow'"),
        *(
            ({field: 0}, field, "must be above 0")
            for field in ("probe_ns", "hello_ns", "collect_ns", "change_ns", "claim_ns", "leave_ns")
        ),
        ({"fail_ns": 1}, "alive_idle_ns", "must not exceed fail_ns"),
        ({"fail_ns": 3_600_000_000_001}, "fail_ns", "must not exceed 3600000000000 (an hour)"),
        ({"cluster": ""}, "cluster", "must not be empty"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_field_and_remedy(
    settings: dict[str, Any], field: str, remedy: str
) -> None:
    error = refusal(**settings)
    assert (error.field, error.remedy) == (field, remedy)
    assert str(error) == f"{field} = {error.value!r}: {remedy}"


@pytest.mark.parametrize(
    "settings",
    [
        {"datagram_bytes_max": 256},
        {"datagram_bytes_max": 65_507},
        {"frame_bytes_max": 64},
        {"frame_bytes_max": 60_000},
        {"message_bytes_max": 1},
        {"pace_ns_max": 0},
        {"nack_ns_min": 3_000_000, "nack_ns_max": 3_000_000},
    ],
)
def test_the_edges_of_a_range_are_in_it(settings: dict[str, Any]) -> None:
    lan(**settings)


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    error = refusal(nack_ms=3)
    assert (error.field, error.value) == ("nack_ms", 3)
    for known in Config.__struct_fields__:
        assert known in error.remedy


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("order", "fifo"),
        ("early", 1),
        ("cluster", 3),
        ("nack_ns_min", 1.5),
        ("nack_ns_min", 1_000_000.0),
        ("ack_lazy_ns", True),
        ("ack_lazy_ns", "10ms"),
    ],
)
def test_a_setting_of_the_wrong_type_is_refused_by_name(field: str, value: object) -> None:
    assert field in str(refusal(**{field: value}))


def test_checking_catches_an_order_that_no_decoder_saw() -> None:
    with pytest.raises(ConfigurationError) as caught:
        checked(Config(order="fifo"))  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.value) == ("order", "fifo")


def test_crowded_gives_everybody_more_time_and_keeps_what_is_asked_for() -> None:
    config = crowded(interface="lo", fail_ns=9_000_000_000)
    assert config.fail_ns == 9_000_000_000
    assert config.interface == "lo"
    assert config.change_ns > lan().change_ns


def test_a_mesh_sends_on_during_view_changes_and_needs_peers() -> None:
    config = mesh("10.0.0.1:7117", tls=SharedKey("group.key"), cluster="north")
    assert (config.network, config.mode, config.peers) == ("mesh", "flow", ("10.0.0.1:7117",))
    assert mesh("10.0.0.1:7117", mode="hold").mode == "hold"
    with pytest.raises(ConfigurationError, match="name at least one"):
        mesh()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"network": "mesh", "peers": ("a:1",), "tls": "group.key"}, "tls"),
        ({"network": "fanout", "peers": ("a:1",), "tls": SharedKey("k")}, "tls"),
        ({"network": "mesh", "peers": ("a:1",), "tls": SharedKey("")}, "tls.file"),
        ({"network": "mesh", "peers": ("a:1",), "tls": SharedKey(b"k")}, "tls.file"),  # type: ignore[arg-type]
        (
            {"network": "mesh", "peers": ("a:1",), "tls": SharedKey("k"), "insecure": True},
            "insecure",
        ),
    ],
)
def test_mistakes_about_tls_are_found_before_anything_starts(
    settings: dict[str, Any], field: str
) -> None:
    assert refusal(**settings).field == field


@pytest.mark.parametrize("tls", [None, SharedKey("k"), Certificates("c", "k", "a")])
def test_a_mesh_survives_a_round_trip_through_json(tls: Certificates | SharedKey | None) -> None:
    config = mesh("10.0.0.1:7117", tls=tls)
    assert msgspec.json.decode(msgspec.json.encode(config), type=Config) == config
