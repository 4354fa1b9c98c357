"""The accuracy of a device is the model's on what the device itself holds."""

import numpy as np
import pytest

from fleetledger.simulator.metrics.stage_measurement import device_accuracy


def test_each_class_weighs_as_much_as_the_device_has_of_it():
    accuracy = device_accuracy(np.array([[30, 10], [0, 5]]), np.array([0.9, 0.5]))
    assert accuracy.tolist() == pytest.approx([0.75 * 0.9 + 0.25 * 0.5, 0.5])


def test_a_device_without_samples_has_no_accuracy():
    assert np.isnan(device_accuracy(np.array([[0, 0]]), np.array([0.9, 0.5])))


def test_classes_without_test_samples_are_left_out():
    accuracy = device_accuracy(np.array([[1, 1, 2], [0, 0, 7]]), np.array([1.0, 0.5, np.nan]))
    assert accuracy[0] == 0.75
    assert np.isnan(accuracy[1])


def test_it_is_the_accuracy_on_a_test_set_drawn_like_the_device():
    """Slow reference: repeat each class's test answers as often as the device has images of it."""
    random = np.random.default_rng(3)
    samples = random.integers(0, 9, (4, 6))
    answers = random.random((6, 50)) < 0.7
    ours = device_accuracy(samples, answers.mean(axis=1))
    for device in range(4):
        asked = np.concatenate([np.repeat(answers[c], samples[device, c]) for c in range(6)])
        assert ours[device] == pytest.approx(asked.mean())
