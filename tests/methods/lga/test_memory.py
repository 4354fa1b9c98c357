"""Memory: which images are exemplars, how lists shrink, and what becomes of images since."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.lga.detection import NoveltyHistory
from fleetledger.methods.lga.exemplars import chosen_rows, herd_repeating, with_exemplars
from fleetledger.methods.lga.gradients_due import GradientsDue
from fleetledger.methods.lga.holdings import Current, training_rows
from fleetledger.methods.lga.memory import Memory, read_memory
from fleetledger.methods.lga.settings import MemorySettings
from fleetledger.methods.training.exchange import LocalData
from fleetledger.methods.training.met_samples import MetSamples
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import Digest
from tests.methods.lga.making import ANT, BEE, CAT, DOG, samples


def digests(name, count):
    return tuple(Digest.of(f"{name}/{number}".encode()) for number in range(count))


def features(seed, rows=12, width=3):
    return np.random.default_rng(seed).normal(size=(rows, width)) + 1


def slow_herding(values, count, *, repeating):
    """The image that brings the mean of the list nearest to the class's, again and again."""
    unit = [row / np.sqrt(sum(x * x for x in row)) for row in values]
    mean = sum(unit) / len(unit)
    chosen = []
    for _ in range(count):
        far = {}
        for row in range(len(unit)):
            if repeating or row not in chosen:
                some = [*chosen, row]
                far[row] = np.linalg.norm(mean - sum(unit[one] for one in some) / len(some))
        chosen.append(min(far, key=far.__getitem__))
    return chosen


def remember(before, seeds, **settings):
    """The memory with a class more for each seed."""
    given = MemorySettings(**settings)
    return with_exemplars(
        given,
        before,
        {name: features(seed) for name, seed in seeds.items()},
        {name: digests(name, 12) for name in seeds},
        partial(chosen_rows, given),
    )


@pytest.mark.parametrize("herding", ["distinct", "repeating"])
def test_exemplars_are_herded_by_the_released_rule_or_without_repetition(herding):
    found = remember(Memory(), {ANT: 1, BEE: 2}, memory=16, herding=herding)
    for name, seed in {ANT: 1, BEE: 2}.items():
        rows = slow_herding(features(seed), 8, repeating=herding == "repeating")
        assert found.exemplars[name] == tuple(digests(name, 12)[row] for row in rows)
        assert herding == "repeating" or len(set(rows)) == 8


def test_only_the_released_rule_chooses_an_image_twice():
    values = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.9]])
    assert len(set(herd_repeating(values, 4))) < 4
    assert len(herd_repeating(values, 9)) == 9


def test_lists_shrink_to_a_share_of_the_memory_and_keep_their_best():
    one = remember(Memory(), {ANT: 1}, memory=10)
    assert len(one.exemplars[ANT]) == 10
    two = remember(one, {BEE: 2}, memory=10)
    assert {name: len(item) for name, item in two.exemplars.items()} == {ANT: 5, BEE: 5}
    assert two.exemplars[ANT] == one.exemplars[ANT][:5]
    three = remember(two, {CAT: 3}, memory=10)
    assert [len(item) for item in three.exemplars.values()] == [3, 3, 3]
    assert three.stored == 9


def test_a_count_for_each_class_wins_over_the_share():
    found = remember(Memory(), {ANT: 1, BEE: 2}, memory=2000, memory_per_class=5)
    assert [len(item) for item in found.exemplars.values()] == [5, 5]


def test_more_classes_than_the_memory_holds_leave_nothing():
    assert remember(Memory(), {ANT: 1, BEE: 2, CAT: 3}, memory=2).exemplars == {}


FULL = Memory(
    round=7,
    observation=Observation(entropy=0.25, images=9, transition=True),
    looks=NoveltyHistory(3, 4, (ANT, BEE), (1.5, 0.25)),
    gradients=GradientsDue(entered=True, withheld=True, sent=(ANT, DOG)),
    exemplars={ANT: digests("a", 3), BEE: digests("b", 2)},
    met=MetSamples().with_samples((ANT,) * 4, digests("a", 4), 2),
)
NOTHING_MET = np.zeros((0, 12), np.uint8)


def test_a_memory_comes_back_as_it_was_written():
    assert read_memory(FULL.write()) == FULL
    assert read_memory(Memory().write()) == Memory() == read_memory(None)
    assert FULL.write() == read_memory(FULL.write()).write()
    assert FULL.stored == 5


def test_a_file_that_is_no_memory_is_refused_by_field():
    with pytest.raises(MethodError, match="memory"):
        read_memory(b"something else")
    with pytest.raises(MethodError, match=r"memory: .*digests"):
        read_memory(encode_tensors({"strange": np.zeros(3, np.float32)}))
    with pytest.raises(MethodError, match=r"memory: .*round"):
        read_memory(encode_tensors({"digests": np.zeros((0, 32), np.uint8), "met": NOTHING_MET}))


def _rewritten(rows, **changes):
    from fleetledger.schemas.tensors import Expected, UpTo, read_tensors

    expected = {
        "digests": Expected("uint8", (UpTo(100), 32)),
        "met": Expected("uint8", (UpTo(100), 12)),
    }
    file = read_tensors(FULL.write(), expected, 1 << 20)
    tensors = {"digests": np.zeros((rows, 32), np.uint8), "met": NOTHING_MET}
    return encode_tensors(tensors, file.metadata | {"met": ()} | changes)


def test_lists_that_do_not_fit_their_digests_are_refused():
    with pytest.raises(MethodError, match="4 exemplars"):
        read_memory(_rewritten(4))
    twice = [{"name": "ant", "count": 3}, {"name": "ant", "count": 2}]
    with pytest.raises(MethodError, match="each named once"):
        read_memory(_rewritten(5, classes=twice))
    with pytest.raises(MethodError, match="history"):
        read_memory(_rewritten(5, history=[0.5] * 101))


def test_renamed_classes_keep_their_lists_and_merged_ones_alternate():
    wasp = "wasp"
    renamed = FULL.renamed({BEE: wasp})
    assert renamed.exemplars == {ANT: digests("a", 3), wasp: digests("b", 2)}
    assert renamed.looks.rows == (ANT, wasp)
    merged = FULL.renamed({BEE: ANT, DOG: ANT})
    a, b = digests("a", 3), digests("b", 2)
    assert merged.exemplars == {ANT: (a[0], b[0], a[1], b[1], a[2])}
    assert merged.gradients.sent == (ANT,)
    assert merged.looks.rows == (ANT,)


def test_what_is_gone_or_has_another_class_is_forgotten():
    lost = FULL.exemplars[ANT][1]
    kept = FULL.kept(lambda name, digest: digest != lost and name != BEE)
    assert kept.exemplars == {ANT: (FULL.exemplars[ANT][0], FULL.exemplars[ANT][2])}


def test_training_data_are_current_images_and_exemplars():
    data = samples(8, ANT, CAT)
    of_ant = [row for row, name in enumerate(data.class_names) if name == ANT]
    current = Current(tuple(row for row in range(8) if row not in of_ant), frozenset({CAT}), 2)
    chosen = tuple(data.digests[row] for row in (of_ant[2], of_ant[0], of_ant[2]))
    rows = training_rows(data, current, Memory(exemplars={ANT: chosen}))
    assert rows == [*current.rows, of_ant[2], of_ant[0], of_ant[2]]


def test_an_exemplar_that_is_current_is_trained_on_once():
    data = samples(4, ANT)
    current = Current((0, 1, 2, 3), frozenset({ANT}), 1)
    assert training_rows(data, current, Memory(exemplars={ANT: data.digests[:2]})) == [0, 1, 2, 3]


def test_one_picture_in_two_classes_is_an_exemplar_of_the_one_that_chose_it():
    first = samples(1, ANT)
    data = LocalData(
        np.concatenate([first.inputs, first.inputs]), (BEE, ANT), first.digests + first.digests
    )
    memory = Memory(exemplars={ANT: first.digests})
    assert training_rows(data, Current((), frozenset(), 2), memory) == [1]
