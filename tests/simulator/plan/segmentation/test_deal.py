"""What a device gets of a task, against FBL's shares."""

import numpy as np
import pytest

from fleetledger.simulator.datasets.labels import samples_of
from fleetledger.simulator.plan.partitions import PartitionSettings, partition_by_class_share

PRESENCE = (np.random.default_rng(0).random((500, 12)) < 0.15).astype(np.int64)


def deal(labels, class_share: float, image_share: float, seed: int = 0, devices: int = 30):
    settings = PartitionSettings(
        rule="class-share", class_share=class_share, image_share=image_share
    )
    pool, random = samples_of(PRESENCE, labels), np.random.default_rng(seed)
    shown = PRESENCE[np.ix_(pool, labels)]
    return [pool[part] for part in partition_by_class_share(shown, devices, settings, random)]


def test_with_all_classes_a_device_gets_its_share_of_the_tasks_pictures():
    """FBL's 15-1: 40 % of the pictures of the task."""
    pictures = samples_of(PRESENCE, (4,))
    for part in deal((4,), 1.0, 0.4):
        assert len(part) == int(0.4 * len(pictures))
        assert set(part) <= set(pictures)
        assert (np.diff(part) > 0).all()


def test_a_device_draws_classes_and_a_share_of_the_pictures_with_any_of_them():
    """FBL's 4-4: 2 of 4 classes, 60 % of the pictures with them."""
    labels = (2, 5, 7, 11)
    pairs = [(a, b) for a in labels for b in labels if a < b]
    chosen = set()
    for part in deal(labels, 0.5, 0.6):
        fitting = [
            pair
            for pair in pairs
            if set(part) <= set(samples_of(PRESENCE, pair))
            and len(part) == int(0.6 * len(samples_of(PRESENCE, pair)))
        ]
        assert len(fitting) == 1
        chosen.update(fitting)
    assert len(chosen) >= 5


def test_shares_never_round_down_to_nothing():
    for part in deal((3,), 0.5, 0.001):
        assert len(part) == 1
        assert PRESENCE[part[0], 3]


def test_devices_draw_for_themselves():
    parts = deal(tuple(range(12)), 0.5, 0.6, devices=2)
    assert set(parts[0]) & set(parts[1])
    assert set(parts[0]) != set(parts[1])


def test_seventy_percent_of_ten_classes_are_seven():
    """A float's 0.7 of 10 is below 7; the share is taken as it is written."""
    presence = np.eye(10, dtype=np.int64)
    settings = PartitionSettings(rule="class-share", class_share=0.7, image_share=1.0)
    for part in partition_by_class_share(presence, 5, settings, np.random.default_rng(0)):
        assert len(part) == 7


@pytest.mark.parametrize("image_share", [0.4, 1.0])
def test_the_same_stream_deals_the_same(image_share: float):
    one, again, other = (deal((1, 2), 0.5, image_share, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))
