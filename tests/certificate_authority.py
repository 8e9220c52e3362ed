"""Certificates for tests, made with the command `openssl`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from phalanx.config import Certificates


class Authority:
    """An authority in a folder of its own, and the certificates that it signed."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            pytest.skip("there is no openssl: apt-get install openssl")
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self._run("req", "-x509", "-nodes", "-newkey", "ed25519", "-days", "2",
                  "-subj", f"/CN={name}", "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip

    def issue(self, common: str, *names: str, days: int = 2) -> Certificates:
        """A certificate with this common name and these DNS names. With negative `days` it has
        expired."""
        number = len(list(self.folder.glob("*.csr")))
        stem = f"{number}"
        extension = ["-addext", "subjectAltName=" + ",".join(f"DNS:{n}" for n in names)]
        self._run("req", "-nodes", "-newkey", "ed25519", "-subj", f"/CN={common}",
                  "-keyout", f"{stem}.key", "-out", f"{stem}.csr",
                  *(extension if names else []))  # fmt: skip
        self._run("x509", "-req", "-in", f"{stem}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                  "-days", str(days), "-copy_extensions", "copy", "-out", f"{stem}.pem",
                  "-CAcreateserial")  # fmt: skip
        return Certificates(
            str(self.folder / f"{stem}.pem"),
            str(self.folder / f"{stem}.key"),
            str(self.folder / "ca.pem"),
        )

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def shared_key(folder: Path, text: str = "0123456789abcdef" * 4) -> str:
    """A file with a key."""
    file = folder / f"{abs(hash(text)):x}.key"
    file.write_text(f"{text}\n")
    return str(file)
