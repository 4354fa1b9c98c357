"""What a headline number is: a name, a unit, a meaning, and how it is taken from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fleetledger.simulator.metrics.score import SaidScore, say
from fleetledger.simulator.metrics.seed_metrics import Detection, DeviceMetrics, StageMetrics

Unit = Literal[
    "share", "points", "bytes", "seconds", "samples", "images", "mebibytes", "per second"
]
"""`share` and `points` are kept from 0 to 1 and shown in percent and percentage points."""
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class MeasuredSeed:
    """What a headline number is taken from."""

    stages: Sequence[StageMetrics]
    devices: Sequence[DeviceMetrics]

    @property
    def last(self) -> StageMetrics:
        """The last stage."""
        return self.stages[-1]

    def over_stages(self, take: Callable[[StageMetrics], float | None]) -> float | None:
        """Return the mean over stages; None where a stage has no such number."""
        values = [value for stage in self.stages if (value := take(stage)) is not None]
        return float(np.mean(values)) if len(values) == len(self.stages) else None

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
    take: Callable[[MeasuredSeed], float | None]
    """Returns None where it is not known."""
    of_pixels: str = ""
    """The meaning where mIoU stands for accuracy, if that takes other words."""

    def said_title(self, score: SaidScore) -> str:
        """Return the title of runs of that score."""
        return say(score, self.title)

    def said_meaning(self, score: SaidScore) -> str:
        """Return the meaning likewise."""
        return self.of_pixels if score == "mIoU" and self.of_pixels else say(score, self.meaning)


def mean_delay(delays: Sequence[float]) -> float | None:
    """Return the mean; None of nothing."""
    return float(np.mean(delays)) if delays else None


def share(part: int, whole: int) -> float | None:
    """Return part / whole; None of nothing."""
    return part / whole if whole else None
