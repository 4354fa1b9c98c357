"""A fleet that learns features in stages, every device in one form; in one process, no network."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.travelling import travelling_bytes
from fleetledger.learning.numerics.integer_features import project_integer, quantise_features
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.coordinator import COORDINATOR, frozen_map
from fleetledger.methods.stsa.device import DEVICE
from fleetledger.methods.stsa.messages import StsaAssignment
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.plan.partitions import PartitionSettings, partition_by_dirichlet

Features = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Data:
    """Backbone features (n x d) with classes (n,) from 0, to learn from and to test with."""

    name: str
    train_f: Features
    train_y: Integers
    test_f: Features
    test_y: Integers

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.train_y.max()) + 1


@dataclass(frozen=True)
class Fleet:
    """Devices, stages of equal size, and the skew of the classes over devices."""

    devices: int
    stages: int
    beta: float
    seed: int = 0


@dataclass(frozen=True)
class Deal:
    """Samples of one device in one stage, by index, and the seed of its groups."""

    stage: int
    rows: Integers
    context: PartContext


def deal(data: Data, fleet: Fleet) -> list[Deal]:
    """Share every stage out anew, as in the paper's protocol; classes in a random order."""
    order = np.random.default_rng(fleet.seed).permutation(data.classes)
    dealt = []
    for stage, classes in enumerate(np.array_split(order, fleet.stages), start=1):
        rows = np.flatnonzero(np.isin(data.train_y, classes))
        random = np.random.default_rng(1000 * fleet.seed + stage)
        skew = PartitionSettings(beta=fleet.beta)
        parts = partition_by_dirichlet(data.train_y[rows], fleet.devices, skew, random)
        for device, part in enumerate(parts):
            name = f"device-{device}/{stage}".encode()
            dealt.append(Deal(stage, rows[part], PartContext(name, secret=name)))
    return dealt


def run(
    data: Data, fleet: Fleet, settings: Mapping[str, Any], heads: Sequence[str]
) -> dict[str, Any]:
    """Let the fleet learn all stages; return bytes per device, times, and accuracies.

    `heads` are the kinds of head that are solved and measured.
    """
    told = COORDINATOR.assign(settings, data.train_f.shape[1])
    h, test = features(told, data.train_f), features(told, data.test_f)
    total, sent, held, seconds = StsaAggregate.empty(told), 0, 0, 0.0
    for given in deal(data, fleet):
        rows = enough(given.rows, data.train_y, told.settings.min_samples_per_class)
        held += len(given.rows) - len(rows)
        if not len(rows):
            continue
        labels = [name_of(label) for label in data.train_y[rows]]
        began = time.perf_counter()
        payload = DEVICE.finish(told, h[rows], labels, given.context).payload
        seconds += time.perf_counter() - began
        sent += travelling_bytes(payload)
        total = total + StsaAggregate.of(told, COORDINATOR.check(told, payload), given.stage)
    began = time.perf_counter()
    accuracy = {kind: round(measure(told, total, test, data.test_y, kind), 2) for kind in heads}
    return {
        "bytes_per_device": round(sent / fleet.devices),
        "held_back": held,
        "finish_ms": round(1e3 * seconds / (fleet.devices * fleet.stages), 1),
        "solve_s": round((time.perf_counter() - began) / len(heads), 2),
        "accuracy": accuracy,
    }


def features(told: StsaAssignment, backbone: Features) -> npt.NDArray[Any]:
    """Return what the frozen model would put out: h (n x M)."""
    matrix = frozen_map(told)
    if not told.integer:
        assert matrix is not None
        return np.maximum(backbone @ matrix, 0)
    quantised = quantise_features(backbone)
    if matrix is None:
        return quantised
    return project_integer(quantised, matrix.astype(np.int8), told.settings.feature_bits)


def enough(rows: Integers, classes: Integers, least: int) -> Integers:
    """Leave out samples of classes of which a device has too few, as the agent does."""
    numbers = np.bincount(classes[rows])
    return rows[numbers[classes[rows]] >= least]


def measure(
    told: StsaAssignment, total: StsaAggregate, test: npt.NDArray[Any], answers: Integers, kind: str
) -> float:
    """Return the accuracy in % of a kind of head over all classes."""
    names = sorted(total.classes)
    asked = told.model_copy(update={"settings": told.settings.model_copy(update={"head": kind})})
    predicted = COORDINATOR.solve(asked, total, names).predict(test)
    return 100 * float(np.mean([p == name_of(y) for p, y in zip(predicted, answers, strict=True)]))


def name_of(label: np.int64) -> ClassName:
    """Return the name of a class."""
    return ClassName(f"class {label:03d}")
