"""What a run leaves behind of every stage: one `StageRecord` per line of `stages.jsonl`.

Engines write them, metrics and reports read them. The model's answers lie beside them, in
`predictions.npz` (see `simulator.metrics.any_answers`).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.simulator.plan.fleet_plan import Group


class DeviceRecord(Strict):
    """One device in one stage; bytes and seconds of this stage alone."""

    group: Group
    online: bool
    bytes_up: int = Field(default=0, ge=0)
    """Payload bytes that the device's transport counted, control messages and blocks together."""
    bytes_down: int = Field(default=0, ge=0)
    compute_seconds: float = Field(default=0.0, ge=0)
    """Seconds of computing that the device's work took on this machine, with its share of the
    feature extraction."""
    arrived_samples: int = Field(default=0, ge=0)
    counted_samples: int = Field(default=0, ge=0)
    """Samples that the sum gained by the device between the ends of the stage before and of this
    one; of a network in training those of its last answer."""
    stored_samples: int = Field(default=0, ge=0)
    """Exemplars that the device keeps at the end of the stage for its learning, as it last said."""
    sent: dict[str, int] = Field(default_factory=dict)
    """Bytes of accepted payloads by kind, such as weights or images."""
    received: dict[str, int] = Field(default_factory=dict)
    """Bytes of the files that orders named, by kind; each file once in the stage."""
    shared_images: int = Field(default=0, ge=0)
    """Images of its own that the device gave to the whole fleet."""
    answered_seconds: float | None = None
    """Fleet time from the opening of the stage to the device's last accepted word of it before its
    end; None: none."""


class TransitionRecord(Strict):
    """A device reported something new."""

    device: DeviceId
    why: Literal["entropy", "class name"]
    seconds: float
    """Fleet time since the stage's data arrived."""
    is_new: bool
    """Whether the device had really got images of a class that came with the stage."""
    images: int = Field(ge=0)
    """Images that the device had been given since that moment."""


class RoundRecord(Strict):
    """One round of a method that learns in rounds."""

    number: int = Field(ge=1)
    asked: int
    counted: int
    seconds: float
    accuracy: float | None = None
    """On the test images of all seen classes; of a network that gives pixels classes, mIoU over
    background and these classes on some test scenes."""
    ensemble_accuracy: float | None = None
    """Of the devices' models together, whose scores are added; None where it was not asked for."""
    mean_accuracy: float | None = None
    """Of the mean of these models, before the coordinator trains on; None likewise."""
    client_drift: float | None = None
    """Mean distance of the devices' models from their average, relative to its length."""
    loss: float | None = None
    steps: int | None = None
    """Of training, in the answers that count; None where it is not told."""
    training_seconds: float | None = None
    """Of the devices' computing, as these answers tell it."""
    fleet_seconds: float | None = None
    """Fleet time from the opening of the stage to the new weights; None without new weights, and
    where time stands still while devices train."""


class InferenceRecord(Strict):
    """What it took to ask the exported model of pixels about the test scenes."""

    scenes: int = Field(ge=1)
    seconds: float = Field(ge=0)
    """Of both ONNX files, without reading and preparing scenes."""
    provider: str
    """Execution provider of ONNX Runtime."""
    threads: int = Field(ge=1)
    """That a run has on a processor."""
    batch: int = Field(ge=1)
    """Scenes of a run."""

    @property
    def seconds_per_scene(self) -> float:
        """Of both files."""
        return self.seconds / self.scenes


class NoveltyCheckRecord(Strict):
    """A device looked at its current images with the fleet's model, before any training."""

    device: DeviceId
    round: int = Field(ge=1)
    """Of the stage, as in `RoundRecord.number`."""
    entropy: float
    """Mean over the images, in nats."""
    images: int = Field(ge=1)
    transition: bool
    """Whether the device took them for the beginning of a new task."""


class ProxyRecord(Strict):
    """What went to the fleet's proxy in a stage."""

    gradient_bytes: int | None = Field(default=None, ge=0)
    """That it received from devices, on its own branch; None where nobody counted."""
    weight_bytes: int = Field(ge=0)
    """Payloads of trained weights that devices sent to the coordinator."""
    scored: int = Field(ge=0)
    """Scores in the ledger by the stage's end; the one of its last round may come later."""
    model_bytes: int | None = Field(default=None, ge=0)
    """That it received from the coordinator: orders, and the models to score; None as above."""


class StageRecord(Strict):
    """One stage of one seed."""

    stage: int = Field(ge=1)
    class_names: tuple[ClassName, ...]
    """Classes that came with the stage."""
    opened_by: str
    version: int
    """Of the model that was made last in the stage."""
    model_classes: tuple[ClassName, ...]
    """Rows of its head, in order."""
    aggregate: Digest
    head: Digest
    """Digest of the head's weights."""
    manifest: Digest
    """Digest of the exported model's manifest."""
    fleet_seconds: float
    """By the fleet's clock: virtual under `inprocess`, real under `mqtt`."""
    seconds: dict[str, float]
    """Wall time of the engine by phase (those that it measures, and the rest as `fleet`), and
    their `total`; beside them `evaluation`, which comes after."""
    peak_memory_mib: float
    """Highest resident memory of this process so far."""
    devices: dict[DeviceId, DeviceRecord]
    transitions: tuple[TransitionRecord, ...] = ()
    rounds: tuple[RoundRecord, ...] = ()
    novelty_checks: tuple[NoveltyCheckRecord, ...] = ()
    """By round and device, of methods whose devices look for new tasks by themselves."""
    proxy: ProxyRecord | None = None
    """None without a proxy."""
    contributions: int = Field(default=0, ge=0)
    """Contributions in the model's sum."""
    inference: InferenceRecord | None = None
    """None of samples."""
    pooled_accuracy: float | None = None
    """Of float64 ridge regression on all dealt images in one place, on the test images of all seen
    classes; None unless the scenario asks for it."""
    accuracy_on_devices: float | None = None
    """Share of right answers that the devices told of the model that they ran, each about its own
    test images; None unless the scenario asks for it."""
    domain_accuracy: dict[str, float] = Field(default_factory=dict)
    """On the test images of all seen classes in each domain, whether it has come yet or not; empty
    where the data set has none."""
    own_answers: dict[DeviceId, tuple[int, int]] = Field(default_factory=dict)
    """Right answers and questions of each device's own test part so far, where it has one and it is
    not empty."""
    notes: tuple[str, ...] = ()
    """What somebody who reads the report should know, in sentences."""

    @property
    def wall_seconds(self) -> float:
        """Wall time of the stage with its evaluation; 0 where a former run learned it."""
        return self.seconds.get("total", 0.0) + self.seconds.get("evaluation", 0.0)

    @property
    def answers(self) -> int:
        """Answers of devices that count in its rounds; without rounds, devices that said something.

        None of a method without a fleet.
        """
        said = sum(device.answered_seconds is not None for device in self.devices.values())
        return sum(told.counted for told in self.rounds) if said and self.rounds else said

    @property
    def answers_per_second(self) -> float | None:
        """By the engine's wall time; None where nothing was answered or no time measured."""
        total = self.seconds.get("total", 0.0)
        return self.answers / total if self.answers and total else None
