"""Devices that draw their classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.simulator.plan.partitions import PartitionSettings, partition_by_class_share
from tests.simulator.plan.partitions.making import (
    assert_ascending,
    counts,
    make_labels,
    stream,
)


def deal(labels: np.ndarray, devices: int, seed: int = 0, **shares) -> list:
    asked = PartitionSettings(rule="class-share", **shares)
    return partition_by_class_share(labels, devices, asked, stream(seed))


@pytest.mark.parametrize(
    ("classes", "share", "held"),
    [
        (20, 0.6, 12),
        (10, 0.6, 6),
        (5, 0.6, 3),
        (200, 0.7, 140),
        (4, 0.5, 2),
        (1, 0.4, 1),
        (2, 0.4, 1),
    ],
)
def test_every_device_holds_the_papers_number_of_classes_with_all_images(classes, share, held):
    labels = make_labels([6] * classes)
    numbers = counts(labels, deal(labels, 30, class_share=share))
    assert set(np.unique(numbers)) <= {0, 6}
    assert ((numbers > 0).sum(axis=1) == held).all()


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    devices=st.integers(1, 9),
    class_share=st.sampled_from([0.2, 0.5, 0.6, 1.0]),
    image_share=st.sampled_from([0.1, 0.4, 0.6, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_a_device_holds_its_share_of_every_class_it_drew(
    sizes, devices, class_share, image_share, seed
):
    labels = make_labels(sizes)
    parts = deal(labels, devices, seed, class_share=class_share, image_share=image_share)
    assert_ascending(parts)
    for numbers in counts(labels, parts):
        drawn = np.flatnonzero(numbers)
        assert len(drawn) == max(1, int(round(1e6 * class_share) * len(sizes) // 1e6))
        for label in drawn:
            assert numbers[label] == max(1, int(round(1e6 * image_share) * sizes[label] // 1e6))


def test_every_class_is_drawn_equally_often_and_devices_draw_for_themselves():
    labels = make_labels([1] * 10)
    numbers = counts(labels, deal(labels, 3000))
    assert np.abs(numbers.mean(axis=0) - 0.6).max() < 0.04
    both = (numbers[:-1] * numbers[1:]).mean()
    assert both == pytest.approx(0.36, abs=0.02)


def test_devices_choose_different_images_of_a_class():
    labels = make_labels([100])
    first, second = deal(labels, 2, image_share=0.4)
    assert not np.array_equal(first, second)


def test_a_class_that_nobody_drew_is_left_out():
    labels = make_labels([5, 5, 5, 5])
    assert counts(labels, deal(labels, 1, class_share=0.5)).sum() == 10
