"""Keys and certificates that are made from a shared key."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from phalanx.transport.ed25519 import public_key, sign
from phalanx.transport.shared_key_certificate import certificate_from_key

KEY = b"0123456789abcdef" * 2

# RFC 8032, section 7.1: private key, public key, message, signature.
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9"
            "b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f1"
            "1d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984d"
            "c6594a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
]


@pytest.mark.parametrize(("private", "public", "message", "signature"), VECTORS)
def test_keys_and_signatures_are_those_of_the_rfc(
    private: str, public: str, message: str, signature: str
) -> None:
    seed = bytes.fromhex(private)
    assert public_key(seed).hex() == public
    assert sign(seed, bytes.fromhex(message)).hex() == signature


def test_one_key_makes_one_certificate_and_another_key_another() -> None:
    first = certificate_from_key(KEY)
    assert certificate_from_key(KEY) == first
    other = certificate_from_key(KEY + b"x")
    assert other.certificate != first.certificate
    assert other.private_key != first.private_key


def test_openssl_finds_the_signature_valid_and_the_key_to_belong_to_it(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    pair = certificate_from_key(KEY)
    (tmp_path / "c.pem").write_text(pair.certificate)
    (tmp_path / "k.pem").write_text(pair.private_key)

    def openssl(*arguments: str) -> str:
        done = subprocess.run(
            ["openssl", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert "OK" in openssl("verify", "-check_ss_sig", "-CAfile", "c.pem", "c.pem")
    of_certificate = openssl("x509", "-in", "c.pem", "-noout", "-pubkey")
    assert openssl("pkey", "-in", "k.pem", "-pubout") == of_certificate
