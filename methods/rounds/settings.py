"""Settings of training in rounds: a network, a local training, and the terms of its loss.

A preset is a set of values; whatever is given beside it wins. Symbols are those of the sources that
README.md names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.methods.settings import filled_in
from fleetledger.methods.training.assignment import NamedNetworkSettings
from fleetledger.methods.training.prior_settings import PriorSettings
from fleetledger.methods.training.private_updates import UpdatePrivacy
from fleetledger.methods.training.update_forms import Upload
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import is_absent

Preset = Literal[
    "best",
    "fedavg",
    "fedavg-task",
    "fedavg-exemplars",
    "fedprox",
    "fedmax",
    "fed-ewc",
    "fed-lwf",
    "flwf-2t",
    "icarl",
    "ss-il",
    "wa",
    "bic",
    "podnet",
    "target",
    "fedavg-aligned",
    "fedavg-refit",
    "adapter",
]

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "best": {
        "exemplars": 2000,
        "ce_prior": "device",
        "pod_flat": 1.0,
        "schedule": "cosine",
    },
    "fedavg": {},
    "fedavg-task": {"scope": "task"},
    "fedavg-exemplars": {"exemplars": 2000},
    "fedprox": {"proximal": 0.2},
    "fedmax": {"fedmax": 500.0},
    "fed-ewc": {"scope": "task", "ewc": 1000.0, "rate": 0.01},
    "fed-lwf": {"scope": "task", "distillation": 3.0, "rate": 0.01, "weight_decay": 5e-4},
    "flwf-2t": {
        "cross_entropy": 0.5,
        "past_distillation": 0.25,
        "server_distillation": 0.25,
    },
    "icarl": {"exemplars": 2000, "distillation": 1.0, "temperature": 1.0},
    "ss-il": {"exemplars": 2000, "scope": "separated", "task_distillation": 1.0},
    "wa": {
        "exemplars": 2000,
        "distillation": 1.0,
        "mixing": "classes",
        "calibration": "align",
    },
    "bic": {
        "exemplars": 2000,
        "distillation": 1.0,
        "mixing": "classes",
        "calibration": "bias",
    },
    "podnet": {
        "exemplars": 2000,
        "head": "cosine",
        "margin": 0.6,
        "pod": 3.0,
        "pod_flat": 1.0,
        "calibration": "refit",
    },
    "target": {
        "scope": "task",
        "synthetic_distillation": 25.0,
        "generator": {},
        "rate": 0.01,
        "weight_decay": 5e-4,
    },
    "fedavg-aligned": {"exemplars": 2000, "calibration": "align"},
    "fedavg-refit": {"exemplars": 2000, "calibration": "refit"},
    "adapter": {
        "network": "residual_adapter",
        "trained": "body",
        "ce_prior": "device",
        "epochs": 1,
        "rate": 0.001,
    },
}
"""What each preset sets beside the defaults."""


class LossSettings(PriorSettings):
    """Factors of the loss's terms; a term whose factor is 0 is left out."""

    scope: Literal["seen", "task", "separated"] = "seen"
    """Classes that the cross-entropy compares: all of the head, or those of the stage;
    `separated`: samples of the stage's classes with these, exemplars with the others (SS-IL)."""
    cross_entropy: float = Field(default=1.0, gt=0)
    proximal: float = Field(default=0.0, ge=0)
    """mu of FedProx: mu / 2 times the squared distance from the received weights."""
    proximal_reduction: Literal["sum", "tensor_mean"] = "sum"
    fedmax: float = Field(default=0.0, ge=0)
    """beta of FedMAX."""
    fedmax_direction: Literal["uniform_first", "softmax_first"] = "uniform_first"
    fedmax_reduction: Literal["mean", "sum"] = "mean"
    ewc: float = Field(default=0.0, ge=0)
    """lambda of Fed-EWC."""
    ewc_cap: float = Field(default=1e-4, gt=0)
    """The largest entry of a Fisher diagonal."""
    distillation: float = Field(default=0.0, ge=0)
    """lambda of Fed-LwF: the fleet's model of the stage before teaches its classes."""
    past_distillation: float = Field(default=0.0, ge=0)
    """beta of FLwF-2T: the device's own model of the stage before teaches its classes."""
    server_distillation: float = Field(default=0.0, ge=0)
    """1 - alpha - beta of FLwF-2T: the received model teaches all classes that it has."""
    temperature: float = Field(default=2.0, gt=0)
    mixing: Literal["factors", "classes"] = "factors"
    """`classes`: of n old and m new classes, n / (n + m) is a further factor of `distillation`, and
    m / (n + m) one of the cross-entropy (BiC, WA)."""
    task_distillation: float = Field(default=0.0, ge=0)
    """Factor of SS-IL's distillation: over the classes of each earlier stage alone, summed."""
    margin: float = Field(default=0.0, ge=0)
    """delta of PODNet's classifier, which is then in the place of the cross-entropy."""
    pod: float = Field(default=0.0, ge=0)
    """lambda_c of PODNet: maps keep their sums along rows and columns. Times the root of all
    classes per new one, as `pod_flat`."""
    pod_flat: float = Field(default=0.0, ge=0)
    """lambda_f of PODNet: directions of features stay."""
    pod_form: Literal["paper", "code"] = "paper"
    """Squared distances, as printed, or distances, as its program has them."""
    pod_layers: tuple[str, ...] = Field(default=(), max_length=100)
    """Layers whose maps are kept; left out, those that the network says, or none."""
    synthetic_distillation: float = Field(default=0.0, ge=0)
    """lambda of TARGET: the fleet's model of the stage before teaches on synthetic images."""


class GeneratorSettings(Strict):
    """Making of TARGET's synthetic images at the end of a stage, in batches."""

    images: int = Field(default=1024, ge=2, le=10_000)
    batch: int = Field(default=128, ge=2, le=1024)
    steps: int = Field(default=50, ge=1, le=10_000)
    """Steps of the generator for each batch."""
    latent: int = Field(default=256, ge=1, le=4096)
    """Length of z."""
    width: int = Field(default=64, ge=1, le=512)
    """Channels of its last maps; the first have twice as many."""
    rate: float = Field(default=0.002, gt=0)
    """Of Adam."""
    labels: float = Field(default=0.5, ge=0)
    """Factor of L_ce, the cross-entropy of the labels that were drawn."""
    statistics: float = Field(default=10.0, ge=0)
    """Factor of L_bn, the distance from the statistics of batch normalisation."""
    adversary: float = Field(default=1.0, ge=0)
    """Factor of L_kl, by which images are sought that the student knows less of."""
    student_epochs: int = Field(default=2, ge=1, le=1000)
    """Passes of the student over all images so far after each batch."""
    student_rate: float = Field(default=0.2, gt=0)
    student_temperature: float = Field(default=20.0, gt=0)


class RoundsSettings(LossSettings, NamedNetworkSettings):
    """Everything that decides a training, the same for all devices."""

    preset: Preset = "fedavg"
    network: str = "mlp"
    """A name of `learning.networks`."""
    head: Literal["linear", "cosine", "hidden"] = "linear"
    trained: Literal["all", "body"] = "all"
    """`body`: the head stays as it was first sent, and is in no answer."""

    epochs: int = Field(default=2, ge=1, le=10_000)
    """Local epochs E of a round."""
    batch: int = Field(default=64, ge=2, le=65_536)
    rate: float = Field(default=0.05, gt=0)
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine`: the rate falls to zero over a stage's rounds."""
    decrease_rounds: tuple[int, ...] = Field(default=(), max_length=100)
    """Rounds of a stage after which the rate is lower."""
    decrease_factor: float = Field(default=0.1, gt=0, le=1)
    """What the rate is multiplied with after each of them."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    pad: int = Field(default=0, ge=0, le=64)
    """Black pixels around a picture, of which a window of its size is cut by chance."""
    flip: bool = False
    """Whether half of the pictures are mirrored by chance."""

    exemplars: int = Field(default=0, ge=0, le=1_000_000)
    """Images of earlier stages that a device keeps for training, over all its classes."""
    exemplars_per_class: int = Field(default=0, ge=0, le=1_000_000)
    """Images of every class instead; 0: `exemplars` are shared out."""
    calibration: Literal["none", "align", "bias", "refit"] = "none"
    """Correction of the head after a stage. `align`: new rows as long as old ones on average (WA),
    by the coordinator alone. `bias`: two numbers for new rows, fitted on exemplars and new samples
    that were held out (BiC). `refit`: the head is trained on as many samples of each class."""
    refit_epochs: int = Field(default=20, ge=1, le=10_000)
    refit_rate: float = Field(default=0.005, gt=0)
    generator: GeneratorSettings | None = None
    """Synthetic images that the coordinator makes after each stage (TARGET); left out, none."""
    upload: Upload = "int32"
    """What an answer holds: weights, or in half the bytes how far they have moved."""
    privacy: UpdatePrivacy | None = Field(default=None, exclude_if=is_absent)
    """How answers are clipped, and which noise hides each of them; left out, neither is done."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_preset(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        return filled_in(values, "preset", PRESETS, "fedavg")

    @model_validator(mode="before")
    @classmethod
    def _counts_alike(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        if isinstance(values, Mapping) and values.get("privacy") is not None:
            return {"averaging": "plain", **values}
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.keeps_exemplars and self.scope == "task":
            raise ValueError(
                "scope: 'task' leaves out the classes of exemplars; give 'seen', or exemplars = 0 "
                "and exemplars_per_class = 0"
            )
        if self.privacy is not None:
            self._check_private()
        self._check_calibration()
        self._check_generator()
        corrected = self.calibration != "none"
        whole = self.ewc or self.past_distillation or corrected or self.head == "hidden"
        if self.trained == "body" and whole:
            raise ValueError(
                "trained: 'body' leaves the head as it is, and ewc, past_distillation, calibration "
                "and a hidden head are about all of the network; give 'all', or none of them"
            )
        return self

    def _check_calibration(self) -> None:
        if self.calibration in ("align", "bias") and self.head == "cosine":
            raise ValueError(
                f"calibration: {self.calibration!r} changes lengths of rows, which a cosine head "
                "does not look at; give 'refit' or 'none', or another head"
            )
        if self.calibration in ("bias", "refit") and not self.keeps_exemplars:
            raise ValueError(
                f"calibration: {self.calibration!r} looks at exemplars, and there are none; give "
                "exemplars, or 'align'"
            )
        if self.margin and self.head != "cosine":
            raise ValueError(
                f"margin: {self.margin} is one of cosines, and head {self.head!r} has none; give "
                "head = 'cosine', or margin = 0"
            )

    def _check_generator(self) -> None:
        if (self.generator is None) != (self.synthetic_distillation == 0):
            raise ValueError(
                f"synthetic_distillation: {self.synthetic_distillation} "
                f"{'without a' if self.generator is None else 'beside a'} generator; give both, "
                "as preset 'target', or neither"
            )
        if self.generator is not None and self.margin:
            raise ValueError(
                f"margin: {self.margin} is about labels, and synthetic images have none; give 0, "
                "or leave generator out"
            )

    def _check_private(self) -> None:
        if self.averaging != "plain":
            raise ValueError(
                "averaging: 'samples' lets a device with many samples move the mean by more than "
                "its share; give 'plain', or leave privacy out"
            )
        if self.ewc:
            raise ValueError(
                "ewc: what devices measure for it has no noise; give 0, or leave privacy out"
            )
        if self.calibrates:
            raise ValueError(
                f"calibration: {self.calibration!r} is answered without noise; give 'align' or "
                "'none', or leave privacy out"
            )
        if self.upload != "int32":
            raise ValueError(
                f"upload: {self.upload!r} has steps of each answer's own, and clipped answers have "
                "the clip's; give 'int32', or leave privacy out"
            )

    @property
    def keeps_exemplars(self) -> bool:
        """Whether a device trains on images of earlier stages again."""
        return self.exemplars > 0 or self.exemplars_per_class > 0

    def exemplars_of_each(self, classes: int) -> int:
        """Return how many exemplars a device keeps of each of its classes."""
        return self.exemplars_per_class or self.exemplars // max(1, classes)

    @property
    def needs_old_model(self) -> bool:
        """Whether devices are given the fleet's model of the stage before."""
        losses = self.distillation, self.ewc, self.task_distillation, self.pod, self.pod_flat
        synthetic = self.synthetic_distillation
        return any(factor > 0 for factor in (*losses, synthetic)) or self.calibration != "none"

    @property
    def keeps_own_models(self) -> bool:
        """Whether a device keeps its own model of the stage before."""
        return self.past_distillation > 0

    @property
    def calibrates(self) -> bool:
        """Whether devices correct the head after a stage's rounds."""
        return self.calibration in ("bias", "refit")
