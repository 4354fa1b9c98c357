"""Memory: what is remembered under which names, and files that nobody should have written."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.fbl.assignment import OLD_MODEL
from fleetledger.methods.fbl.detection import MOST_CHECKS, NoveltyHistory
from fleetledger.methods.fbl.memory import Memory, read_memory
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.tensors import Expected, UpTo, decode_tensors, encode_tensors, read_tensors
from fleetledger.schemas.values import Digest
from tests.methods.fbl.making import ANT, BEE, CAT, DOG

FILE = b"a network"
FULL = Memory(
    round=7,
    observation=Observation(entropy=0.4, images=12, transition=True),
    looks=NoveltyHistory(2, 1, 2, (ANT, BEE), (0.25, 0.125)),
    seen=frozenset({ANT, CAT}),
    epochs=12,
    old=Digest.of(FILE),
    kept=FILE,
)


def facts(memory=FULL):
    """The metadata of a memory's file."""
    expected = {OLD_MODEL: Expected("uint8", (UpTo(1000),))}
    return read_tensors(memory.write(), expected, 1 << 20).metadata


def file(kept=FILE, **changes):
    return encode_tensors({OLD_MODEL: np.frombuffer(kept, np.uint8)}, facts() | changes)


@pytest.mark.parametrize("memory", [Memory(), FULL, Memory(old=Digest.of(FILE))])
def test_what_is_written_is_read_again(memory):
    assert read_memory(memory.write()) == memory
    assert read_memory(None) == Memory()


def test_classes_are_remembered_by_the_names_that_they_have_now():
    renamed = FULL.renamed({ANT: DOG, BEE: DOG})
    assert renamed.looks.rows == (DOG,)
    assert renamed.seen == {DOG, CAT}
    assert renamed.kept == FILE


def test_no_picture_is_remembered():
    assert FULL.stored == 0
    assert set(facts()) == {
        "round", "observation", "tasks", "stage", "fleet_stage", "rows", "history",
        "seen", "levels", "epochs", "old",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "memory"),
        (b"no tensors at all", "memory"),
        (FULL.write()[:-1], "memory"),
        (encode_tensors({OLD_MODEL: np.zeros(0, np.uint8)}), "round"),
        (encode_tensors({}, facts()), OLD_MODEL),
        (encode_tensors({OLD_MODEL: np.zeros(3, np.int8)}, facts()), OLD_MODEL),
        (encode_tensors({OLD_MODEL: np.zeros((3, 3), np.uint8)}, facts()), OLD_MODEL),
        (encode_tensors({OLD_MODEL: np.zeros(0, np.uint8), "b": np.zeros(1)}, facts()), "b"),
        (file(kept=b"another network"), "digest"),
        (file(old=None), "digest"),
        (file(round=-1), "round"),
        (file(epochs=-1), "epochs"),
        (file(tasks=2**40), "tasks"),
        (file(history=[0.1] * (MOST_CHECKS + 1)), "history"),
        (file(history=["much"]), "history"),
        (file(seen=["no/name" * 90]), "seen"),
        (file(rows=[f"c{number}" for number in range(20_000)]), "rows"),
        (file(old="0"), "old"),
        (file(observation={"entropy": -1.0, "images": 1, "transition": True}), "entropy"),
        (file(more=1), "more"),
    ],
)
def test_files_that_are_no_memory_are_refused(body, why):
    with pytest.raises(MethodError, match=why):
        read_memory(body)


def test_the_kept_model_lies_in_the_file_as_it_is():
    expected = {OLD_MODEL: Expected("uint8", (len(FILE),))}
    assert decode_tensors(FULL.write(), expected, 1 << 20)[OLD_MODEL].tobytes() == FILE
