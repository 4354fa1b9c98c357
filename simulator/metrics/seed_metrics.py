"""What is known of one seed: every stage in numbers, every device, and the seed as a whole.

Accuracies, recall, F1 and forgetting are shares from 0 to 1; what is unknown is None. Of a seed
that is scored by mIoU, mIoU stands wherever accuracy is said here.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.simulator.metrics.score import Score
from fleetledger.simulator.plan.fleet_plan import Group
from fleetledger.simulator.records import (
    InferenceRecord,
    NoveltyCheckRecord,
    ProxyRecord,
    RoundRecord,
)
from fleetledger.simulator.rollouts.record import RolloutRecord

TransitionKind = Literal["entropy", "class name"]
"""Of a `TransitionRecord`."""


class DeviceSpread(Strict):
    """A quantity over devices."""

    total: float
    mean: float
    deviation: float
    """Over all of them, so divided by their number."""
    lowest: float
    fifth_percentile: float
    highest: float


class Detection(Strict):
    """How devices noticed the new classes of a stage, by one kind of report.

    A device is counted once: as one that has new classes, if it got images of them in this stage
    and was online, else as one that has none.
    """

    why: TransitionKind
    with_new: int = Field(ge=0)
    noticed: int = Field(ge=0)
    """Devices with new classes that reported them."""
    without_new: int = Field(ge=0)
    alarmed: int = Field(ge=0)
    """Devices without new classes that reported some."""
    false_alarms: int = Field(ge=0)
    """False reports of all devices, before new classes came to them included."""
    delay_images: tuple[int, ...] = ()
    """Images that each device that noticed had been given of the stage, when it first reported."""
    delay_seconds: tuple[float, ...] = ()
    """Seconds of the fleet's clock from the arrival of the stage's data to that report."""


class Noticing(Strict):
    """Which tasks a device noticed that looks for them by itself; see `novelty_outcomes`."""

    device: DeviceId
    began: int = Field(ge=0)
    """Tasks that began on it after the first stage."""
    at_once: int = Field(ge=0)
    """Noticed at its first look."""
    late: int = Field(ge=0)
    missed: int = Field(ge=0)
    false_alarms: int = Field(ge=0)
    """Transitions that were no task, or not its first one."""


class StageMetrics(Strict):
    """One stage, after it."""

    stage: int = Field(ge=1)
    class_names: tuple[ClassName, ...]
    opened_by: str
    head: Digest
    accuracy: float
    """On the test samples of all classes seen; mIoU over background and these classes."""
    accuracy_by_tasks: float
    """A_t: the mean over tasks."""
    old_accuracy: float | None
    """On the classes of earlier stages, mIoU with background; None in the first."""
    new_accuracy: float | None
    """On the classes of this stage; None where no test scene shows one."""
    forgetting: float
    recall: float | None
    """None of pixels; so are the next three."""
    f1: float | None
    recall_batchwise128: float | None
    """As LGA printed it; see `recall_and_f1`."""
    f1_batchwise128: float | None
    pooled_accuracy: float | None
    """Of ridge regression on all images in one place; None where it was not asked for."""
    accuracy_on_devices: float | None = None
    """As the devices measured the model that they ran; None where they were not to."""
    task_correct: tuple[int, ...]
    """Right answers by task up to this one; empty of pixels."""
    task_total: tuple[int, ...]
    task_iou: tuple[float | None, ...] = ()
    """Of pixels: mIoU over the classes of each task up to this one, without background; None where
    no test scene shows one."""
    class_iou: dict[ClassName, float] = Field(default_factory=dict)
    """Of pixels: IoU of background and of each class seen that a test scene shows."""
    device_accuracy: DeviceSpread | None
    """Under the devices' own class distributions, see `devices.device_accuracy`; None where no
    device holds samples, and of pixels."""
    domain_accuracy: dict[str, float] = Field(default_factory=dict)
    """As in `StageRecord`."""
    own_accuracy: DeviceSpread | None = None
    """Over the devices' own test parts; None without."""
    groups: dict[Group, int]
    """Devices that are there, by group."""
    online: int
    bytes_up: DeviceSpread
    """Over the devices that are there; so are the next three."""
    bytes_down: DeviceSpread
    compute_seconds: DeviceSpread
    stored_samples: DeviceSpread
    sent: dict[str, int] = Field(default_factory=dict)
    """Bytes of accepted payloads of all devices, by kind."""
    received: dict[str, int] = Field(default_factory=dict)
    """Bytes of the files that orders named to them, by kind."""
    shared_images: int = 0
    """Images that devices gave to the whole fleet."""
    arrived_samples: int
    counted_samples: int
    contributions: int
    answers: int = Field(default=0, ge=0)
    """As in `StageRecord`."""
    fleet_seconds: float
    seconds: dict[str, float]
    """Wall time by phase, as in `StageRecord`."""
    peak_memory_mib: float
    inference: InferenceRecord | None = None
    detection: tuple[Detection, ...]
    rounds: tuple[RoundRecord, ...]
    given_new: tuple[DeviceId, ...] = ()
    """Devices that were online and got images of the stage's own classes, where devices look."""
    novelty_checks: tuple[NoveltyCheckRecord, ...] = ()
    proxy: ProxyRecord | None = None
    notes: tuple[str, ...]

    @property
    def accuracy_of_tasks(self) -> tuple[float | None, ...]:
        """Accuracy on each task up to this one; None where its stage brought nothing new."""
        answered = zip(self.task_correct, self.task_total, strict=True)
        return self.task_iou or tuple(right / asked if asked else None for right, asked in answered)

    @property
    def devices(self) -> int:
        """Number of devices that are there."""
        return sum(self.groups.values())

    @property
    def wall_seconds(self) -> float:
        """Wall time of the stage: the engine's `total`, else its phases, and the evaluation."""
        phases = {name: seconds for name, seconds in self.seconds.items() if name != "total"}
        evaluation = phases.pop("evaluation", 0.0)
        return self.seconds.get("total", sum(phases.values())) + evaluation


class DeviceMetrics(Strict):
    """One device over all stages."""

    device: DeviceId
    joined: int = Field(ge=1)
    """First stage in which it was there."""
    stages: int
    """In how many it was there."""
    online: int
    """In how many it was online."""
    group: Group
    """In its last stage."""
    samples: int
    """Training samples that the plan gave it."""
    classes: int
    """Classes of which it was given any."""
    bytes_up: int
    bytes_down: int
    compute_seconds: float
    stored_samples: int
    """In its last stage."""
    shared_images: int = 0
    """That it gave to the whole fleet."""
    shared_bytes: int = 0
    accuracy: float | None
    """Of the last model under its own class distribution; None without samples."""
    own_accuracy: float | None = None
    """Of the last model on its own test part; None without."""


class Distribution(Strict):
    """Training samples by device and class, over all stages; some devices of a large fleet."""

    devices: tuple[DeviceId, ...]
    devices_in_fleet: int
    class_names: tuple[ClassName, ...]
    """In the order of coming."""
    samples: tuple[tuple[int, ...], ...]
    """A row per device."""


class SeedMetrics(Strict):
    """One seed."""

    score: Score = "accuracy"
    headline: dict[str, float]
    """The numbers of `headline.METRICS` that are known here, by name."""
    stages: tuple[StageMetrics, ...] = Field(min_length=1)
    task_confusion: tuple[tuple[int, ...], ...]
    """After the last stage: true task against predicted task; of pixels, with a row and a column
    for background before those of the tasks."""
    devices: tuple[DeviceMetrics, ...]
    distribution: Distribution
    noticing: tuple[Noticing, ...] = ()
    """By device, of methods whose devices look for new tasks by themselves."""
    rollout: RolloutRecord | None = Field(default=None, exclude_if=is_absent)
    """What became of the candidate that went out at the end; None without one."""
