"""Ed25519 by the equations of RFC 8032 in Python's integers: slow, with edge cases at hand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, P) % P

Point = tuple[int, int]
"""x and y on the curve."""

NEUTRAL: Point = (0, 1)


def added(a: Point, b: Point) -> Point:
    product = _D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + product, -1, P)
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P)
    return x % P, y % P


def times(number: int, point: Point) -> Point:
    found = NEUTRAL
    while number:
        if number & 1:
            found = added(found, point)
        point, number = added(point, point), number >> 1
    return found


def negative(point: Point) -> Point:
    return -point[0] % P, point[1]


def point_of(data: bytes) -> Point | None:
    """The point of 32 bytes, with y modulo p; None where there is none."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number % 2**255 % P
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square:
        return None
    return (-x % P if x & 1 != sign else x), y


def encoded(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


BASE = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little")) or NEUTRAL


def challenge(commitment: bytes, public: bytes, message: bytes) -> int:
    digest = hashlib.sha512(commitment + public + message).digest()
    return int.from_bytes(digest, "little") % ORDER


def accepts(public: bytes, signature: bytes, message: bytes) -> bool:
    """The one rule: equation without cofactor, all in one form, no point of small order."""
    if len(signature) != 64:
        return False
    commitment, response = signature[:32], int.from_bytes(signature[32:], "little")
    point = point_of(public)
    if point is None or encoded(point) != public or response >= ORDER:
        return False
    told = point_of(commitment)
    if told is None or NEUTRAL in (times(8, point), times(8, told)):
        return False
    number = challenge(commitment, public, message)
    return encoded(added(times(response, BASE), negative(times(number, point)))) == commitment


def small_points() -> list[Point]:
    """The eight points whose order divides 8, the neutral one first."""
    for start in range(2, 100):
        point = point_of(start.to_bytes(32, "little"))
        small = NEUTRAL if point is None else times(ORDER, point)
        if times(4, small) != NEUTRAL:
            return [times(number, small) for number in range(8)]
    raise AssertionError("no point of order 8")


def encodings(point: Point) -> Iterator[bytes]:
    """All 32 bytes that tell of a point: also with y + p, and with the other sign of x = 0."""
    for y in (point[1], point[1] + P):
        for sign in (0, 1):
            if y < 2**255 and (point[0] == 0 or sign == point[0] & 1):
                yield (y | sign << 255).to_bytes(32, "little")


def signature_of(
    secret: int, nonce: int, message: bytes, *, key_plus: Point = NEUTRAL, told: bytes | None = None
) -> tuple[bytes, bytes]:
    """A public key, which may have a small point added, and a signature with any commitment."""
    public = encoded(added(times(secret, BASE), key_plus))
    commitment = encoded(times(nonce, BASE)) if told is None else told
    number = challenge(commitment, public, message)
    response = (nonce + number * secret) % ORDER
    return public, commitment + response.to_bytes(32, "little")
