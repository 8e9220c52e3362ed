"""Certificates and keys that cannot be used are found before a socket opens."""

from __future__ import annotations

import math
import time
from pathlib import Path

import msgspec
import pytest
from tests.certificate_authority import Authority, shared_key

from phalanx.config import Certificates, SharedKey, mesh
from phalanx.core.ids import MemberId
from phalanx.errors import ConfigurationError, NetworkError
from phalanx.transport.open_mesh import open_mesh
from phalanx.transport.tls_identity import open_tls


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def problem_of(tls: Certificates | SharedKey) -> str:
    with pytest.raises(NetworkError) as caught:
        open_tls(tls)
    assert caught.value.remedy
    return str(caught.value)


def test_a_certificate_names_members_and_the_time_of_its_end(authority: Authority) -> None:
    identity = open_tls(authority.issue("ada", "ada", "a-*"))
    assert identity.names == ("ada", "a-*")
    assert 86_400 < identity.expires - time.time() <= 2 * 86_400
    assert identity.is_current()


def test_a_shared_key_names_nobody_and_has_no_end(tmp_path: Path) -> None:
    identity = open_tls(SharedKey(shared_key(tmp_path)))
    assert identity.names == ()
    assert identity.expires == math.inf
    assert not identity.names_members


def test_certificates_that_peers_would_refuse_are_refused_at_once(
    authority: Authority, tmp_path: Path
) -> None:
    expired = authority.issue("ada", days=-1)
    assert "peers would refuse it: certificate has expired" in problem_of(expired)
    other = Authority(tmp_path, "other")
    mixed = msgspec.structs.replace(authority.issue("ada"), authority=other.issue("x").authority)
    assert "unable to get local issuer certificate" in problem_of(mixed)


def test_files_that_are_missing_damaged_or_do_not_belong_together_are_named(
    authority: Authority, tmp_path: Path
) -> None:
    ada, bea = authority.issue("ada"), authority.issue("bea")
    gone = msgspec.structs.replace(ada, private_key=str(tmp_path / "gone.key"))
    assert "gone.key cannot be read (No such file or directory)" in problem_of(gone)
    swapped = msgspec.structs.replace(ada, private_key=bea.private_key)
    assert "key values mismatch" in problem_of(swapped)
    (tmp_path / "text").write_text("no certificate")
    assert "tls.certificate" in problem_of(
        msgspec.structs.replace(ada, certificate=str(tmp_path / "text"))
    )
    assert problem_of(msgspec.structs.replace(ada, authority=str(tmp_path / "text")))


def test_a_short_key_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    text = problem_of(SharedKey(shared_key(tmp_path, "secret")))
    assert "it holds 6 bytes, and 32 are the least" in text
    assert "openssl rand -hex 32" in text
    assert "secret'" not in text
    assert "cannot be read" in problem_of(SharedKey(str(tmp_path / "gone")))


def test_a_member_must_have_the_name_in_its_certificate(authority: Authority) -> None:
    config = mesh("127.0.0.1:9", port=0, tls=authority.issue("ada"))
    with pytest.raises(ConfigurationError, match="the certificate names 'ada'") as caught:
        open_mesh(config, "g", MemberId("bea"))
    assert caught.value.field == "name"


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    file = Path(shared_key(tmp_path))
    identity = open_tls(SharedKey(str(file)))
    file.write_text("another key, which is also long enough")
    assert not identity.is_current()
