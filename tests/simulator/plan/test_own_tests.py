"""Test parts of devices: drawn as their training data are, each sample on one device."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.plan.own_tests import deal_tests, so_far
from tests.simulator.plan.making import make_split, names, plan


def parts(sizes: list[int], tests: int, owners: int | None = None) -> Split:
    train = make_split(sizes, owners=owners).train
    labels = np.repeat(np.arange(len(sizes)), tests).astype(np.int64)
    owned = None if owners is None else np.arange(len(labels), dtype=np.int64) % owners
    images = np.zeros((len(labels), 1, 1), np.uint8)
    return Split(train, LabelledImages(images, labels, names(len(sizes)), owned))


@pytest.mark.parametrize("name", ["classes", "repetition", "own-orders"])
def test_a_device_has_of_each_class_the_share_that_it_learns(name: str) -> None:
    split = parts([200] * 4, 100)
    stages = {"plan": name, "count": 2}
    made = plan(split, stages=stages, devices={"count": 3, "partition": {"beta": 0.3}})
    own = so_far(deal_tests(made, split, by_owner=False), 2)
    together = np.concatenate(list(own.values()))
    assert sorted(together.tolist()) == list(range(400))  # each on one device
    for device in made.devices:
        held = np.concatenate([s.devices[device].indices for s in made.stages])
        learned = np.bincount(split.train.labels[held], minlength=4)
        asked = np.bincount(split.test.labels[own.get(device, together[:0])], minlength=4)
        assert np.abs(asked - learned / 2).max() <= 2  # rounded once for each stage


def test_test_samples_come_with_the_stages_of_the_training_samples() -> None:
    split = parts([40] * 4, 20)
    made = plan(split, stages={"count": 2, "order": "as-is"}, devices={"count": 2})
    own = deal_tests(made, split, by_owner=False)
    for stage, part in zip(made.stages, own, strict=True):
        labels = split.test.labels[np.concatenate(list(part.values()))]
        assert {*labels.tolist()} == {*stage.classes}
    assert {d: len(i) for d, i in so_far(own, 2).items()} == {
        device: len(own[0][device]) + len(own[1][device]) for device in made.devices
    }


def test_owners_are_asked_about_what_is_theirs() -> None:
    split = parts([40] * 2, 20, owners=4)
    made = plan(split, stages={"count": 1}, devices={"count": 3, "partition": {"rule": "owner"}})
    own = so_far(deal_tests(made, split, by_owner=True), 1)
    assert {device: {*split.test.owners[indices].tolist()} for device, indices in own.items()} == {
        f"device-{number + 1}": {number} for number in range(3)
    }
