"""The names that a message is for, in front of the message.

    count u8 | count times: length u8, name | message

One packet may reach more processes than the message is for: all that hear the multicast address of
a set, or, sent again by a stranger, any other. No name at all stands for everybody.
"""

from __future__ import annotations

from collections.abc import Sequence

NAMES_MAX = 64
NAME_BYTES_MAX = 255
ADDRESSING_BYTES_MAX = 1 + NAMES_MAX * (1 + NAME_BYTES_MAX)


def addressed(names: Sequence[str], message: bytes) -> bytes:
    """The message with its recipients; for everybody if there are too many to name."""
    if len(names) > NAMES_MAX:
        names = ()
    parts = [bytes([len(names)])]
    for name in names:
        data = name.encode()
        parts += [bytes([len(data)]), data]
    parts.append(message)
    return b"".join(parts)


def for_me(name: str, data: bytes) -> bytes | str:
    """The message if it is for this process, or why not: `other-recipient` or `malformed`. A
    process without a name takes everything."""
    if not data or data[0] > NAMES_MAX:
        return "malformed"
    count, at = data[0], 1
    mine = not count or not name
    wanted = name.encode()
    for _ in range(count):
        end = at + 1 + data[at] if at < len(data) else len(data) + 1
        if end > len(data):
            return "malformed"
        mine = mine or data[at + 1 : end] == wanted
        at = end
    return data[at:] if mine else "other-recipient"
