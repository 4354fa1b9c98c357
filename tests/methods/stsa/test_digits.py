"""Real handwriting: a fleet of ten devices, M = 1250, against float64 on the pooled samples."""

import numpy as np
import pytest

from fleetledger.methods.stsa.coordinator import COORDINATOR
from fleetledger.methods.stsa.head import RidgeHead
from fleetledger.methods.stsa.messages import StsaAssignment
from fleetledger.schemas.values import ClassName
from tests.methods.stsa.fleet import Samples, features_of, payloads, summed

DEVICES = 10
NAMES = tuple(ClassName(str(digit)) for digit in range(10))


@pytest.fixture(scope="module")
def split() -> tuple[np.ndarray, ...]:
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.model_selection import train_test_split

    digits = datasets.load_digits()
    pixels = (digits.data / 16).astype(np.float32)
    return train_test_split(
        pixels, digits.target, test_size=0.25, stratify=digits.target, random_state=0
    )


def fleet_head(told: StsaAssignment, samples: Samples) -> tuple[RidgeHead, list[int]]:
    order = np.argsort(samples.labels, kind="stable")
    parts = payloads(told, samples, np.array_split(order, DEVICES))
    return COORDINATOR.solve(told, summed(told, parts), NAMES), [len(part) for part in parts]


def pooled_accuracy(told, train: Samples, test: Samples) -> float:
    H = train.features.astype(np.float64)
    Y = np.array([[label == name for name in NAMES] for label in train.labels], np.float64)
    W = np.linalg.solve(H.T @ H + told.settings.ridge_value * np.eye(H.shape[1]), H.T @ Y)
    answers = (test.features.astype(np.float64) @ W).argmax(axis=1)
    return float(
        np.mean([NAMES[a] == label for a, label in zip(answers, test.labels, strict=True)])
    )


def accuracy(head: RidgeHead, test: Samples) -> float:
    pairs = zip(head.predict(test.features), test.labels, strict=True)
    return float(np.mean([answer == label for answer, label in pairs]))


def samples_of(told, split) -> tuple[Samples, Samples]:
    train_x, test_x, train_y, test_y = split
    return (
        Samples(features_of(told, train_x), [str(y) for y in train_y]),
        Samples(features_of(told, test_x), [str(y) for y in test_y]),
    )


def test_the_fleet_reads_digits_as_well_as_float64_on_all_of_them(split):
    accuracies = {}
    for form in ("exact", "compact"):
        told = COORDINATOR.assign({"form": form}, 64)
        train, test = samples_of(told, split)
        head, sizes = fleet_head(told, train)
        accuracies[form] = accuracy(head, test)
        pooled = pooled_accuracy(told, train, test)
        assert accuracies[form] >= 0.95
        assert abs(accuracies[form] - pooled) <= 0.005
        if form == "compact":
            assert max(sizes) <= 0.04 * 4 * (1250**2 + 1250 * 10)
    assert abs(accuracies["exact"] - accuracies["compact"]) <= 0.003


def test_the_gaussian_map_of_the_paper_works_too(split):
    told = COORDINATOR.assign(
        {"map": "gaussian", "form": "exact", "ridge": 1600.0, "map_width": 500}, 64
    )
    train, test = samples_of(told, split)
    head, _ = fleet_head(told, train)
    assert accuracy(head, test) >= 0.95
