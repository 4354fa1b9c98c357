"""Settings of FedHAF: an adapter and a head, the factors of four losses, and a local training.

A preset is a set of values; whatever is given beside it wins. Symbols are those of the paper, whose
ablations are presets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.methods.settings import filled_in
from fleetledger.methods.training.assignment import AveragedSettings
from fleetledger.methods.training.prior_settings import PriorSettings
from fleetledger.methods.training.update_forms import Upload

Preset = Literal[
    "fedhaf",
    "literal",
    "replay",
    "calibrated",
    "fedavg-replay",
    "without-ce",
    "without-kd",
    "without-fd",
    "without-fb",
    "without-fam",
    "without-stages",
]

_REPLAY: Mapping[str, Any] = {
    "ce_scope": "seen",
    "ce_rows": "all",
    "stages": "one",
    "distillation": 0.0,
    "feature_balance": 0.1,
}
_CALIBRATED: Mapping[str, Any] = {
    **_REPLAY,
    "feature_balance": 0.0,
    "ce_prior": "device",
    "exemplar_choice": "random",
}
_PLAIN: Mapping[str, Any] = {"feature_distance": 0.0, "feature_balance": 0.0}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "fedhaf": {},
    "literal": {"fd_reduction": "sum", "adapter_rate": 0.02},
    "replay": _REPLAY,
    "calibrated": _CALIBRATED,
    "fedavg-replay": {**_REPLAY, **_PLAIN},
    "without-ce": {"ce_scope": "seen"},
    "without-kd": {"distillation": 0.0},
    "without-fd": {"feature_distance": 0.0},
    "without-fb": {"feature_balance": 0.0},
    "without-fam": {"adapter": "projection"},
    "without-stages": {"stages": "one"},
}
"""What each preset sets beside the defaults."""


class LossSettings(PriorSettings):
    """Factors of the four losses, and what each looks at; a factor of 0 leaves its loss out."""

    cross_entropy: float = Field(default=1.0, gt=0)
    """lambda_CE of equation (4)."""
    ce_scope: Literal["task", "own-task", "seen"] = "task"
    """Classes that it compares: those of the stage; those of the stage that brought the sample's
    class, so that exemplars count within theirs; or all that the head has."""
    ce_rows: Literal["new", "all"] = "new"
    """Samples that it looks at: those of the stage's classes, or exemplars too."""
    distillation: float = Field(default=1.0, ge=0)
    """lambda_KD of equation (5)."""
    kd_direction: Literal["student_first", "teacher_first"] = "student_first"
    """KL(p_t || p_{t-1}) as printed, or the reverse."""
    temperature: float = Field(default=1.0, gt=0)
    feature_distance: float = Field(default=2.0, ge=0)
    """lambda_FD of equation (2)."""
    fd_reduction: Literal["mean", "sum"] = "mean"
    """Over the dimensions of a feature; the printed sum diverges at usual rates."""
    feature_balance: float = Field(default=1.0, ge=0)
    """lambda_FB of equation (3)."""


class FedHafSettings(LossSettings, AveragedSettings):
    """Everything that decides a training, the same for all devices."""

    preset: Preset = "fedhaf"

    adapter: Literal["fam", "projection", "none"] = "fam"
    """What is between backbone and head: the feature adjustment module, a linear map that stays as
    it is drawn, or nothing."""
    hidden: int = Field(default=512, ge=1, le=65_536)
    """Width of the module's two hidden layers."""
    width: int = Field(default=256, ge=1, le=65_536)
    """Number of adapted features."""
    shortcut: Literal["hidden", "input", "none"] = "hidden"
    """Where the module's shortcut begins: at its first hidden layer, at its inputs, or nowhere."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """In the module and in the head."""
    reinit: bool = False
    """Whether module and head begin anew with every stage, rather than the head's new rows only."""

    stages: Literal["two", "one"] = "two"
    """First the head, then the module; or both at once by all losses."""
    head_epochs: int = Field(default=10, ge=1, le=10_000)
    """E_1: local epochs of the head; of both while there is no old model, and in one stage."""
    adapter_epochs: int = Field(default=2, ge=1, le=10_000)
    """E_2: local epochs of the module."""
    batch: int = Field(default=64, ge=2, le=65_536)
    smallest_batch: int = Field(default=8, ge=2, le=65_536)
    """A last batch of fewer samples is left out of an epoch, unless it is the only one."""
    head_rate: float = Field(default=0.02, gt=0)
    adapter_rate: float = Field(default=1e-3, gt=0)
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine`: the rates fall to zero over a stage's rounds."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=5e-4, ge=0)

    exemplar_ratio: float = Field(default=0.2, ge=0, le=1)
    """rho: the share of a class's samples that a device remembers."""
    exemplar_choice: Literal["nearest", "random"] = "nearest"
    """The samples nearest to their class's mean as in equation (6), or any."""
    exemplar_cap: int | None = Field(default=None, ge=0, le=1_000_000)
    """B: the most samples that it remembers in all; None is no bound."""
    upload: Upload = "int32"
    """What an answer holds: weights, or in half the bytes how far they have moved."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_preset(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        return filled_in(values, "preset", PRESETS, "fedhaf")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.ce_rows == "all" and self.ce_scope == "task":
            raise ValueError(
                "ce_scope: 'task' leaves out the classes of exemplars; give 'own-task' or 'seen', "
                "or ce_rows = 'new'"
            )
        return self

    @property
    def needs_old_model(self) -> bool:
        """Whether devices are given the fleet's model of the stage before."""
        return self.stages == "two" or self.distillation > 0 or self.feature_distance > 0
