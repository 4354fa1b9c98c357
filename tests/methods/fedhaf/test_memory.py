"""Exemplars: which are chosen, what becomes of them, and how they are kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedhaf.exemplars import remembered, samples_of, within_cap
from fleetledger.methods.fedhaf.memory import Exemplars, Memory, read_memory
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.fedhaf.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EVERY,
    WIDTH,
    asked,
    assignment,
    order,
    samples,
)
from tests.methods.making import joined, only

OF = assignment()
FIRST = order(asked(OF))
SECOND = order(asked(OF, *EVERY, rows=(ANT, BEE)), CAT, DOG, stage=2)


def remember(
    asks: FitInstruction, data: LocalData, memory: Memory | None = None, **settings: Any
) -> tuple[Memory, Memory]:
    return remembered(assignment(**settings).settings, asks, data, memory or Memory())


def after_first(data: LocalData, **settings: Any) -> Memory:
    """What a device remembers that has trained the first task."""
    return remember(FIRST, data, **settings)[1]


def digests(memory: Memory, name: ClassName) -> set[Digest]:
    return set(memory.classes[name].digests) if name in memory.classes else set()


def test_exemplars_are_the_samples_nearest_to_their_classs_mean():
    data = samples(42, ANT, BEE)
    memory = after_first(data)
    for name in (ANT, BEE):
        rows = [row for row, label in enumerate(data.class_names) if label == name]
        mean = data.inputs[rows].astype(float).mean(axis=0)
        far = {row: float(np.linalg.norm(data.inputs[row] - mean)) for row in rows}
        nearest = sorted(rows, key=far.__getitem__)[:5]  # ceil(0.2 * 21)
        assert memory.classes[name].digests == tuple(data.digests[row] for row in nearest)


def test_exemplars_by_chance_do_not_depend_on_what_is_on_the_images():
    data = samples(42, ANT, BEE)
    memory = after_first(data, exemplar_choice="random")
    for name in (ANT, BEE):
        own = [data.digests[row] for row, label in enumerate(data.class_names) if label == name]
        assert memory.classes[name].digests == tuple(sorted(own)[:5])
    other = samples(42, ANT, BEE)
    other.inputs[:] = np.random.default_rng(9).normal(size=other.inputs.shape)
    again = after_first(other, exemplar_choice="random")
    for name in (ANT, BEE):
        assert digests(again, name) == digests(memory, name)
        assert digests(after_first(other), name) != digests(after_first(data), name)


def test_exemplars_by_chance_stay_when_other_samples_come():
    before, more = samples(42, ANT, BEE), samples(2, ANT, BEE, seed=3)
    few, many = (
        after_first(data, exemplar_choice="random") for data in (before, joined(before, more))
    )
    for name in (ANT, BEE):
        assert len(digests(few, name) - digests(many, name)) <= 1


def test_classes_of_the_stage_are_candidates_only():
    in_use, all_of_it = remember(FIRST, samples(20, ANT, BEE))
    assert in_use.stored == 0
    assert all_of_it.stored == 4
    assert (in_use.stage, all_of_it.stage) == (1, 1)


def test_with_the_next_stage_candidates_become_exemplars():
    old, new = samples(20, ANT, BEE), samples(10, CAT, DOG, seed=1)
    data = joined(new, old)
    in_use, _ = remember(SECOND, data, after_first(old))
    assert set(in_use.classes) == {ANT, BEE}
    made = samples_of(SECOND, data, in_use)
    assert made.class_names == (*new.class_names, ANT, ANT, BEE, BEE)
    assert made.old.tolist() == [0] * 10 + [1] * 4
    rows = {digest: row for row, digest in enumerate(data.digests)}
    expected = [rows[digest] for name in (ANT, BEE) for digest in in_use.classes[name].digests]
    assert np.array_equal(made.inputs[10:], data.inputs[expected])


def test_images_that_come_during_a_stage_are_considered_and_later_ones_are_not():
    few, more = samples(10, ANT), samples(40, ANT, seed=2)
    once = after_first(few)
    again = remember(FIRST, joined(few, more), once)[1]
    assert len(again.classes[ANT]) == 10
    later = remember(SECOND, joined(few, more), once)[0]
    assert digests(later, ANT) == digests(once, ANT)


def test_a_device_that_was_not_asked_in_a_stage_chooses_when_it_is_needed():
    data = joined(samples(20, ANT, BEE), samples(6, CAT, seed=1))
    in_use, _ = remember(SECOND, data)
    assert digests(in_use, ANT) == digests(after_first(samples(20, ANT, BEE)), ANT)
    assert in_use.stored == 4


@pytest.mark.parametrize("kind", ["images", "features"])
def test_an_exemplar_whose_image_is_gone(kind):
    old, new = samples(20, ANT, BEE, exemplars_as=kind), samples(6, CAT, seed=1, exemplars_as=kind)
    memory = after_first(old)
    lost = memory.classes[ANT].digests[0]
    left = only(old, [row for row, digest in enumerate(old.digests) if digest != lost])
    in_use, all_of_it = remember(SECOND, joined(left, new), memory)
    kept = lost in digests(in_use, ANT)
    assert kept == (kind == "features")
    assert len(in_use.classes[ANT]) == 1 + kept
    assert digests(all_of_it, ANT) == digests(in_use, ANT)
    assert len(samples_of(SECOND, joined(left, new), in_use)) == 6 + 3 + kept


@pytest.mark.parametrize("kind", ["images", "features"])
def test_an_exemplar_that_was_given_another_label_is_forgotten(kind):
    old, new = samples(20, ANT, BEE, exemplars_as=kind), samples(6, CAT, seed=1, exemplars_as=kind)
    memory = after_first(old)
    wrong = memory.classes[ANT].digests[0]
    labels = tuple(
        DOG if digest == wrong else name
        for name, digest in zip(old.class_names, old.digests, strict=True)
    )
    data = joined(replace(old, class_names=labels), new)
    in_use, all_of_it = remember(SECOND, data, memory)
    assert wrong not in digests(in_use, ANT)
    made = samples_of(SECOND, data, in_use)
    assert made.class_names.count(DOG) == 1
    assert made.old[made.class_names.index(DOG)] == 0
    assert wrong in digests(all_of_it, DOG)


def test_features_stay_when_every_image_of_a_class_is_gone():
    old = samples(20, ANT, BEE, exemplars_as="features")
    memory = read_memory(after_first(old).write(), WIDTH)
    new = samples(6, CAT, seed=1, exemplars_as="features")
    made = samples_of(SECOND, new, remember(SECOND, new, memory)[0])
    by_digest = dict(zip(old.digests, old.inputs, strict=True))
    for name in (ANT, BEE):
        rows = [row for row, label in enumerate(made.class_names) if label == name]
        kept = [by_digest[digest] for digest in memory.classes[name].digests]
        assert np.array_equal(made.inputs[rows], kept)


def test_training_on_features_is_training_on_the_images():
    old, new = samples(20, ANT, BEE), samples(6, CAT, DOG, seed=1)
    made = []
    for kind in ("images", "features"):
        data = replace(joined(old, new), exemplars_as=kind)
        memory = after_first(replace(old, exemplars_as=kind))
        assert (memory.classes[ANT].features is not None) == (kind == "features")
        made.append(samples_of(SECOND, data, remember(SECOND, data, memory)[0]))
    assert np.array_equal(made[0].inputs, made[1].inputs)
    assert made[0].class_names == made[1].class_names


def test_features_of_images_that_are_there_are_those_of_now():
    """The backbone's runtime may be another, and so their last bits."""
    old = samples(20, ANT, BEE, exemplars_as="features")
    memory = after_first(old)
    data = replace(old, inputs=old.inputs + np.float32(1e-3))
    in_use, _ = remember(SECOND, data, memory)
    by_digest = dict(zip(data.digests, data.inputs, strict=True))
    for item in in_use.classes.values():
        assert np.array_equal(item.features, [by_digest[digest] for digest in item.digests])


def test_going_back_to_images_drops_all_features():
    old = samples(20, ANT, BEE, exemplars_as="features")
    memory = after_first(old)
    lost = memory.classes[BEE].digests[0]
    left = only(old, [row for row, digest in enumerate(old.digests) if digest != lost])
    data = replace(left, exemplars_as="images")
    _, all_of_it = remember(SECOND, data, memory)
    assert all(item.features is None for item in all_of_it.classes.values())
    assert lost not in digests(all_of_it, BEE)
    assert digests(all_of_it, ANT) == digests(memory, ANT)


def test_changing_to_features_takes_those_of_images_that_are_there():
    old = samples(20, ANT, BEE)
    memory = after_first(old)
    lost = memory.classes[BEE].digests[0]
    left = only(old, [row for row, digest in enumerate(old.digests) if digest != lost])
    in_use, _ = remember(SECOND, replace(left, exemplars_as="features"), memory)
    assert digests(in_use, BEE) == digests(memory, BEE) - {lost}
    assert all(item.features is not None for item in in_use.classes.values())


def test_a_renamed_class_keeps_its_exemplars():
    old = samples(20, ANT, BEE)
    memory = after_first(old)
    wasp = ClassName("wasp")
    asks = order(asked(OF, ANT, wasp, CAT, DOG), CAT, DOG, stage=2, aliases={BEE: wasp})
    renamed = replace(old, class_names=tuple(wasp if n == BEE else n for n in old.class_names))
    in_use, _ = remember(asks, renamed, memory)
    assert digests(in_use, wasp) == digests(memory, BEE)
    assert BEE not in in_use.classes


def test_merged_classes_have_the_exemplars_of_both():
    old = samples(20, ANT, BEE, exemplars_as="features")
    memory = after_first(old)
    asks = order(asked(OF, ANT, CAT, DOG), CAT, DOG, stage=2, aliases={BEE: ANT})
    in_use, _ = remember(asks, replace(old, class_names=(ANT,) * 20), memory)
    assert digests(in_use, ANT) == digests(memory, ANT) | digests(memory, BEE)
    assert in_use.classes[ANT].features is not None
    assert in_use.classes[ANT].features.shape == (4, WIDTH)


def test_a_class_that_the_fleet_no_longer_has_is_forgotten():
    memory = after_first(samples(20, ANT, BEE))
    asks = order(asked(OF, BEE, CAT), CAT, stage=2)
    in_use, all_of_it = remember(asks, samples(20, ANT, BEE), memory)
    assert set(in_use.classes) == set(all_of_it.classes) == {BEE}


def test_a_cap_shrinks_all_classes_in_proportion():
    big, small = samples(100, ANT), samples(50, BEE, seed=3)
    memory = after_first(joined(big, small))
    counts = {name: len(item) for name, item in memory.classes.items()}
    assert counts == {ANT: 20, BEE: 10}
    cut = within_cap(memory.classes, 6)
    assert {name: len(item) for name, item in cut.items()} == {ANT: 4, BEE: 2}
    assert cut[ANT].digests == memory.classes[ANT].digests[:4]
    # a class that was cut before counts with what the ratio had asked for
    again = within_cap({**cut, CAT: Exemplars(memory.classes[ANT].digests, wanted=20)}, 10)
    assert {name: len(item) for name, item in again.items()} == {ANT: 4, BEE: 2, CAT: 4}


def test_old_classes_and_those_of_the_stage_have_a_cap_each():
    old, new = samples(100, ANT, BEE), samples(100, CAT, DOG, seed=1)
    memory = after_first(old, exemplar_cap=6)
    assert memory.stored == 6
    in_use, all_of_it = remember(SECOND, joined(old, new), memory, exemplar_cap=6)
    assert (in_use.stored, all_of_it.stored) == (6, 12)


def test_a_device_may_remember_nothing():
    for settings in ({"exemplar_ratio": 0}, {"exemplar_cap": 0}):
        in_use, all_of_it = remember(SECOND, samples(40, *EVERY), **settings)
        assert in_use.stored == all_of_it.stored == 0


@pytest.mark.parametrize("kind", ["images", "features"])
def test_what_is_written_is_read(kind):
    memory = after_first(samples(21, ANT, BEE, exemplars_as=kind))
    again = read_memory(memory.write(), WIDTH)
    assert again.stage == 1
    assert set(again.classes) == {ANT, BEE}
    for name, item in memory.classes.items():
        assert again.classes[name].digests == item.digests
        assert again.classes[name].wanted == item.wanted == 3 - (name == BEE)
        same = np.array_equal(again.classes[name].features, item.features)
        assert same if kind == "features" else again.classes[name].features is None
    assert again.write() == memory.write()


def test_before_the_first_round_nothing_is_known():
    assert read_memory(None, WIDTH).classes == {}
    empty = Memory(stage=3)
    again = read_memory(empty.write(), WIDTH)
    assert (again.stage, again.classes) == (3, {})


def test_a_memory_that_is_none_is_refused_in_words():
    good = after_first(samples(20, ANT, BEE, exemplars_as="features"))
    facts = {"stage": 1, "classes": [{"name": "ant", "count": 3, "wanted": 3}], "width": None}
    rows, met = np.zeros((3, 32), np.uint8), np.zeros((0, 12), np.uint8)
    for data, why in (
        (b"no memory at all", "memory"),
        (good.write()[:-1], "memory"),
        (
            encode_tensors({"met": met, "digests": rows[:2]}, facts),
            "2 exemplars, where its classes have 3",
        ),
        (encode_tensors({"met": met, "digests": rows[:, :31].copy()}, facts), "digests"),
        (encode_tensors({"met": met, "digests": rows}, facts | {"stage": 0}), "stage"),
        (encode_tensors({"met": met, "digests": rows}, facts | {"width": WIDTH}), "features"),
        (encode_tensors({"met": met, "digests": rows}, facts | {"strange": 1}), "strange"),
    ):
        with pytest.raises(MethodError, match=why):
            read_memory(data, WIDTH)
    with pytest.raises(MethodError, match="features"):
        read_memory(good.write(), WIDTH + 1)


def test_of_a_class_that_returns_new_samples_and_its_exemplars_are_trained():
    old, new = samples(20, ANT, BEE), samples(9, CAT, ANT, ANT, seed=1)
    data = joined(old, new)
    asks = order(asked(OF, ANT, BEE, CAT, rows=(ANT, BEE)), CAT, ANT, stage=2)
    first = after_first(old)
    in_use, after = remember(asks, data, first)
    assert {name: len(item) for name, item in in_use.classes.items()} == {ANT: 2, BEE: 2}
    assert digests(in_use, ANT) == digests(first, ANT)
    made = samples_of(asks, data, in_use)
    assert Counter(made.class_names) == {CAT: 3, ANT: 6 + 2, BEE: 2}
    assert made.old.tolist() == [0] * 9 + [1] * 4
    candidates = {d for d, name in zip(new.digests, new.class_names, strict=True) if name == ANT}
    assert digests(after, ANT) <= candidates | digests(first, ANT)
    assert len(after.classes[ANT]) == 2  # a fifth of eight
    again = remember(asks, data, after)[0]
    assert Counter(samples_of(asks, data, again).class_names)[ANT] == 6 + len(
        digests(after, ANT) & digests(first, ANT)
    )
    written = read_memory(after.write(), WIDTH)
    assert written.met == after.met
    assert written.met.stages((ANT, ANT), (old.digests[0], new.digests[1])) == [1, 2]
