"""False alarms and delays of the sequential rule on films, as an agent sees them.

    python -m benchmarks.papers.detection.films films.npz [--devices 12] [--draw 0]

`films.npz` is what `benchmarks.papers.detection.film_features` writes. Heads are solved for 10, 50
and 90 classes by the settings of preset `best`, without inner layers; a device has six of every
ten. It has 200 held-out images of its classes, sees a stream five frames at a time as an agent does
that looks every five seconds, and reports by its own detector.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import RESULTS_FOLDER
from benchmarks.papers.detection.run import solved_head
from benchmarks.papers.detection.sequences import wilson
from benchmarks.papers.detection.streams import (
    QUIET_STREAMS,
    Pool,
    Stream,
    half_new_films,
    half_new_singles,
)
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.learning.numerics.detection import (
    DetectionRules,
    Detector,
    ScoringHead,
    observe,
    relative_entropy,
    seeded,
    softmax,
)
from fleetledger.learning.numerics.integer_features import quantise_features
from fleetledger.learning.numerics.shots import projected
from fleetledger.methods.stsa.settings import StsaSettings

RESULTS = RESULTS_FOLDER / "detection_films.json"
KNOWN = (10, 50, 90)
QUIET_IMAGES = (1_000, 10_000)
TOGETHER = 5
HELD_OUT = 200
SCALE = 10.0
Floats = npt.NDArray[np.float64]
Features = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Values:
    """What the detector of a head goes by: a value and projections of each frame of each part."""

    doubts: Mapping[str, Floats]
    """(images, frames) of a part."""
    accuracy: float
    """Share of held-out images of known classes that the head is right about."""


def values_of(features: Features, order: npt.NDArray[np.int64], known: int) -> Values:
    """Solve a head of the first `known` classes of an order, and measure all frames with it."""
    chosen = order[:known]
    learned, labels = quantise_features(features["learned"][:, 0]), features["learned_labels"]
    rows = [learned[labels == c].astype(np.float64) for c in chosen]
    gram = sum(part.T @ part for part in rows)
    sums = np.stack([part.sum(axis=0) for part in rows], axis=1)
    own, novelty = solved_head(
        gram, sums, np.array(list(map(len, rows))), StsaSettings.model_validate({"preset": "best"})
    )
    assert novelty is not None
    doubts, right = {}, 0.0
    for part in ("held_out", "filmed", "darkened", "camvid"):
        if part not in features:
            continue
        shape = features[part].shape[:-1]
        scores = quantise_features(features[part].reshape(-1, features[part].shape[-1])) @ own
        doubts[part] = novelty.of_scores(scores).reshape(shape)
        if part == "camvid":
            entropy = relative_entropy(softmax(scores, SCALE))
            doubts["camvid, entropy"] = np.asarray(entropy, np.float64)
        if part == "held_out":
            mine = np.isin(features["held_out_labels"], chosen)
            called = chosen[scores[mine].argmax(axis=1)]
            right = float((called == features["held_out_labels"][mine]).mean())
    return Values(doubts, right)


class Camera:
    """A device: its detector, and what it knows at first."""

    def __init__(
        self, name: str, quiet_images: int, values: Floats, projections: npt.NDArray[np.float32]
    ) -> None:
        self._rules = DetectionRules(quiet_images=quiet_images, device=name)
        self._head = ScoringHead(("a", "b"), SCALE, "model", "novelty", "backbone")
        self._detector = seeded(Detector(), values.tolist(), self._head, self._rules, projections)

    def alarms(self, values: Floats, projections: npt.NDArray[np.float32]) -> list[int]:
        """Show a stream; return after how many frames each report came."""
        found = []
        for first in range(0, len(values), TOGETHER):
            some = slice(first, first + TOGETHER)
            self._detector, measured = observe(
                self._detector,
                values[some].tolist(),
                self._head,
                self._rules,
                projections[some],
            )
            found += [min(first + TOGETHER, len(values))] * any(m.transition for m in measured)
        return found


@dataclass
class Rate:
    """False alarms over quiet frames."""

    alarms: int = 0
    images: int = 0
    shots: int = 0

    def row(self) -> dict[str, Any]:
        """Return the rate in 1,000, with its 95 % interval as of a Poisson number."""
        low, high = poisson(self.alarms)
        per = 1000 / self.images
        return {
            "images": self.images,
            "things": self.shots,
            "alarms": self.alarms,
            "per_1000": round(self.alarms * per, 2),
            "interval": [round(low * per, 2), round(high * per, 2)],
        }


def poisson(count: int) -> tuple[float, float]:
    """Return about the 95 % interval of the mean of a Poisson number (Wilson and Hilferty)."""
    low = count * (1 - 1 / (9 * count) - 1.96 / (3 * count**0.5)) ** 3 if count else 0.0
    high = (count + 1) * (1 - 1 / (9 * (count + 1)) + 1.96 / (3 * (count + 1) ** 0.5)) ** 3
    return low, high


def pool_of(
    features: Features,
    values: Values,
    own: npt.NDArray[np.int64],
    new: npt.NDArray[np.int64],
    chance: np.random.Generator,
) -> Pool:
    """Return the images of a device's classes, in an order of chance."""
    labels, dark = features["filmed_labels"], features["darkened_labels"]
    return Pool(
        labels,
        values.doubts["filmed"][:, 0],
        chance.permutation(np.flatnonzero(np.isin(labels, own))),
        chance.permutation(np.flatnonzero(np.isin(labels, new))),
        chance.permutation(np.flatnonzero(np.isin(dark, own))),
        dark,
        features["darkened_light"],
        features["filmed"].shape[1],
        features["darkened"].shape[1],
    )


def study(
    features: Features, seen: Features, known: int, devices: int, draw: int
) -> dict[str, Any]:
    """Return what comes of devices with heads of `known` classes; four share a head."""
    rates = {(kind, quiet): Rate() for kind in QUIET_STREAMS for quiet in QUIET_IMAGES}
    singles: list[int] = []
    films: dict[int, list[tuple[int, int]]] = {quiet: [] for quiet in QUIET_IMAGES}
    accuracies = []
    for number in range(devices):
        head = draw * 100 + number // 4
        order = np.random.default_rng(head).permutation(100)
        if number % 4 == 0:
            values = values_of(features, order, known)
            accuracies.append(values.accuracy)
        chance = np.random.default_rng([head, number, known])
        tens = order[:known].reshape(-1, 10)
        own = np.concatenate([chance.choice(ten, 6, replace=False) for ten in tens])
        new = chance.choice(order[known : known + 10], 6, replace=False)
        pool = pool_of(features, values, own, new, chance)
        held = chance.permutation(np.flatnonzero(np.isin(features["held_out_labels"], own)))
        held = held[:HELD_OUT]

        def camera(quiet: int, name: str) -> Camera:
            return Camera(
                name,
                quiet,
                values.doubts["held_out"][held, 0],  # noqa: B023
                seen["held_out"][held, 0],  # noqa: B023
            )

        def alarms(stream: Stream, quiet: int, name: str) -> list[int]:
            at = (stream.images, stream.frames)
            return camera(quiet, name).alarms(
                values.doubts[stream.part][at],  # noqa: B023
                seen[stream.part][at],
            )

        for kind, make in QUIET_STREAMS.items():
            stream = make(pool, chance)
            for quiet in QUIET_IMAGES:
                rate = rates[kind, quiet]
                rate.alarms += len(alarms(stream, quiet, f"{draw}-{number}-{kind}"))
                rate.images += len(stream.images)
                rate.shots += int(stream.things[-1]) + 1
        stream = half_new_singles(pool, chance)
        singles.append(_delay(stream, alarms(stream, QUIET_IMAGES[0], f"{draw}-{number}"))[0])
        stream = half_new_films(pool, chance)
        for quiet in QUIET_IMAGES:
            films[quiet].append(_delay(stream, alarms(stream, quiet, f"{draw}-{number}")))
    return {
        "known": known,
        "devices": devices,
        "draw": draw,
        "accuracy": round(float(np.mean(accuracies)), 3),
        "false_alarms": [
            {"stream": kind, "quiet_images": quiet, **rate.row()}
            for (kind, quiet), rate in rates.items()
        ],
        "half_new_singles": {"within_200_images": _share(singles, 200), "delays": singles},
        "half_new_films": [
            {
                "quiet_images": quiet,
                "within_60_things": _share([things for _, things in found], 60),
                "within_130_things": _share([things for _, things in found], 130),
                "delays": found,
            }
            for quiet, found in films.items()
        ],
    }


NEVER = 10**6


def _delay(stream: Stream, alarms: Sequence[int]) -> tuple[int, int]:
    """Return after how many frames and things the first report after the change came."""
    assert stream.change is not None
    first = next((alarm for alarm in alarms if alarm > stream.change), None)
    if first is None:
        return NEVER, NEVER
    things = int(stream.things[first - 1] - stream.things[stream.change]) + 1
    return first - stream.change, things


def _share(delays: Sequence[int], limit: int) -> dict[str, Any]:
    noticed = sum(delay <= limit for delay in delays)
    low, high = wilson(noticed, len(delays))
    middle = int(sorted(delays)[len(delays) // 2])
    return {
        "noticed": noticed,
        "of": len(delays),
        "interval": [round(low, 2), round(high, 2)],
        "median": None if middle == NEVER else middle,
    }


def drives(features: Features, seen: Features) -> list[dict[str, Any]]:
    """Return false alarms over CamVid's films in their order, by six values of each frame.

    Every third frame is held out, or the first third: no frame shows a class of CIFAR-100's heads,
    so that what is usual is the film's own.
    """
    rates = {quiet: Rate() for quiet in QUIET_IMAGES}
    frames = len(seen["camvid"])
    for known in KNOWN:
        for head in range(2):
            values = values_of(features, np.random.default_rng(head).permutation(100), known)
            for part in ("camvid", "camvid, entropy"):
                for held in (np.arange(frames) % 3 == 0, np.arange(frames) < frames // 3):
                    for quiet, rate in rates.items():
                        doubts = values.doubts[part].reshape(-1)
                        name = f"{known}-{head}-{part}-{held[-1]}"
                        camera = Camera(name, quiet, doubts[held], seen["camvid"][held])
                        rate.alarms += len(camera.alarms(doubts[~held], seen["camvid"][~held]))
                        rate.images += int((~held).sum())
    return [{"quiet_images": quiet, **rate.row()} for quiet, rate in rates.items()]


def main() -> int:
    """Run the study, or one part of it, write the results and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("features", type=Path)
    parser.add_argument("--devices", type=int, default=12)
    parser.add_argument("--draw", type=int, default=0, help="number of the draw of heads")
    parser.add_argument("--known", type=int, nargs="*", default=list(KNOWN))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    with np.load(options.features) as data:
        features = {
            name: rows.astype(np.float32) if rows.dtype == np.float16 else rows
            for name, rows in data.items()
        }
    seen = {
        part: projected(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:-1], -1)
        for part, rows in features.items()
        if rows.dtype == np.float32
    }
    report = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    report["machine"] = platform_fingerprint()
    report["python"], report["numpy"] = platform.python_version(), version("numpy")
    report.setdefault("studies", {})
    for known in options.known:
        found = study(features, seen, known, options.devices, options.draw)
        report["studies"][f"{known} classes, draw {options.draw}"] = found
        print(json.dumps(found), flush=True)
    if not options.known:
        report["camvid"] = drives(features, seen)
        print(json.dumps(report["camvid"]))
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
