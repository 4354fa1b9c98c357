"""Settings of FBL and of what it is held to: losses, detection, training, crops.

Printed equations and the authors' program differ. `mode` sets all that differs, `preset` an
ablation or a rival, `pod_literal` the printed factors of L_POD; whatever is given beside them wins.
README.md lists what each of them sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.methods.settings import filled_in
from fleetledger.methods.training.assignment import AveragedSettings
from fleetledger.methods.training.update_forms import Upload
from fleetledger.runtime.strict import Strict

Mode = Literal["paper", "code"]
Preset = Literal[
    "fbl",
    "without-apl",
    "without-fsc",
    "without-frc",
    "finetuning",
    "lwf",
    "ilt",
    "mib",
    "plop",
    "rcil",
    "released",
]

MODES: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "code": {
        "loss": "released",
        "detection": "rise",
        "released_monitor": True,
    },
}
"""What each mode sets beside the defaults, which are the paper's."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "fbl": {},
    "without-apl": {"labels": "probable"},
    "without-fsc": {"balanced": False},
    "without-frc": {"relations": 0.0},
    "finetuning": {"loss": "finetuning", "growth": "seeded"},
    "lwf": {"loss": "lwf", "growth": "seeded", "distillation": 100.0},
    "ilt": {"loss": "ilt", "growth": "seeded", "distillation": 100.0},
    "mib": {"loss": "mib", "distillation": 10.0},
    "plop": {"loss": "plop"},
    "rcil": {"loss": "rcil"},
    "released": {
        "mode": "code",
        "crop": 512,
        "least_scale": 0.5,
        "most_scale": 2.0,
        "flip": True,
    },
}
"""What each preset sets beside the defaults and the mode. `released` is FBL as its authors' program
runs on VOC; what it does otherwise on ADE20k stands in that scenario."""

_LITERAL: Mapping[str, Mapping[str, Any]] = {
    "True": {"pod_maps": 1.0, "pod_logits": 1.0, "pod": 0.0005}
}
"""What `pod_literal` sets."""

_OF_LOSSES: Mapping[str, tuple[str, ...]] = {
    "labels": ("fbl", "released"),
    "probability": ("fbl", "released"),
    "unsure": ("fbl",),
    "balanced": ("fbl", "released"),
    "weight_bounds": ("fbl",),
    "relations": ("fbl", "released"),
    "distillation": ("lwf", "ilt", "mib"),
    "encoder": ("ilt",),
    "pod": ("fbl", "released", "plop", "rcil"),
    "pod_maps": ("fbl", "released", "plop", "rcil"),
    "pod_logits": ("fbl", "released", "plop", "rcil"),
}
"""The losses that a setting is part of."""


class LossSettings(Strict):
    """The losses of equations (1) to (10), and those of rivals."""

    loss: Literal["fbl", "released", "finetuning", "lwf", "ilt", "mib", "plop", "rcil"] = "fbl"
    """L_obj of (10), the released program's, or a rival's. Without an old model all of them are
    cross-entropy, (1), of which the released program divides the sum by all pixels."""
    labels: Literal["adaptive", "probable"] = "adaptive"
    """Pseudo labels by (2), or by one probability for all old classes (w/oAPL)."""
    probability: float = Field(default=0.7, gt=0, le=1)
    """For `probable`: the least probability of the old model's guess."""
    unsure: Literal["background", "ignore"] = "background"
    """What becomes of a pixel whose guess, an old class, is not accepted."""
    balanced: bool = True
    """Whether L_FS weighs pixels by (5); false makes it cross-entropy (w/oFSC)."""
    weight_bounds: tuple[float, float] | None = None
    """The least and the largest of these weights; the paper has no bounds."""
    relations: float = Field(default=0.5, ge=0)
    """lambda1: factor of L_FR; 0 leaves it out (w/oFRC), in the released program's loss the three
    terms that stand for it, whose factors are fixed."""
    pod: float = Field(default=1.0, ge=0)
    """lambda2: factor of L_POD, beside those within it; of RCIL's pooled cubes likewise."""
    pod_maps: float = Field(default=0.01, ge=0)
    """Factor of feature maps within L_POD."""
    pod_logits: float = Field(default=0.0005, ge=0)
    """Factor of the small logits within L_POD."""
    pod_literal: bool = False
    """No factors within L_POD, and 0.0005 before it, as printed."""
    distillation: float = Field(default=10.0, ge=0)
    """Factor of the distillation of `lwf`, `ilt` and `mib`."""
    encoder: float = Field(default=100.0, ge=0)
    """Factor of the distance of features of `ilt`."""


class ShareSettings(Strict):
    """rho: the share of a class's pixels whose guess is accepted, which rises with the epochs."""

    share_start: float = Field(default=0.2, ge=0, le=1)
    share_step: float = Field(default=0.1, ge=0, le=1)
    share_most: float = Field(default=0.8, ge=0, le=1)
    share_since: Literal["round", "transition"] = "transition"
    """Since when local epochs count: the device's last transition, so that rho grows over a task,
    or this round, after which it falls back."""


class DetectionSettings(Strict):
    """How a device notices that a task has begun."""

    detection: Literal["history", "sequential", "rise", "stage"] = "history"
    """Against the device's own looks before; evidence over the scenes against those of the look
    before; equation (11); or simply scenes of a class whose stage is newer than all that the device
    had."""
    entropy_rise: float = Field(default=0.6, gt=0)
    """tau in nats, for `rise`."""
    released_monitor: bool = False
    """Whether the entropy before counts as -1 where the fleet's stage is new, as released: then the
    first look of a stage always is a transition. For `rise`."""
    deviations: float = Field(default=2.0, gt=0)
    """For `history`: standard deviations above the mean of the looks before."""
    smallest_deviation: float = Field(default=0.015, gt=0, le=1)
    """For `history`: a standard deviation below this counts as this."""
    looks: int = Field(default=2, ge=1, le=100)
    """For `history`: earlier looks that count, since the last transition."""
    quiet_looks: float = Field(default=100.0, ge=2, le=1e9)
    """For `sequential`: at most one false alarm in so many looks, on average."""
    stands_out: Literal["above", "either"] = "either"
    """For `history` and `sequential`: whether a level as far below counts too, or only one above:
    what earlier masks called background is certain to be background, so that new scenes can look
    easier."""
    observers: Literal["all", "cohort"] = "all"
    """Who looks in a round: every device, or only those that are asked to train."""


class TrainingSettings(Strict):
    """Local training: steps, batches, crops."""

    epochs: int = Field(default=6, ge=1, le=10_000)
    """Local epochs of a round."""
    batch: int = Field(default=24, ge=1, le=65_536)
    batch_parts: int = Field(default=1, ge=1, le=65_536)
    """Parts in which a batch goes through the network, to need less memory."""
    first_rate: float = Field(default=0.01, gt=0)
    """The rate in the fleet's first task."""
    rate: float = Field(default=0.001, gt=0)
    """The rate in later tasks."""
    power: float = Field(default=0.9, ge=0)
    """Rates fall by (1 - epoch / epochs of all the stage's rounds)^power; 0: they stay."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    nesterov: bool = True
    weight_decay: float = Field(default=1e-4, ge=0)
    crop: int | None = Field(default=None, ge=8, le=4096)
    """Side of the square window that is cut out of a picture; None: as large as the picture."""
    least_scale: float = Field(default=1.0, gt=0, le=16)
    """The least by which pictures are enlarged before that."""
    most_scale: float = Field(default=1.0, gt=0, le=16)
    """The most."""
    flip: bool = False
    """Whether half of the pictures are mirrored by chance."""


class FblSettings(
    LossSettings, ShareSettings, DetectionSettings, TrainingSettings, AveragedSettings
):
    """Everything that decides a training, the same for all devices."""

    mode: Mode = "paper"
    preset: Preset = "fbl"
    network: str = "deeplabv3_resnet101_stride16"
    """A name of `learning.networks.segmentation`."""
    frozen_norm: Literal["none", "trunk", "all"] = "none"
    """The part whose batch normalisation stays as it is, for small batches."""
    base: Literal["federated", "central"] = "federated"
    """Who learns the first task: the fleet in rounds, or somebody before it, whose weights the
    network begins with and which are its first model."""
    growth: Literal["background", "seeded"] = "background"
    """What new rows of the head begin as: shares of background's (MiB), or drawn by name."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Of the first weights and of seeded rows."""
    averaging: Literal["plain", "samples"] = "plain"
    """Weigh answers alike, or by their number of scenes."""
    upload: Upload = "int32"
    """What an answer holds: weights, or in half the bytes how far they have moved."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_mode_and_preset(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        literal = filled_in(values, "pod_literal", _LITERAL, "False")
        by_preset = filled_in(literal, "preset", PRESETS, "fbl")
        return filled_in(by_preset, "mode", MODES, "paper")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self._check_parts_of_the_loss()
        if self.released_monitor and self.detection != "rise":
            raise ValueError(
                f"released_monitor: True with detection {self.detection!r}, which compares with no "
                "entropy of the look before; set detection to 'rise', or this to false"
            )
        if self.nesterov and not self.momentum:
            raise ValueError(
                "nesterov: True without momentum; set it to false, or momentum above 0"
            )
        if self.least_scale > self.most_scale:
            raise ValueError(
                f"least_scale: {self.least_scale} is more than most_scale, {self.most_scale}"
            )
        if self.share_start > self.share_most:
            raise ValueError(
                f"share_start: {self.share_start} is more than share_most, {self.share_most}"
            )
        return self

    def _check_parts_of_the_loss(self) -> None:
        """Raise `ValueError` where a setting was changed that the loss does not look at."""
        if self.weight_bounds is not None:
            least, most = self.weight_bounds
            if not (self.balanced and 0 <= least <= most < inf):
                raise ValueError(
                    f"weight_bounds: {self.weight_bounds}; give the least and the largest weight, "
                    "0 or more, and leave balanced at true"
                )
        usual = LossSettings.model_fields["relations"].default
        if self.loss == "released" and self.relations not in (0, usual):
            raise ValueError(
                f"relations: {self.relations} with the loss 'released', whose factors are fixed; "
                f"0 leaves its terms out, {usual} keeps them"
            )
        for name, losses in _OF_LOSSES.items():
            default = LossSettings.model_fields[name].default
            if self.loss not in losses and getattr(self, name) != default:
                raise ValueError(
                    f"{name}: {getattr(self, name)} means nothing to the loss {self.loss!r}; leave "
                    f"it at {default}, or set loss to {' or '.join(map(repr, losses))}"
                )

    @property
    def needs_old_model(self) -> bool:
        """Whether devices are given the model of the task before."""
        return self.loss != "finetuning"

    @property
    def smallest_batch(self) -> int:
        """The fewest scenes that can be trained on: a batch of one cannot be normalised."""
        return 1 if self.frozen_norm == "all" else min(2, self.batch)
