"""Count misses and false alarms of detection over a fleet that learns in stages.

A head is solved after every stage from the features to learn from. Every device then sees quiet
batches of held-out images of the classes that it has, and then batches in which a share of the
images shows classes of the next stage. A transition in a quiet batch is a false alarm; a change
without a transition in any of its batches is a miss.

Give the features as an `.npz` with `features` (n x d, float32) and `labels` (n, integers):

    python -m benchmarks.papers.detection.run features.npz
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import RESULTS_FOLDER
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.learning.numerics.calibration import best_scale, summed_losses
from fleetledger.learning.numerics.detection import (
    DetectionRules,
    Detector,
    ScoringHead,
    observe,
    seeded,
    uncertainty,
)
from fleetledger.learning.numerics.integer_features import project_integer, quantise_features
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.methods.statistics.linear_head import whitened_weights
from fleetledger.methods.stsa.coordinator import COORDINATOR, frozen_map
from fleetledger.methods.stsa.settings import StsaSettings

RESULTS = RESULTS_FOLDER / "detection.json"
DEFAULT_SCALE = 10.0
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """The fleet, its stages, and what each device sees."""

    devices: int = 20
    stages: int = 10
    per_stage: int = 10
    """Classes of a stage."""
    owned: float = 0.6
    """Share of a stage's classes that a device has."""
    learned_share: float = 0.4
    """Share of the features that heads are solved from; the rest are held out."""
    quiet: int = 6
    """Quiet batches of a stage."""
    changed: int = 2
    """Batches with new classes before the head knows them."""
    share: float = 0.5
    """Share of new classes in them."""
    seeds: int = 200
    """Held-out images of all known classes that a seeded detector begins a head with."""
    map_width: int = 1250
    seed: int = 1


@dataclass(frozen=True)
class Side:
    """One detector: its rules, whether the head's scale is fitted, whether held-out images seed."""

    name: str
    rules: DetectionRules
    fitted: bool = True
    seeded: bool = False


BATCHES = DetectionRules(mode="baseline")
RESTRICT = DetectionRules(mode="baseline", growth="restrict")
CODE = DetectionRules(mode="fixed-rise")
CODE_SMALL = DetectionRules(mode="fixed-rise", rise_nats=0.6)
SIDES = (
    Side("baseline, restart, seeded", BATCHES, seeded=True),
    Side("baseline, restart", BATCHES),
    Side("baseline, restart, scale 10", BATCHES, fitted=False),
    Side("baseline, restrict", RESTRICT),
    Side("baseline, restrict, scale 10", RESTRICT, fitted=False),
    Side("code, 1.2 nats", CODE),
    Side("code, 1.2 nats, scale 10", CODE, fitted=False),
    Side("code, 0.6 nats", CODE_SMALL),
    Side("code, 0.6 nats, scale 10", CODE_SMALL, fitted=False),
)


@dataclass
class Count:
    """What came of one side."""

    changes: int = 0
    misses: int = 0
    quiet_batches: int = 0
    false_alarms: int = 0


@dataclass(frozen=True)
class StageHead:
    """A solved head: scores of all held-out images, and the scale fitted on the head before."""

    names: tuple[str, ...]
    scores: Floats
    fitted: float
    novelty: Floats | None
    """How new each image is, from 0 to 1 (`learning.numerics.score_novelty`), if that is known."""


@dataclass(frozen=True)
class Held:
    """Held-out images: the class of each."""

    labels: npt.NDArray[np.int64]

    def of(self, classes: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return the indices of images of some classes."""
        return np.flatnonzero(np.isin(self.labels, classes))


def solve_stages(features: Any, labels: Any, plan: Plan) -> tuple[list[StageHead], Held]:  # noqa: ANN401 - arrays of a file
    """Return one head per stage and the held-out images, behind the integer map."""
    told = COORDINATOR.assign({"map_width": plan.map_width}, features.shape[1])
    matrix = frozen_map(told)
    assert matrix is not None
    h = project_integer(quantise_features(features), matrix.astype(np.int8), 7)
    return solve_heads(h, labels, plan, told.settings)


def solve_heads(
    h: Any,  # noqa: ANN401 - an array of a file
    labels: Any,  # noqa: ANN401 - the same
    plan: Plan,
    settings: StsaSettings,
) -> tuple[list[StageHead], Held]:
    """Return one head per stage for integer features h (n, M), and the held-out images."""
    learned = np.random.default_rng(plan.seed).random(len(labels)) < plan.learned_share
    held, held_labels = h[~learned].astype(np.float64), labels[~learned]
    heads: list[StageHead] = []
    gram = np.zeros((h.shape[1],) * 2)
    columns: list[Floats] = []
    numbers: list[int] = []
    scale = DEFAULT_SCALE
    for stage in range(plan.stages):
        classes = stage_classes(plan, stage)
        rows = h[learned & np.isin(labels, classes)].astype(np.float64)
        gram += rows.T @ rows
        columns += [h[learned & (labels == c)].sum(axis=0, dtype=np.float64) for c in classes]
        numbers += [int((learned & (labels == c)).sum()) for c in classes]
        sums, counts = np.stack(columns, axis=1), np.array(numbers)
        own, novelty = solved_head(gram, sums, counts, settings)
        names = tuple(map(str, range(len(counts))))
        scores = held @ own
        values = None if novelty is None else novelty.of_scores(scores)
        heads.append(StageHead(names, scores, scale, values))
        known = np.flatnonzero(held_labels < len(names))[::4]
        scale = best_scale(summed_losses(scores[known], held_labels[known].tolist()))
    return heads, Held(held_labels)


def solved_head(
    gram: Any,  # noqa: ANN401 - an array of sums
    sums: Any,  # noqa: ANN401 - the same
    counts: npt.NDArray[np.int64],
    settings: StsaSettings,
) -> tuple[Floats, ScoreNovelty | None]:
    """Return the weights (M, C) of sums G (M, M) and P (M, C), and how novelty is known by them."""
    weights = solve_ridge(gram, sums, settings.ridge_for(gram, sums, counts))
    own = whitened_weights(weights, sums) if settings.head == "whitened" else weights
    scales = np.linalg.norm(own, axis=0) / np.linalg.norm(weights, axis=0)
    return own, ScoreNovelty.of(weights.T @ sums, counts, scales, np.arange(len(counts)))


def stage_classes(plan: Plan, stage: int) -> npt.NDArray[np.int64]:
    """Return the classes of a stage."""
    return np.arange(stage * plan.per_stage, (stage + 1) * plan.per_stage)


def owned_classes(plan: Plan, device: int) -> list[npt.NDArray[np.int64]]:
    """Return the classes that a device has, stage by stage."""
    draw = np.random.default_rng([plan.seed, device])
    number = round(plan.owned * plan.per_stage)
    return [
        draw.choice(stage_classes(plan, stage), number, replace=False)
        for stage in range(plan.stages)
    ]


def batches(
    plan: Plan, held: Held, device: int, size: int
) -> Iterator[tuple[int, bool, npt.NDArray[np.intp]]]:
    """Yield (stage, whether classes are new, images) of everything that a device sees."""
    draw = np.random.default_rng([plan.seed, device, 1])
    owned = owned_classes(plan, device)
    for stage in range(plan.stages):
        known = held.of(np.concatenate(owned[: stage + 1]))
        for _ in range(plan.quiet):
            yield stage, False, draw.choice(known, size, replace=False)
        if stage + 1 < plan.stages:
            new = held.of(owned[stage + 1])
            number = round(plan.share * size)
            for _ in range(plan.changed):
                images = draw.choice(known, size - number, replace=False)
                yield stage, True, np.concatenate([images, draw.choice(new, number, replace=False)])


def watch(plan: Plan, side: Side, heads: list[StageHead], held: Held) -> Count:
    """Run one detector on every device and count."""
    count = Count()
    for device in range(plan.devices):
        _watch_device(plan, side, heads, held, device, count)
    return count


def _watch_device(
    plan: Plan, side: Side, heads: list[StageHead], held: Held, device: int, count: Count
) -> None:
    detector = Detector()
    heard: dict[int, bool] = {}
    seeds_of = -1
    for stage, changed, images in batches(plan, held, device, side.rules.min_images):
        solved = heads[stage]
        head = ScoringHead(solved.names, solved.fitted if side.fitted else DEFAULT_SCALE)
        if side.seeded and stage != seeds_of:
            seeds_of = stage
            draw = np.random.default_rng([plan.seed, device, 2, stage])
            seeds = draw.choice(held.of(np.arange(len(head.rows))), plan.seeds, replace=False)
            values = uncertainty(solved.scores[seeds], head, detector.head, side.rules)
            detector = seeded(detector, values.tolist(), head, side.rules)
        values = uncertainty(solved.scores[images], head, detector.head, side.rules)
        detector, (measurement,) = observe(detector, values.tolist(), head, side.rules)
        if changed:
            heard[stage] = heard.get(stage, False) or measurement.transition
        else:
            count.quiet_batches += 1
            count.false_alarms += measurement.transition
    count.changes += len(heard)
    count.misses += len(heard) - sum(heard.values())


def main(arguments: list[str] | None = None) -> int:
    """Run the study and write its results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("features", type=Path, nargs="?", help="an .npz of features and labels")
    parser.add_argument("--share", type=float, default=Plan.share, help="share of new classes")
    parser.add_argument("--quiet", type=int, default=Plan.quiet, help="quiet batches of a stage")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    if options.features is None or not options.features.exists():
        sys.stdout.write("skipped: no features; give an .npz with `features` and `labels`\n")
        return 0
    plan = Plan(share=options.share, quiet=options.quiet)
    with np.load(options.features) as data:
        features, labels = data["features"], data["labels"].astype(np.int64)
    heads, held = solve_stages(features, labels, plan)
    rows = {side.name: asdict(watch(plan, side, heads, held)) for side in SIDES}
    report = {
        "plan": asdict(plan),
        "fitted_scales": [round(head.fitted, 2) for head in heads],
        "results": rows,
        "machine": platform_fingerprint(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for name, row in rows.items():
        sys.stdout.write(
            f"{name:32} {row['misses']:4} of {row['changes']} missed, "
            f"{row['false_alarms']:4} false alarms in {row['quiet_batches']} batches\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
