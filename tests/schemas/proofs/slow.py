"""RFC 6962, section 2.1, word for word: slow, recursive, and independent of the house."""

from __future__ import annotations

import hashlib


def mth(data: list[bytes]) -> bytes:
    n = len(data)
    if n == 0:
        return hashlib.sha256().digest()
    if n == 1:
        return hashlib.sha256(b"\x00" + data[0]).digest()
    k = split(n)
    return hashlib.sha256(b"\x01" + mth(data[:k]) + mth(data[k:])).digest()


def path(m: int, data: list[bytes]) -> list[bytes]:
    n = len(data)
    if n == 1:
        return []
    k = split(n)
    if m < k:
        return [*path(m, data[:k]), mth(data[k:])]
    return [*path(m - k, data[k:]), mth(data[:k])]


def proof(m: int, data: list[bytes]) -> list[bytes]:
    return subproof(m, data, whole=True)


def subproof(m: int, data: list[bytes], *, whole: bool) -> list[bytes]:
    n = len(data)
    if m == n:
        return [] if whole else [mth(data)]
    k = split(n)
    if m <= k:
        return [*subproof(m, data[:k], whole=whole), mth(data[k:])]
    return [*subproof(m - k, data[k:], whole=False), mth(data[:k])]


def split(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k
