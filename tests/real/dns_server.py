"""A name server with one name: answers with the addresses that a file lists, one a line.

python tests/real/dns_server.py ADDRESS NAME FILE
"""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path

ADDRESS_RECORD = 1
REFUSED = 5


def answer(query: bytes, name: str, addresses: list[str]) -> bytes:
    """The response to a query for one name (RFC 1035)."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    (kind,) = struct.unpack_from("!H", query, at + 1)
    question = query[12 : at + 5]
    is_known = ".".join(labels).lower() == name
    found = addresses if is_known and kind == ADDRESS_RECORD else []
    flags = 0x8400 | (0 if is_known else 3)
    head = query[:2] + struct.pack("!5H", flags, 1, len(found), 0, 0)
    records = [
        struct.pack("!HHHIH", 0xC00C, ADDRESS_RECORD, 1, 0, 4) + socket.inet_aton(address)
        for address in found
    ]
    return head + question + b"".join(records)


def main() -> None:
    address, name, file = sys.argv[1:]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, 53))
        print("ready", flush=True)
        while True:
            query, source = sock.recvfrom(4096)
            sock.sendto(answer(query, name, Path(file).read_text().split()), source)


if __name__ == "__main__":
    main()
