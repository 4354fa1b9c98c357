"""Proofs against RFC 6962's recursive definitions, and against every way to alter them."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.proofs.consistency import ConsistencyProof
from fleetledger.schemas.proofs.inclusion import InclusionProof
from fleetledger.schemas.proofs.tree import leaf_hash, node_hash
from fleetledger.schemas.proofs.tree_proofs import consistency_proof, inclusion_proof, root_at
from fleetledger.schemas.values import Digest
from tests.schemas.proofs import slow

SMALL = 40
"""Sizes up to which every pair is tried."""


@dataclass(frozen=True)
class NodesOf:
    """The subtrees of some leaves, computed when they are asked for."""

    leaves: list[bytes]

    def subtree(self, level: int, position: int) -> bytes:
        if level == 0:
            return self.leaves[position]
        below = level - 1, 2 * position
        return node_hash(self.subtree(*below), self.subtree(below[0], below[1] + 1))


DATA = [f"entry {n}".encode() for n in range(700)]
LEAVES = [leaf_hash(item) for item in DATA]
NODES = NodesOf(LEAVES)


def digests(hashes: list[bytes]) -> tuple[Digest, ...]:
    return tuple(Digest(item.hex()) for item in hashes)


def root(size: int) -> Digest:
    return Digest(slow.mth(DATA[:size]).hex())


def test_every_inclusion_proof_of_a_small_log_is_the_rfcs_and_holds() -> None:
    for size in range(1, SMALL):
        for index in range(size):
            made = inclusion_proof(NODES, index, size)
            assert made.path == digests(slow.path(index, DATA[:size]))
            made.check(LEAVES[index], root(size))


def test_every_consistency_proof_of_a_small_log_is_the_rfcs_and_holds() -> None:
    for second in range(1, SMALL):
        for first in range(1, second + 1):
            made = consistency_proof(NODES, first, second)
            assert made.path == digests(slow.proof(first, DATA[:second]))
            made.check(root(first), root(second))


def test_two_thousand_random_proofs_of_larger_logs_hold() -> None:
    chance = random.Random(1)
    roots = {size: root_at(NODES, size) for size in range(len(DATA) + 1)}
    for _ in range(1000):
        size = chance.randint(1, len(DATA))
        index = chance.randrange(size)
        inclusion_proof(NODES, index, size).check(LEAVES[index], roots[size])
        first = chance.randint(0, size)
        consistency_proof(NODES, first, size).check(roots[first], roots[size])


@pytest.mark.parametrize("size", [1, 2, 3, 64, 65, 127, 700])
def test_the_root_of_a_former_size_is_that_of_the_log_then(size: int) -> None:
    assert root_at(NODES, size) == root(size)


def test_every_changed_bit_of_an_inclusion_proof_is_refused() -> None:
    made = inclusion_proof(NODES, 37, 101)
    for place, digest in enumerate(made.path):
        for bit in range(256):
            changed = Digest(f"{int(digest, 16) ^ (1 << bit):064x}")
            path = (*made.path[:place], changed, *made.path[place + 1 :])
            with pytest.raises(ProofError, match="root"):
                made.model_copy(update={"path": path}).check(LEAVES[37], root(101))


def test_every_changed_bit_of_a_consistency_proof_is_refused() -> None:
    made = consistency_proof(NODES, 37, 101)
    for place, digest in enumerate(made.path):
        for bit in range(256):
            changed = Digest(f"{int(digest, 16) ^ (1 << bit):064x}")
            path = (*made.path[:place], changed, *made.path[place + 1 :])
            with pytest.raises(ProofError, match="roots"):
                made.model_copy(update={"path": path}).check(root(37), root(101))


def test_an_inclusion_proof_holds_for_its_own_leaf_index_and_size_alone() -> None:
    made = inclusion_proof(NODES, 5, 21)
    for index in range(21):
        for size in range(1, 30):
            moved = InclusionProof(index=index, size=size, path=made.path)
            if (index, size) == (5, 21) or _is_same_way(index, size, made):
                continue
            with pytest.raises(ProofError):
                moved.check(LEAVES[5], root(21))
    with pytest.raises(ProofError):
        made.check(LEAVES[6], root(21))


def _is_same_way(index: int, size: int, made: InclusionProof) -> bool:
    """Whether another log's tree leads from another index by the same turns; its size is signed."""
    try:
        return InclusionProof(index=index, size=size, path=made.path).root(LEAVES[5]) == root(21)
    except ProofError:
        return False


@pytest.mark.parametrize("by", [-1, 1])
def test_an_inclusion_path_of_another_length_is_refused(by: int) -> None:
    made = inclusion_proof(NODES, 5, 21)
    altered = made.model_copy(update={"path": _resized(made.path, by)})
    with pytest.raises(ProofError, match="do not lead"):
        altered.check(LEAVES[5], root(21))


@pytest.mark.parametrize("by", [-1, 1])
def test_a_consistency_path_of_another_length_is_refused(by: int) -> None:
    made = consistency_proof(NODES, 5, 21)
    altered = made.model_copy(update={"path": _resized(made.path, by)})
    with pytest.raises(ProofError, match="do not lead"):
        altered.check(root(5), root(21))


def _resized(path: tuple[Digest, ...], by: int) -> tuple[Digest, ...]:
    return path[:by] if by < 0 else path + path[:by]


def test_a_log_that_was_cut_short_is_inconsistent() -> None:
    with pytest.raises(ProofError, match="never shrinks"):
        ConsistencyProof(first=9, second=8, path=()).check(root(9), root(8))


def test_equal_sizes_with_different_roots_are_two_histories() -> None:
    with pytest.raises(ProofError, match="two histories"):
        ConsistencyProof(first=8, second=8, path=()).check(root(8), root(9))


def test_an_entry_that_a_log_does_not_have_cannot_be_proven() -> None:
    with pytest.raises(ProofError, match="index: 8 is no entry of a log of 8"):
        inclusion_proof(NODES, 8, 8)
    with pytest.raises(ProofError, match="first: 9 is not allowed"):
        consistency_proof(NODES, 9, 8)
