"""Sessions of peers, without sockets: who is taken, what is refused, and what strangers can cause.

Two processes with one key exchange packets by hand, under made-up time.
"""

from __future__ import annotations

import time
from hashlib import blake2b
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography")

from phalanx.mserver.cluster_keys import KeyRing
from phalanx.mserver.packet_seal import CONTROL, DATA, SEAL_BYTES, PacketSeal
from phalanx.mserver.peer_sessions import (
    ASK_NS,
    ASKED_MAX,
    ASKED_NS,
    HELD_BYTES_MAX,
    HELD_MAX,
    SILENT_NS,
    PeerSessions,
    Received,
)
from phalanx.mserver.replay_window import WINDOW, ReplayWindow

A, B, X = ("10.0.0.1", 1), ("10.0.0.2", 2), ("10.9.9.9", 9)
KEY, OTHER = "a" * 64, "b" * 64
_tokens = count(1)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "key").write_text(KEY)
    (folder / "other").write_text(OTHER)
    return folder


def sessions(keys: Path, name: str, file: str = "key", life: int = 1) -> PeerSessions:
    """A process that has just started."""
    seal = PacketSeal(KeyRing(keys / file, "test"), f"{name}-{life}".encode().ljust(16, b"."))
    return PeerSessions(seal, lambda: next(_tokens).to_bytes(16, "big"))


def introduce(now: int, a: PeerSessions, b: PeerSessions) -> None:
    """The three packets after which both know each other."""
    [ask] = a.hold(now, B, b"")
    [answer_and_ask] = b.take(now, A, ask).replies
    [answer] = a.take(now, B, answer_and_ask).replies
    b.take(now, A, answer)
    assert a.is_known(now, B)
    assert b.is_known(now, A)


def test_data_is_taken_once_both_have_answered_and_waits_until_then(keys: Path) -> None:
    a, b = sessions(keys, "a"), sessions(keys, "b")
    [ask] = a.hold(0, B, b"first")
    assert a.hold(1, B, b"second") == []  # one question in a while
    assert b.take(1, A, a.sealed(b"early")).refused == "unproven"
    [answer_and_ask] = b.take(ASK_NS + 1, A, ask).replies
    received = a.take(2, B, answer_and_ask)
    assert received.released == (b"first", b"second")
    [answer] = received.replies
    assert b.take(3, A, answer) == Received()
    assert b.take(4, A, a.sealed(b"data")) == Received(b"data")
    assert a.take(4, B, b.sealed(b"back")) == Received(b"back")


def test_two_that_ask_at_once_both_get_to_know_each_other(keys: Path) -> None:
    a, b = sessions(keys, "a"), sessions(keys, "b")
    [from_a], [from_b] = a.hold(0, B, b"x"), b.hold(0, A, b"y")
    [to_a], [to_b] = b.take(0, A, from_a).replies, a.take(0, B, from_b).replies
    assert a.take(0, B, to_a).released == (b"x",)
    assert b.take(0, A, to_b).released == (b"y",)


def test_packets_that_no_holder_of_the_key_has_sealed_leave_nothing_behind(keys: Path) -> None:
    a, b, stranger = sessions(keys, "a"), sessions(keys, "b"), sessions(keys, "c", "other")
    introduce(0, a, b)
    before = (b.known, b.asked)
    whole = a.sealed(b"data")
    bad = {
        "unsealed": b"PM" + whole[2:],
        "seal-version": whole[:2] + b"\x09" + whole[3:],
        "key": stranger.sealed(b"data"),
        "forged": whole[:-1] + bytes([whole[-1] ^ 1]),
    }
    for reason, packet in bad.items():
        for source in (A, X):
            assert b.take(1, source, packet) == Received(refused=reason)
    for at in range(len(whole)):  # one bit of each byte
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        received = b.take(1, A, damaged)
        assert (received.body, received.replies) == (None, ())
    for size in range(SEAL_BYTES + 1):
        assert b.take(1, X, whole[:size]).refused in ("unsealed", "forged")
    assert (b.known, b.asked) == before
    assert b.take(1, A, whole) == Received(b"data")


def test_a_packet_is_taken_once_in_a_session_whatever_address_it_comes_from(keys: Path) -> None:
    a, b = sessions(keys, "a"), sessions(keys, "b")
    introduce(0, a, b)
    packets = [a.sealed(bytes([n])) for n in range(3)]
    assert [b.take(1, A, packet).body for packet in reversed(packets)] == [b"\2", b"\1", b"\0"]
    for packet in packets:
        assert b.take(1, A, packet) == Received(refused="replayed")
        assert b.take(1, X, packet).body is None
    assert b.take(1, A, b.sealed(b"own")) == Received()


def test_a_session_that_moves_takes_its_window_along(keys: Path) -> None:
    """A relay makes the session answer from another address: what was taken stays taken."""
    a, b = sessions(keys, "a"), sessions(keys, "b")
    introduce(0, a, b)
    taken = a.sealed(b"taken")
    assert b.take(1, A, taken).body == b"taken"
    [question] = b.take(2, X, a.sealed(b"from elsewhere")).replies
    [answer] = a.take(ASK_NS, B, question).replies
    b.take(ASK_NS, X, answer)
    assert b.is_known(ASK_NS, X)
    assert not b.is_known(ASK_NS, A)
    assert b.take(ASK_NS, X, taken) == Received(refused="replayed")


def test_packets_of_an_earlier_life_are_refused_by_and_from_a_restarted_process(
    keys: Path,
) -> None:
    a, b = sessions(keys, "a"), sessions(keys, "b")
    [ask] = a.hold(0, B, b"")
    [reply] = b.take(0, A, ask).replies
    [answer] = a.take(0, B, reply).replies
    b.take(0, A, answer)
    recorded = [ask, answer, a.sealed(b"old"), a.sealed(b"never arrived")]
    again = sessions(keys, "b", life=2)
    for packet in recorded:  # to a process that has forgotten
        assert again.take(1, A, packet).body is None
    assert not again.is_known(1, A)
    younger = sessions(keys, "a", life=2)  # from a process that lives no more
    introduce(2 * ASKED_NS, younger, b)
    for packet in recorded:
        assert b.take(3 * ASKED_NS, A, packet).body is None
    assert b.take(3 * ASKED_NS, A, younger.sealed(b"new")).body == b"new"


def test_a_restarted_process_and_its_peer_find_each_other_again(keys: Path) -> None:
    a, b = sessions(keys, "a"), sessions(keys, "b")
    introduce(0, a, b)
    again = sessions(keys, "b", life=2)
    lost = again.take(ASK_NS, A, a.sealed(b"lost"))
    assert lost.refused == "unproven"
    [answer_and_ask] = a.take(ASK_NS, B, lost.replies[0]).replies
    [answer] = again.take(ASK_NS, A, answer_and_ask).replies
    a.take(ASK_NS, B, answer)
    assert again.take(ASK_NS, A, a.sealed(b"data")).body == b"data"
    assert a.take(ASK_NS, B, again.sealed(b"data")).body == b"data"


def test_a_silent_session_ends_and_its_old_packets_stay_refused(keys: Path) -> None:
    a, b = sessions(keys, "a"), sessions(keys, "b")
    introduce(0, a, b)
    recorded = a.sealed(b"held back")
    late = SILENT_NS + 1
    assert not b.is_known(late, A)
    refused = b.take(late, A, recorded)
    assert refused.refused == "unproven"
    [answer] = a.take(late, B, refused.replies[0]).replies
    b.take(late, A, answer)
    assert b.is_known(late, A)
    assert b.take(late, A, recorded) == Received(refused="replayed")


def test_recorded_packets_cause_a_bounded_number_of_questions(keys: Path) -> None:
    a, b = sessions(keys, "a"), sessions(keys, "b")
    recorded = [a.sealed(bytes(20)) for _ in range(50)]
    asks = [a._seal.seal(CONTROL, bytes(16) + bytes([n] * 16)) for n in range(1, 51)]
    sent = 0
    second = 10 * ASK_NS
    for now in range(0, second, second // 100):  # 100 packets to each of 500 addresses
        for host in range(500):
            packet = (recorded + asks)[(now + host) % 100]
            replies = b.take(now, (f"10.1.{host // 250}.{host % 250}", 7), packet).replies
            assert all(len(each) <= len(packet) + 32 for each in replies)
            sent += len(replies)
    assert 0 < sent <= ASKED_MAX * 2 * 10
    assert b.asked <= ASKED_MAX
    assert b.known == 0
    b.configure([X])
    assert b.take(second, X, recorded[0]).replies  # a server of the configuration is still asked


def test_what_waits_for_a_peer_is_bounded(keys: Path) -> None:
    a, b = sessions(keys, "a"), sessions(keys, "b")
    [ask] = a.hold(0, B, b"long" * HELD_BYTES_MAX)
    for n in range(100):
        a.hold(n, B, bytes([n]))
    [reply] = b.take(1, A, ask).replies
    assert a.take(2, B, reply).released == tuple(bytes([n]) for n in range(100 - HELD_MAX, 100))


def test_the_first_key_seals_and_all_open_while_the_file_changes(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(KEY)
    rings = {name: KeyRing(tmp_path / name, "test") for name in "ab"}
    a, b = (
        PeerSessions(
            PacketSeal(ring, name.encode() * 16), lambda: next(_tokens).to_bytes(16, "big")
        )
        for name, ring in rings.items()
    )
    introduce(0, a, b)
    now = 0

    def put(name: str, *lines: str) -> None:
        (tmp_path / name).write_text("# keys\n\n" + "\n".join(lines))

    def both_ways() -> None:
        nonlocal now
        now += 2_000_000_000
        end = time.monotonic() + 30
        for each in (a, b):
            each.take(now, X, b"")  # looks at the file, which is read in a thread
            while each._seal.ring._reading is not None:
                assert time.monotonic() < end
                each.take(now, X, b"")
        assert b.take(now, A, a.sealed(b"1")).body == b"1"
        assert a.take(now, B, b.sealed(b"2")).body == b"2"

    first, second = rings["a"].first.id, None
    for step in ([KEY, OTHER], [OTHER, KEY], [OTHER]):
        put("a", *step)
        both_ways()
        put("b", *step)
        both_ways()
    second = rings["a"].first.id
    assert first != second
    old = PacketSeal(KeyRing(_file(tmp_path / "old", KEY), "test"), b"o" * 16)
    assert b.take(now, X, old.seal(DATA, b"")).refused == "key"


def _file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_no_nonce_is_used_twice_under_one_key(keys: Path) -> None:
    """Sessions have keys of their own; in each the number grows, also when the key is renewed."""
    ring = KeyRing(keys / "key", "test")
    seals = [PacketSeal(ring, bytes([n]) * 16) for n in range(3)]
    secrets = {ring.first.of_session(each.session) for each in seals}
    assert len(secrets) == len(seals)
    numbers = []
    for _ in range(5):
        numbers += [int.from_bytes(seals[0].seal(DATA, b"")[24:32], "little") for _ in range(5)]
        seals[0].renew()
    assert numbers == list(range(1, 26))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=3 * WINDOW), max_size=60))
def test_the_window_takes_each_number_once_and_none_that_is_too_old(numbers: list[int]) -> None:
    window, taken, highest = ReplayWindow(1), {1}, 1
    for number in numbers:
        expected = number not in taken and number > highest - WINDOW
        assert window.take(number) == expected
        taken.add(number)
        highest = max(highest, number)


def test_random_bytes_are_refused(keys: Path) -> None:
    b = sessions(keys, "b")
    for seed in range(2000):
        packet = blake2b(seed.to_bytes(4, "big")).digest() * 3
        for magic in (b"", b"PS\x01\x00", b"PS\x01\x01"):
            received = b.take(seed, X, magic + packet[: 10 + seed % 150])
            assert received.body is None
            assert received.replies == ()
            assert received.refused
    assert (b.known, b.asked) == (0, 0)
