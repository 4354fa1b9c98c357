"""What a site remembers, as bytes and under new names."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.dcid.memory import AfterDid, Mark, Memory, read_memory
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import Digest
from tests.methods.dcid.making import ANT, BEE, CAT, SHAPE, assignment

NETWORK = assignment().network


def digests(*names: str) -> tuple[Digest, ...]:
    return tuple(Digest.of(name.encode()) for name in names)


def full() -> Memory:
    mark = Mark(stage=2, round_of_stage=4, began=Digest.of(b"w"), rows=3, samples={ANT: 7})
    after = AfterDid(mark, NETWORK.initial(3, (ANT, BEE, CAT)))
    return Memory({BEE: digests("b", "a"), ANT: digests("c")}, after)


def test_a_memory_comes_back_as_it_was():
    found = read_memory(full().write(), NETWORK)
    assert found.anchors == full().anchors
    assert found.stored == 3
    assert found.after_did is not None
    assert found.after_did.mark == full().after_did.mark
    for name, array in full().after_did.arrays.items():
        assert (found.after_did.arrays[name] == array).all(), name
    assert found.write() == full().write()


def test_nothing_is_known_before_the_first_round():
    assert read_memory(None, NETWORK).stored == 0
    assert read_memory(Memory().write(), NETWORK).after_did is None


def test_classes_have_their_new_names_and_merged_lists_alternate():
    memory = Memory({ANT: digests("a", "b"), BEE: digests("c", "d")})
    assert memory.renamed({ANT: CAT}).anchors == {CAT: digests("a", "b"), BEE: digests("c", "d")}
    assert memory.renamed({BEE: ANT}).anchors == {ANT: digests("a", "c", "b", "d")}


def test_anchors_go_with_their_images():
    memory = Memory({ANT: digests("a", "b"), BEE: digests("c")})
    pictures = np.zeros((2, *SHAPE), np.uint8)
    data = LocalData(pictures, (ANT, CAT), digests("a", "c"))
    assert memory.present(data).anchors == {ANT: digests("a")}


def test_another_file_is_refused():
    other = encode_tensors({"digests": np.zeros((2, 32), np.uint8)}, {"classes": []})
    with pytest.raises(MethodError, match="2 anchors"):
        read_memory(other, NETWORK)
    with pytest.raises(MethodError, match="memory"):
        read_memory(b"not a file", NETWORK)
    with pytest.raises(MethodError, match="memory"):
        read_memory(encode_tensors({"weights": np.zeros(2, np.float32)}), NETWORK)
