"""Proofs from the hashes of a tree (RFC 9162, 2.1.3.1 and 2.1.4.1)."""

from __future__ import annotations

from typing import Protocol

from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.proofs.consistency import ConsistencyProof
from fleetledger.schemas.proofs.inclusion import InclusionProof
from fleetledger.schemas.proofs.tree import EMPTY_ROOT, node_hash
from fleetledger.schemas.values import Digest


class Nodes(Protocol):
    """The hashes of a tree's complete subtrees."""

    def subtree(self, level: int, position: int) -> bytes:
        """Return the root over leaves position * 2^level to (position + 1) * 2^level - 1."""
        ...


def root_at(nodes: Nodes, size: int) -> Digest:
    """Return the root of the log as it was with `size` entries."""
    return Digest((_root(nodes, 0, size) if size else EMPTY_ROOT).hex())


def inclusion_proof(nodes: Nodes, index: int, size: int) -> InclusionProof:
    """Return the proof that an entry is in the log of `size`; `ProofError` where it is not."""
    path = inclusion_path(nodes, index, size)
    return InclusionProof(index=index, size=size, path=tuple(map(_digest, path)))


def inclusion_path(nodes: Nodes, index: int, size: int) -> list[bytes]:
    """Return the hashes beside the way from an entry up to the root, lowest first.

    Raises `ProofError` where the log of `size` has no such entry.
    """
    if not 0 <= index < size:
        raise ProofError(f"index: {index} is no entry of a log of {size}; give 0 to {size - 1}")
    path: list[bytes] = []
    level = 0
    while size > 1 << level:
        beside = index >> level ^ 1
        start = beside << level
        if start + (1 << level) <= size:
            path.append(nodes.subtree(level, beside))
        elif start < size:  # the last one of its level, which is not whole
            path.append(_root(nodes, start, size))
        level += 1
    return path


def consistency_proof(nodes: Nodes, first: int, second: int) -> ConsistencyProof:
    """Return the proof that the log of `first` entries is the beginning of that of `second`.

    Raises `ProofError` where it would have to shrink.
    """
    if not 0 <= first <= second:
        raise ProofError(f"first: {first} is not allowed; give 0 to {second}, the second size")
    path: list[bytes] = []
    start, end = 0, second
    if first in {0, second}:
        return ConsistencyProof(first=first, second=second, path=())
    while first != end:
        middle = start + _left_leaves(end - start)
        if first <= middle:
            path.append(_root(nodes, middle, end))
            end = middle
        else:
            path.append(_root(nodes, start, middle))
            start = middle
    if start > 0:  # else it is the root of the first log, which the verifier has
        path.append(_root(nodes, start, end))
    return ConsistencyProof(first=first, second=second, path=_from_below(path))


def _left_leaves(leaves: int) -> int:
    """Return the number of leaves on the left: the largest power of two below `leaves`."""
    return 1 << ((leaves - 1).bit_length() - 1)


def _root(nodes: Nodes, start: int, end: int) -> bytes:
    """Return the root over leaves start to end - 1; `start` is a multiple of their left half."""
    leaves = end - start
    if leaves & (leaves - 1) == 0:
        level = leaves.bit_length() - 1
        return nodes.subtree(level, start >> level)
    middle = start + _left_leaves(leaves)
    return node_hash(_root(nodes, start, middle), _root(nodes, middle, end))


def _from_below(path: list[bytes]) -> tuple[Digest, ...]:
    return tuple(map(_digest, reversed(path)))


def _digest(node: bytes) -> Digest:
    return Digest.known(node.hex())
