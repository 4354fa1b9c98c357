"""Made-up pictures: as many and as large as asked, the same again, told apart by their pattern."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.simulator.datasets.loading import DataSettings, load_split
from fleetledger.simulator.datasets.patterns import PatternSettings, split_patterns

FEW = PatternSettings(classes=3, train=4, test=2, height=10, width=12, owners=2)


def test_there_are_so_many_of_each_class_of_the_size_that_is_asked_for():
    split = split_patterns(FEW, seed=1)
    assert split.train.images.shape == (12, 10, 12, 3)
    assert split.test.images.shape == (6, 10, 12, 3)
    assert split.train.counts() == {"pattern 1": 4, "pattern 2": 4, "pattern 3": 4}
    assert split.train.owners is not None
    assert np.bincount(split.train.owners).tolist() == [6, 6]


def test_grey_ones_have_no_channels_and_none_need_have_an_owner():
    grey = split_patterns(FEW.model_copy(update={"channels": 1, "owners": 0}), seed=1)
    assert grey.test.images.shape == (6, 10, 12)
    assert grey.test.owners is None


def test_a_seed_gives_the_same_again_and_another_seed_other_pictures():
    first, again, other = (split_patterns(FEW, seed) for seed in (1, 1, 2))
    assert first.train.fingerprint == again.train.fingerprint
    assert first.train.fingerprint != other.train.fingerprint


def test_no_test_picture_is_a_training_picture_and_all_are_different():
    split = split_patterns(FEW, seed=1)
    train = {split.train.digest(index) for index in range(len(split.train))}
    test = {split.test.digest(index) for index in range(len(split.test))}
    assert len(train) + len(test) == 18
    assert not train & test


@pytest.mark.parametrize("seed", [0, 7])
def test_the_nearest_mean_tells_the_classes_apart_however_light_a_picture_is(seed: int):
    split = split_patterns(PatternSettings(classes=6, train=5, test=5), seed)
    learned, asked = (
        part.images.reshape(30, -1).astype(float) for part in (split.train, split.test)
    )
    learned -= learned.mean(axis=1, keepdims=True)
    asked -= asked.mean(axis=1, keepdims=True)
    means = np.stack([learned[split.train.labels == label].mean(axis=0) for label in range(6)])
    nearest = ((asked[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == split.test.labels).all()


def test_a_scenario_names_them_like_any_other_data_set():
    data = DataSettings(set="patterns", patterns=FEW, per_class=3)
    assert len(load_split(data, seed=1).train) == 9
