"""Spoils bytes: what a bad link, a bad disk or a bad neighbour makes of a good message."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

_NUMBERS = (
    b"-1", b"0", b"1e400", b"NaN", b"Infinity", b"9223372036854775808", b"0.5", b"-0", b"01",
    b"1" * 400, b"null", b"true", b'""', b"[]", b"{}",
)  # fmt: skip
_PIECES = (
    b'"', b"\\", b"\\u0000", b"\\ud800", b"\\u0041", b"\xff\xfe", b"\n", b" ", b",", b":",
    b"{", b"}",
    b"[" * 200, b"]" * 200, b'{"a":' * 200, b"../", b"/dev/null", b"\x00" * 64, b"\x28\xb5\x2f\xfd",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


def _flip(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        place = random.randrange(8 * len(changed))
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def _cut(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: random.randrange(len(data))]


def _leave_out(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:first] + data[last:]


def _repeat(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:last] + data[first:last] * random.choice((1, 2, 20)) + data[last:]


def _put_in(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    place = random.randrange(len(data) + 1)
    return data[:place] + random.choice(_PIECES) + data[place:]


def _join(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others)
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


def _renumber(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data + random.choice(_NUMBERS)
    chosen = random.choice(found)
    return data[: chosen.start()] + random.choice(_NUMBERS) + data[chosen.end() :]


def _swap(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Exchange two words between quotes: names for names, digests for texts."""
    words = list(re.finditer(rb'"([^"\\]*)"', data))
    if len(words) < 2:
        return data[::-1]
    one, other = sorted(random.sample(words, 2), key=lambda word: word.start())
    return (
        data[: one.start()]
        + other[0]
        + data[one.end() : other.start()]
        + one[0]
        + data[other.end() :]
    )


MUTATIONS: tuple[Mutation, ...] = (
    _flip, _cut, _leave_out, _repeat, _put_in, _join, _renumber, _swap,
)  # fmt: skip


def spoiled(random: Random, good: Sequence[bytes]) -> bytes:
    """Return one of some good inputs after one to three mutations, never empty ones."""
    data = random.choice(good)
    for _ in range(random.choice((1, 1, 2, 3))):
        if data:
            data = random.choice(MUTATIONS)(random, data, good)
    return data
