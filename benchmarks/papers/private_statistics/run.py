"""Accuracy against epsilon of statistics with noise, and from which fleet on it costs 2 points.

    python -m benchmarks.papers.private_statistics.run               # digits, 3 minutes
    python -m benchmarks.papers.private_statistics.run features.npz  # a file, as in stsa_forms

Features, clipping, deviations of noise and the head are the product's. The noise of many devices is
drawn at once: its sum is a normal draw with the root of their number, rounded, but for less than
one in the square of the deviation. `--payloads` makes the digits' parts one by one instead, with
noise by OpenDP, and checks and adds them as a coordinator does. Larger fleets than there are images
for hold each image several times; that scales sums and noise as other images would.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.papers.stsa_forms.fleet import Data
from benchmarks.papers.stsa_forms.run import digits, read
from fleetledger.learning.numerics.integer_features import project_integer, quantise_features
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.learning.privacy.accounting import multiplier_for
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.statistics.private_moments import MomentNoise, clipped, denoised
from fleetledger.methods.stsa.coordinator import COORDINATOR, frozen_map
from fleetledger.methods.stsa.device import DEVICE
from fleetledger.schemas.privacy import Noise
from fleetledger.schemas.values import ClassName

RESULTS = RESULTS_FOLDER / "private_statistics.json"
DELTA = 1e-5
EPSILONS = (1.0, 3.0, 8.0)
FLEETS = (10, 100, 1_000, 10_000, 100_000)
"""Devices."""
IMAGES = (40, 200, 1_000)
"""Of a device."""
PLACES = {"local": 1, "masks": 4, "fleet": 1 << 40}
"""Devices that share one noise: none; members of a cohort, by `sharers = 4`; or all of the fleet,
which is what a coordinator that is trusted could do."""
MOST = 1 << 24
"""Devices beyond which no fleet is looked for."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sums:
    """Clipped features behind the map, and their sums."""

    name: str
    images: int
    columns: int
    gram: Floats
    sums: Floats
    test: Floats
    test_labels: npt.NDArray[np.int64]
    ridge: float
    plain: float
    """Accuracy without clipping and noise."""

    @classmethod
    def of(cls, data: Data, columns: int) -> Sums:
        """Return those of a data set."""
        told: Any = _told(data, columns)
        matrix = frozen_map(told)
        assert matrix is not None
        train, test = (
            project_integer(quantise_features(rows), matrix.astype(np.int8), 7).astype(np.float64)
            for rows in (data.train_f, data.test_f)
        )
        member, ridge = np.eye(data.classes)[data.train_y], told.settings.ridge_value
        raw = solve_ridge(train.T @ train, train.T @ member, ridge)
        h = clipped(train, _noise(1.0, "image", 1, columns).squared_length).astype(np.float64)
        right = float((np.argmax(test @ raw, axis=1) == data.test_y).mean())
        return cls(
            data.name,
            len(h),
            columns,
            h.T @ h,
            h.T @ member,
            test,
            data.test_y,
            ridge,
            right,
        )

    def accuracy(self, images: int, noises: float, noise: MomentNoise, draws: int) -> float:
        """Return the mean accuracy of `draws` heads from so many images and added noises."""
        return float(np.mean([self._once(images, noises, noise, seed) for seed in range(draws)]))

    def _once(self, images: int, noises: float, noise: MomentNoise, seed: int) -> float:
        rng, root = np.random.default_rng([seed, images]), np.sqrt(noises)
        half = np.triu(rng.normal(size=self.gram.shape), 1) * noise.gram / np.sqrt(2)
        on_gram = half + half.T + np.diag(rng.normal(size=len(half)) * noise.gram)
        on_sums = rng.normal(size=self.sums.shape) * noise.sums
        scale = images / self.images
        gram = denoised(scale * self.gram + np.rint(root * on_gram))
        weights = solve_ridge(gram, scale * self.sums + np.rint(root * on_sums), self.ridge)
        return float((np.argmax(self.test @ weights, axis=1) == self.test_labels).mean())


def _told(data: Data, columns: int, noise: Noise | None = None) -> Any:  # noqa: ANN401
    settings = {"map_width": columns, "form": "exact"}
    return COORDINATOR.assign(settings, data.train_f.shape[1], noise)


def _noise(epsilon: float, protects: Any, most: int, columns: int) -> MomentNoise:  # noqa: ANN401
    multiplier = multiplier_for(epsilon, DELTA)
    noise = Noise(protects=protects, epsilon=epsilon, delta=DELTA, multiplier=multiplier)
    return MomentNoise.of(noise, columns, most)


def of_fleets(sums: Sums, draws: int) -> Iterator[dict[str, Any]]:
    """Yield accuracies by level, place of the noise, epsilon, devices and images of each."""
    for epsilon in EPSILONS:
        for where, of in PLACES.items():
            for devices in FLEETS:
                for level, images in (*(("image", each) for each in IMAGES), ("device", 200)):
                    noise = _noise(epsilon, level, images, sums.columns)
                    noises = max(1.0, devices / of)
                    right = sums.accuracy(devices * images, noises, noise, draws)
                    yield {
                        "protects": level,
                        "where": where,
                        "epsilon": epsilon,
                        "devices": devices,
                        "images": images,
                        "accuracy": right,
                    }


def pooled(sums: Sums, draws: int) -> Iterator[dict[str, Any]]:
    """Yield accuracies with one noise on the sum of all images, and several times as many."""
    for epsilon in EPSILONS:
        noise = _noise(epsilon, "image", 1, sums.columns)
        for images in (sums.images, 20_000, 200_000):
            right = sums.accuracy(images, 1.0, noise, draws)
            yield {"epsilon": epsilon, "images": images, "accuracy": right}


def least_fleets(sums: Sums, draws: int, points: float = 2.0) -> Iterator[dict[str, Any]]:
    """Yield the least fleet, as a power of two, with which noise costs less than so many points."""
    for epsilon in EPSILONS:
        for where, of in PLACES.items():
            for level, images in (*(("image", each) for each in IMAGES), ("device", 200)):
                noise = _noise(epsilon, level, images, sums.columns)
                devices = 1
                while devices <= MOST:
                    right = sums.accuracy(
                        devices * images, max(1.0, devices / of), noise, min(draws, 2)
                    )
                    if right > sums.plain - points / 100:
                        break
                    devices *= 2
                yield {
                    "protects": level,
                    "where": where,
                    "epsilon": epsilon,
                    "images": images,
                    "devices": devices if devices <= MOST else None,
                }


def by_payloads(data: Data, columns: int, devices: int, epsilons: Sequence[float]) -> list[Any]:
    """Return accuracies of parts that are made, checked and added one by one."""
    names = tuple(ClassName(f"class-{index}") for index in range(data.classes))
    place, found = np.random.default_rng(0).permutation(len(data.train_y)) % devices, []
    for epsilon in epsilons:
        noise = Noise(
            protects="image",
            epsilon=epsilon,
            delta=DELTA,
            multiplier=multiplier_for(epsilon, DELTA),
        )
        told: Any = _told(data, columns, noise)
        matrix = frozen_map(told)
        assert matrix is not None
        h, test = (
            project_integer(quantise_features(rows), matrix.astype(np.int8), 7)
            for rows in (data.train_f, data.test_f)
        )
        total = COORDINATOR.aggregate_type.empty(told)
        for device in range(devices):
            own = place == device
            labels = [str(names[index]) for index in data.train_y[own]]
            made = DEVICE.finish(told, h[own], labels, PartContext(class_names=names))
            checked = COORDINATOR.check(told, made.payload)
            total = total + COORDINATOR.aggregate_type.of(told, checked, 1)
        head = COORDINATOR.solve(told, total, names)
        right = np.argmax(test.astype(np.float64) @ head.weights.T, axis=1) == data.test_y
        found.append({"epsilon": epsilon, "devices": devices, "accuracy": float(right.mean())})
    return found


def study(data: Data, columns: Sequence[int], draws: int) -> dict[str, Any]:
    """Return everything of one data set, and print it."""
    found: dict[str, Any] = {"images": len(data.train_y), "classes": data.classes, "widths": {}}
    for width in columns:
        sums = Sums.of(data, width)
        one: dict[str, Any] = {"plain": sums.plain}
        print(data.name, width, "without noise", round(100 * sums.plain, 1), flush=True)
        for name, rows in (("pooled", pooled), ("fleets", of_fleets), ("least", least_fleets)):
            if name != "pooled" and width != columns[-1]:
                continue
            one[name] = list(rows(sums, draws))
            for row in one[name]:
                print("  ", name, row, flush=True)
        found["widths"][str(width)] = one
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("features", type=Path, nargs="?")
    parser.add_argument("--columns", type=int, nargs="+", default=[128, 600, 300])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--payloads", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    stored = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    result = {"claim": "private_statistics", "delta": DELTA, "sets": {}, **stored}
    result["machine"] = describe_machine("numpy")
    if options.payloads:
        data = replace(digits(), name="digits")
        result["payloads"] = by_payloads(data, options.columns[-1], 10, EPSILONS)
        print(result["payloads"])
    else:
        for data in (digits() if options.features is None else read(options.features),):
            result["sets"][data.name] = study(data, options.columns, options.draws)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
