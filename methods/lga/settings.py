"""Settings of LGA and GLFC: losses, memory, detection, prototypes, and what the proxy does.

Printed equations and the authors' program differ. `mode` sets all that differs, `preset` an
ablation or a rival; whatever is given beside them wins. README.md lists what each of them sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.methods.settings import filled_in
from fleetledger.methods.training.assignment import NamedNetworkSettings
from fleetledger.methods.training.update_forms import Upload
from fleetledger.runtime.strict import Strict

Mode = Literal["paper", "code"]
Preset = Literal[
    "lga",
    "glfc",
    "without-cbl",
    "without-sdl",
    "without-psr",
    "without-sbm",
    "without-ssa",
    "without-npb",
    "fedavg",
    "fedavg-exemplars",
    "released",
    "released-glfc",
]

MODES: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "code": {
        "loss": "sigmoid",
        "groups": "cumulative",
        "exponent": "tasks",
        "entropy_offset": 1e-5,
        "bounds": (0.5, 5.0),
        "rate": 2.0,
        "schedule": "released",
        "herding": "repeating",
        "perturbation_rate": 0.2,
        "perturbation_noise": 0.0,
        "perturbation_decay": 1e-5,
        "perturbation_inputs": "plain",
        "inversion_rate": 0.1,
        "inversion_steps": 250,
        "inversion_start": "noise",
        "slots_shift": "always",
        "slots_reset": False,
        "ignored_rounds": 6,
    },
}
"""What each mode sets beside the defaults, which are the paper's."""

_GLFC: Mapping[str, Any] = {
    "groups": "two",
    "exponent": "one",
    "bounds": (),
    "cross_entropy": 0.5,
    "distillation": 0.5,
    "balanced_distillation": False,
    "draws": 0,
}
_AS_RELEASED: Mapping[str, Any] = {"mode": "code", "pad": 4, "flip": True, "brightness": 63 / 255}
_FEDAVG: Mapping[str, Any] = {"balanced_cross_entropy": False, "distillation": 0.0}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "lga": {},
    "glfc": _GLFC,
    "without-cbl": {"balanced_cross_entropy": False},
    "without-sdl": {"distillation_kind": "icarl"},
    "without-psr": {"old_model": "random"},
    "without-sbm": {"old_model": "last"},
    "without-ssa": {"draws": 0},
    "without-npb": {"perturbation_steps": 0},
    "fedavg": {**_FEDAVG, "memory": 0},
    "fedavg-exemplars": _FEDAVG,
    "released": {**_AS_RELEASED, "radius": "released"},
    "released-glfc": {**_GLFC, **_AS_RELEASED},
}
"""What each preset sets beside the defaults and the mode. `released` and `released-glfc` are LGA
and GLFC as their authors' programs run, which takes more than mode `code`: how pictures are changed
by chance, and the noise that models are scored with."""


class LossSettings(Strict):
    """The losses of equations (1) to (7)."""

    loss: Literal["softmax", "sigmoid"] = "softmax"
    """Cross-entropy of a softmax as printed, or of each class's sigmoid as released."""
    cross_entropy: float = Field(default=1.0, gt=0)
    """gamma_1: factor of L_CB while there is an old model; 1 without."""
    balanced_cross_entropy: bool = True
    """Whether L_CB weighs samples; false makes it L_CE."""
    distillation: float = Field(default=1.0, ge=0)
    """gamma_2: factor of L_SD; 0 leaves it out, and with it old models and the proxy."""
    distillation_kind: Literal["semantic", "icarl"] = "semantic"
    """L_SD, or iCaRL's: the old classes' outputs alone, no sample weighing more than another."""
    balanced_distillation: bool = True
    """Whether L_SD weighs samples."""
    slices: Literal["raw", "renormalised"] = "raw"
    """Slices of the tasks in (6) as they are, or each made a distribution of its own first."""
    groups: Literal["disjoint", "cumulative", "two"] = "disjoint"
    """Classes whose samples are weighed against each other: those of a task; as released, those
    without exemplars and, for each past task, all stored ones up to it; or new and old (GLFC)."""
    exponent: Literal["local", "tasks", "one"] = "local"
    """e of (4): by the device's own counts of classes, t / (t + 1) of t past tasks, or 1."""
    bounds: tuple[float, ...] = Field(default=(), max_length=2)
    """The least and the largest weight of a sample; empty: no bounds."""


class MemorySettings(Strict):
    """Which images of earlier tasks a device trains on again."""

    memory: int = Field(default=2000, ge=0, le=1_000_000)
    """|M|: exemplars over all classes, floor(|M| / n) for each of n."""
    memory_per_class: int = Field(default=0, ge=0, le=1_000_000)
    """Exemplars of every class instead; 0: |M| is shared out."""
    herding: Literal["distinct", "repeating"] = "distinct"
    """Whether an image may be chosen more than once, as in the released program."""


class DetectionSettings(Strict):
    """How a device notices that a task has begun."""

    detection: Literal["rise", "relative", "sequential", "stage"] = "rise"
    """Equation (8); relative entropy against the device's own looks before; evidence over the
    images against those of the look before; or simply images of a class whose stage is newer than
    all that the device had."""
    entropy_rise: float = Field(default=1.2, gt=0)
    """r_e in nats, for `rise`."""
    entropy_offset: float = Field(default=0.0, ge=0, le=0.01)
    """Added to p within the logarithm of (8)."""
    deviations: float = Field(default=2.0, gt=0)
    """For `relative`: standard deviations above the mean of the looks before."""
    smallest_deviation: float = Field(default=0.05, gt=0, le=1)
    """For `relative`: a standard deviation below this counts as this."""
    looks: int = Field(default=1, ge=1, le=100)
    """For `relative`: earlier looks that count, since the last transition."""
    quiet_looks: float = Field(default=100.0, ge=2, le=1e9)
    """For `sequential`: at most one false alarm in so many looks, on average."""
    looks_at: Literal["all", "known"] = "all"
    """For `relative` and `sequential`: rows of the head that count, or only those that the last
    look had."""
    observers: Literal["all", "cohort"] = "all"
    """Who looks in a round: every device, or only those that are asked to train."""


class PrototypeSettings(Strict):
    """What a device makes of a prototype before its gradients are sent."""

    perturbation_steps: int = Field(default=50, ge=0, le=10_000)
    """Steps of (14); 0 sends gradients of the images themselves."""
    perturbation_rate: float = Field(default=1.0, gt=0)
    """mu of (14)."""
    perturbation_noise: float = Field(default=0.1, ge=0)
    """epsilon of (13)."""
    perturbation_decay: float = Field(default=0.0, ge=0)
    """Weight decay of the image in every step."""
    perturbation_inputs: Literal["normalised", "plain"] = "normalised"
    """What the network sees of the image: its inputs, or as released values from 0 to 1."""
    reserved: int = Field(default=200, ge=2, le=10_000)
    """Outputs of Gamma: the most classes that the fleet may ever have."""


class ProxySettings(Strict):
    """How the proxy inverts gradients, scores models and fills the slots of old models."""

    old_model: Literal["best", "last", "random"] = "best"
    """The model of a task that the proxy scores best; its last one; or, without a proxy, any."""
    inversion_rate: float = Field(default=1.0, gt=0)
    inversion_steps: int | None = Field(default=None, ge=1, le=10_000)
    """Of L-BFGS; None: as many as `inversion` has found enough."""
    inversion_inner: int = Field(default=20, ge=1, le=1000)
    """Iterations within a step."""
    inversion_start: Literal["grey", "noise"] = "grey"
    """Where a search begins: from grey, which is quicker, or from N(0, 1) as in the papers."""
    inversion_kept: int = Field(default=20, ge=1, le=1000)
    """Images of the last steps that count as images of the class."""
    worst_distance: float = Field(default=0.05, gt=0)
    """Squared distance of gradients from which a search has found no image."""
    draws: int = Field(default=5, ge=0, le=1000)
    """upsilon of (11): noisy features of each image; 0 scores by the images themselves."""
    xi: float = Field(default=0.1, gt=0)
    """The longest noise of (11)."""
    square_root: bool = True
    """Take omega of (12) for a variance, which it is, and noise for the share xi of it; false
    scales noise by it, as printed."""
    radius: Literal["recursion", "released"] = "recursion"
    """What noise of (11) is scaled by: omega of (12); or as released 0.15 in the first task and
    from then on the root of the mean variance of its classes, times the square of each variance."""
    slots_shift: Literal["task", "always"] = "task"
    """When the best model becomes the one of the task before: with the first gradients of a task,
    or as released with all that arrive."""
    slots_reset: bool = True
    """Whether scores begin anew with a task."""
    ignored_rounds: int = Field(default=0, ge=0, lt=2**31)
    """First rounds of a task whose models score 0."""


class LgaSettings(
    LossSettings,
    MemorySettings,
    DetectionSettings,
    PrototypeSettings,
    ProxySettings,
    NamedNetworkSettings,
):
    """Everything that decides a training, the same for all devices."""

    mode: Mode = "paper"
    preset: Preset = "lga"
    network: str = "resnet18"
    """A name of `learning.networks`, of one that takes pictures and is trained as a whole."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Of the first weights, new rows of the head, Gamma, and old models drawn at random."""

    epochs: int = Field(default=20, ge=1, le=10_000)
    """Local epochs of a round."""
    batch: int = Field(default=128, ge=2, le=65_536)
    smallest_batch: int = Field(default=8, ge=2, le=65_536)
    """A last batch of fewer samples is left out of an epoch, unless it is the only one."""
    rate: float = Field(default=0.1, gt=0)
    schedule: Literal["constant", "released"] = "constant"
    """`released`: a fifth, a 25th and a 125th of the rate from the middle, three quarters and nine
    tenths of a task's epochs on, each until the end of the round in which it begins."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    weight_decay: float = Field(default=1e-5, ge=0)
    pad: int = Field(default=0, ge=0, le=64)
    """Black pixels around a picture, of which a window of its size is cut by chance."""
    flip: bool = False
    """Whether half of the pictures are mirrored by chance."""
    brightness: float = Field(default=0.0, ge=0, le=1)
    """Pictures are made lighter or darker by chance, by a factor of at most 1 + this, and of at
    least 1 - this."""

    averaging: Literal["plain", "samples"] = "plain"
    """Weigh answers alike, or by their number of samples."""
    upload: Upload = "int32"
    """What an answer holds: weights, or in half the bytes how far they have moved."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_mode_and_preset(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        by_preset = filled_in(values, "preset", PRESETS, "lga")
        return filled_in(by_preset, "mode", MODES, "paper")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.bounds and not (len(self.bounds) == 2 and 0 <= self.bounds[0] <= self.bounds[1]):
            raise ValueError(
                f"bounds: {self.bounds}; give the least and the largest weight, or an empty list"
            )
        return self

    @property
    def needs_old_model(self) -> bool:
        """Whether devices are given models of earlier tasks."""
        return self.distillation > 0

    @property
    def has_proxy(self) -> bool:
        """Whether devices send gradients, and a proxy chooses the old models."""
        return self.needs_old_model and self.old_model != "random"
