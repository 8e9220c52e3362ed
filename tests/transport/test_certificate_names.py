"""Which member a certificate names."""

from __future__ import annotations

import pytest

from phalanx.transport.certificate_names import is_named, names_of, shown


@pytest.mark.parametrize(
    ("certificate", "names"),
    [
        ({"subject": ((("commonName", "ada"),),)}, ("=ada",)),
        (
            {
                "subject": ((("commonName", "ada"),),),
                "subjectAltName": (("DNS", "bea"), ("IP Address", "10.0.0.1"), ("DNS", "cyd")),
            },
            ("bea", "cyd"),
        ),
        ({"subject": ((("countryName", "AT"),),)}, ()),
        ({}, ()),
    ],
)
def test_names_are_dns_names_or_else_the_common_name(
    certificate: dict[str, object], names: tuple[str, ...]
) -> None:
    assert names_of(certificate) == names


@pytest.mark.parametrize(
    ("member", "name", "fits"),
    [
        ("ada", "ada", True),
        ("ada", "=ada", True),
        ("ada", "Ada", False),
        ("ada", "bea", False),
        ("worker-7", "worker-*", True),
        ("worker-", "worker-*", False),
        ("worker-7.eu", "worker-*", False),
        ("ada.orders.svc", "*.orders.svc", True),
        ("ada.eu.orders.svc", "*.orders.svc", False),
        ("orders.svc", "*.orders.svc", False),
        ("ada", "*", True),
        ("ada.x", "*", False),
        ("ada", "=*", False),
        ("*", "=*", True),
        ("a.b", "a.*", False),
        ("ab", "**", False),
        ("a+b", "a+*", True),
        ("aab", "a+*", False),
        ("ada\n", "ada", False),
    ],
)
def test_wildcards_stand_for_part_of_the_first_label_of_a_dns_name(
    member: str, name: str, fits: bool
) -> None:
    assert is_named(member, (name,)) is fits


def test_names_are_shown_without_the_mark() -> None:
    assert shown(("=ada", "b*")) == "'ada', 'b*'"
    assert shown(()) == "nobody"
