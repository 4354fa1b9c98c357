"""Headline numbers: a name, a unit, a meaning, and how each is taken from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.score import SaidScore, say
from fleetledger.simulator.metrics.seed_metrics import Detection, DeviceMetrics, StageMetrics

Unit = Literal[
    "share",
    "points",
    "bytes",
    "seconds",
    "samples",
    "images",
    "mebibytes",
    "per second",
    "number",
]
"""`share` and `points` are kept from 0 to 1 and shown in percent and percentage points."""
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class MeasuredSeed:
    """What a headline number is taken from."""

    stages: Sequence[StageMetrics]
    devices: Sequence[DeviceMetrics]
    answers: AnyAnswers
    plan: PlanCounts

    @property
    def last(self) -> StageMetrics:
        """The last stage."""
        return self.stages[-1]

    def over_stages(self, take: Callable[[StageMetrics], float | None]) -> float | None:
        """Return the mean over stages; None where a stage has no such number."""
        values = [value for stage in self.stages if (value := take(stage)) is not None]
        return float(np.mean(values)) if len(values) == len(self.stages) else None

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Accuracy of each task after each stage, (T, T); NaN above the diagonal and if unknown."""
        return accuracy_matrix(self.stages)

    def over_devices(self, take: Callable[[DeviceMetrics], float]) -> float:
        """Return the mean over all devices that were ever there."""
        return float(np.mean([take(device) for device in self.devices]))

    def entropy_reports(self) -> list[Detection]:
        """Return what came of reports by entropy; nothing where none was ever sent."""
        found = [item for stage in self.stages for item in stage.detection if item.why == "entropy"]
        return found if any(item.noticed or item.false_alarms for item in found) else []


@dataclass(frozen=True)
class Metric:
    """One headline number."""

    name: str
    title: str
    unit: Unit
    better: Better
    meaning: str
    take: Callable[[MeasuredSeed], float | Mapping[str, float] | None]
    """Returns None where it is not known; a mapping gives a number for each key."""
    of_pixels: str = ""
    """The meaning where mIoU stands for accuracy, if that takes other words."""

    def said_title(self, score: SaidScore) -> str:
        """Return the title of runs of that score."""
        return say(score, self.title)

    def said_meaning(self, score: SaidScore) -> str:
        """Return the meaning likewise."""
        return self.of_pixels if score == "mIoU" and self.of_pixels else say(score, self.meaning)


def accuracy_matrix(stages: Sequence[StageMetrics]) -> NDArray[np.float64]:
    """Return a[t, i] of one seed, (T, T); NaN above the diagonal and where it is not known."""
    matrix = np.full((len(stages), len(stages)), np.nan)
    for row, stage in enumerate(stages):
        matrix[row, : row + 1] = np.array(stage.accuracy_of_tasks, np.float64)
    return matrix


def mean_delay(delays: Sequence[float]) -> float | None:
    """Return the mean; None of nothing."""
    return float(np.mean(delays)) if delays else None


def share(part: int, whole: int) -> float | None:
    """Return part / whole; None of nothing."""
    return part / whole if whole else None
