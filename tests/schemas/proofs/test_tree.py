"""The tree hash against RFC 6962's definition and Certificate Transparency's own test vectors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.schemas.proofs.tree import EMPTY_ROOT, Frontier, leaf_hash
from tests.schemas.proofs.slow import mth

# Leaves and roots of certificate-transparency's merkletree tests (merkle_tree_test.cc).
CT_LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def grown(data: list[bytes]) -> Frontier:
    return Frontier().grown(leaf_hash(item) for item in data)


def test_an_empty_tree_has_the_hash_of_nothing() -> None:
    assert Frontier().root == EMPTY_ROOT == mth([])


@pytest.mark.parametrize("size", range(1, 9))
def test_certificate_transparency_test_vectors_hold(size: int) -> None:
    assert grown(CT_LEAVES[:size]).root.hex() == CT_ROOTS[size - 1]


def test_every_size_up_to_130_agrees_with_the_definition() -> None:
    data = [bytes([n]) * (n % 5) for n in range(130)]
    frontier = Frontier()
    for n, item in enumerate(data, start=1):
        frontier = frontier.grown([leaf_hash(item)])
        assert (frontier.size, frontier.root) == (n, mth(data[:n]))


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=8), max_size=70), st.data())
def test_growing_in_groups_is_growing_at_once(data: list[bytes], choice: st.DataObject) -> None:
    cut = choice.draw(st.integers(0, len(data)))
    leaves = [leaf_hash(item) for item in data]
    assert Frontier().grown(leaves[:cut]).grown(leaves[cut:]) == Frontier().grown(leaves)


def test_a_frontier_holds_one_hash_per_set_bit_of_its_size() -> None:
    assert len(grown([b"x"] * 0b1011010).peaks) == 4


def test_growing_leaves_the_old_frontier_as_it_was() -> None:
    old = grown([b"a", b"b", b"c"])
    root = old.root
    old.grown([leaf_hash(b"d")])
    assert (old.size, old.root) == (3, root)
