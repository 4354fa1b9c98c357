"""What an operator may set for STSA, and the defaults that were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Discriminator, Field, Tag, model_validator
from typing_extensions import Self

from fleetledger.learning.numerics.estimated_gram import EstimatorRule, SingleHolder
from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST, largest_feature
from fleetledger.learning.numerics.ridge_choice import RIDGES, choose_ridge
from fleetledger.methods.settings import Presets, filled_in
from fleetledger.methods.statistics.part_settings import PartSettings
from fleetledger.runtime.count_words import count_of

MAX_COLUMNS = 16_384
"""Most features h of a sample: a triangle of 48 bits stays below the largest payload, 1 GiB."""
RIDGE_PER_SQUARE = 10.0
"""Default ridge, in units of the square of the largest integer feature. Measured: handwritten
digits are best at 0.06 to 0.6, CIFAR-100 on MobileNetV2 features at 30; 10 costs the first about
a point and the second 0.4 at most, where 3 would cost it up to 3.4."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Form = Literal["compact", "exact", "estimated"]
"""What travels: a rounded R factor, the whole integer triangle, or class sums of groups."""
Noise = Literal["none", "sums", "counts", "both"]
Ridge = Annotated[
    Annotated[float, Field(gt=0), Tag("<number>")] | Annotated[Literal["from-sums"], Tag("<rule>")],
    Discriminator(lambda given: "<rule>" if isinstance(given, str) else "<number>"),
]
"""A number, or the rule that finds it."""
Preset = Literal["default", "best", "released", "released-estimated"]
_RELEASED: Mapping[str, Any] = {"map": "gaussian", "ridge": 1e6, "head": "cosine"}
PRESETS: Presets = {
    "best": {
        "map": "none",
        "form": "exact",
        "ridge": "from-sums",
        "head": "whitened",
        "novelty": "distance",
        "max_samples_per_part": 2500,
    },
    "released": {**_RELEASED, "form": "exact"},
    "released-estimated": {
        **_RELEASED,
        "form": "estimated",
        "groups": 5,
        "split": "shuffled",
        "group_minimum": 1,
        "count_all_clients": True,
    },
}
"""What each preset sets. `best` wants a backbone that gives several layers, at most some 2,000
features in all: then exact sums are small, and no random map is needed. A triangle of more samples
is hardly larger, so parts may be. `released` and `released-estimated` are STSA and STSA-E as in the
authors' program, with the numbers that stand in its `main.py`."""


class StsaSettings(PartSettings):
    """The settings of one lineage: all devices use the same, and they never change within it."""

    preset: Preset = "default"
    """Settings that go together; whatever is given beside them wins."""
    map: Literal["integer", "gaussian", "none"] = "integer"
    """`integer`: exact features. `gaussian`: the paper's floating-point map. `none`: the backbone's
    quantised features themselves."""
    map_width: int = Field(default=1250, ge=1, le=MAX_COLUMNS)
    """M, the number of random features; without a map the backbone's width counts."""
    map_seed: int = Field(default=1, ge=0, lt=2**63)
    feature_bits: Literal[7, 8] = 7
    """Bits of an integer feature behind the integer map."""

    form: Form = "compact"
    """The form in which devices contribute that choose none."""
    forms: tuple[Form, ...] = ()
    """Forms that a device may choose beside that one."""
    compact_bits: int = Field(default=10, ge=8, le=15)
    """Bits of a value of the R factor."""
    compact_finest: int = Field(default=-4, ge=-16, le=0)
    """Exponent of the finest step of a row; the coarsest follows from the largest part."""
    gaussian_steps: tuple[int, int] = (-20, -16)
    """Finest and coarsest exponent of the steps of a triangle behind the Gaussian map."""

    groups: int = Field(default=10, ge=1, le=1000)
    """Groups that a part of the estimated form is split into, each like a device of its own."""
    split: Literal["per_class", "shuffled"] = "per_class"
    """`per_class`: each class is dealt out in turn. `shuffled`: all samples are cut into equal
    chunks, as the published program does."""
    group_minimum: int = Field(default=2, ge=1, le=1000)
    """Fewest samples of a class in a group; the sum of a single one is its feature."""
    hold_back: bool | None = None
    """Whether a class waits on the device while a part has fewer of it than `group_minimum`. Left
    out: yes where the estimated form is allowed, else no."""
    single_holder: SingleHolder = "pooled"
    """The covariance of a class that one group holds: that of the stage's others, or zero."""
    count_all_clients: bool | Annotated[int, Field(ge=2, le=1_000_000)] = False
    """Count every group of every device of a stage for every class, empty ones too, as the
    published program does; biased. A number is that of all devices: those that have no images of a
    stage, of which the coordinator hears no groups, count then as well."""

    noise: Noise = "none"
    """What devices add noise to: sums (of the exact form, also G), counts, or both."""
    noise_deviation: float = Field(default=0.05, gt=0, le=1000)
    """s; deviations are in units of the largest integer feature, of its square in G, and of one
    sample in counts; behind the Gaussian map features have no unit."""
    noise_strength: float = Field(default=0.2, gt=0, le=1000)
    """q; what is added is q times noise of deviation s."""

    ridge: Ridge | None = None
    """lambda, added to the Gram matrix of the features as they are. Left out, it is 10 times the
    square of the largest integer feature; behind the Gaussian map it must be given. `from-sums`:
    chosen for every head from the sums that it is solved from."""
    head: Literal["linear", "cosine", "whitened"] = "linear"
    """`cosine`: every class's weights are brought to one length. `whitened`: to one length where
    the Gram matrix measures, which makes scores cosines after whitening."""
    novelty: Literal["entropy", "distance"] = "entropy"
    """By what devices notice new classes. `distance`: the relative Mahalanobis distance of scores,
    which the sums give; a model is 12 C^2 bytes larger for C classes."""
    logit_scale: float = Field(default=10.0, gt=0, le=1e6)
    """Inverse temperature: probabilities = softmax(logit_scale * scores)."""
    max_samples_per_part: int = Field(default=1000, ge=1, le=1_000_000)
    """More samples go into several parts; a small part needs little memory on the device."""
    max_contributions: int | None = Field(default=None, ge=1, le=1_000_000)
    """Contributions of the whole fleet for which sums are proven to fit 64 bits; each addition is
    checked, so that more may come. Left out, 100,000; behind the Gaussian map, whose numbers are
    wider, 4,096."""

    @property
    def allowed_forms(self) -> tuple[Form, ...]:
        """Every form in which a device may contribute; the default comes first."""
        return (self.form, *sorted({*self.forms} - {self.form}))

    @property
    def largest(self) -> int:
        """The largest magnitude of an integer feature; without meaning for the Gaussian map."""
        return largest_feature(self.feature_bits) if self.map == "integer" else QUANTISED_LARGEST

    @property
    def min_samples_per_class(self) -> int:
        """The fewest samples of a class that a part may hold."""
        held_back = self.hold_back
        if held_back is None:
            held_back = "estimated" in self.allowed_forms
        return self.group_minimum if held_back else 1

    @property
    def noise_size(self) -> float:
        """The deviation of what is added, in the units of `noise_deviation`."""
        return self.noise_strength * self.noise_deviation

    @property
    def contribution_limit(self) -> int:
        """The number of contributions for which sums are proven."""
        if self.max_contributions is None:
            return 4096 if self.map == "gaussian" else 100_000
        return self.max_contributions

    @property
    def counts_empty_groups(self) -> bool:
        """Whether K is the number of all groups of all devices, as in the published program."""
        return self.count_all_clients is not False

    @property
    def all_clients(self) -> int:
        """The number of all devices, where it is told; else 0."""
        told = self.count_all_clients
        return 0 if isinstance(told, bool) else told

    @property
    def ridge_value(self) -> float:
        """The ridge that was given, or the default."""
        return self.ridge if isinstance(self.ridge, float) else RIDGE_PER_SQUARE * self.largest**2

    def ridge_for(self, gram: Floats, correlation: Floats, counts: Integers) -> float:
        """Return the ridge that is added to the diagonal of G (M x M).

        `correlation` is P (M x C), `counts` the samples of each class (C,). Where sums decide and
        tell nothing, as those of a single class, it is the default.
        """
        if self.ridge != "from-sums":
            return self.ridge_value
        grid = [self.largest**2 * ridge for ridge in RIDGES]
        return choose_ridge(gram, correlation, counts, grid) or self.ridge_value

    def estimator_rule(self, groups: int) -> EstimatorRule:
        """Return how a stage with so many groups is estimated."""
        return EstimatorRule(self.single_holder, groups if self.counts_empty_groups else None)

    @model_validator(mode="before")
    @classmethod
    def _presets_fill_in(cls, values: Any) -> Any:  # noqa: ANN401 - not checked yet
        filled = filled_in(values, "preset", PRESETS, "default")
        if not isinstance(filled, dict):
            return filled
        # Of JSON's arrays pydantic makes tuples itself only where nothing came before it.
        return {name: tuple(v) if isinstance(v, list) else v for name, v in filled.items()}

    @model_validator(mode="after")
    def _gaussian_is_consistent(self) -> Self:
        finest, coarsest = self.gaussian_steps
        if not -64 <= finest <= coarsest <= 64:
            raise ValueError(
                f"gaussian_steps: {finest}, {coarsest}; give -64 <= finest <= coarsest <= 64"
            )
        if self.map == "gaussian" and "compact" in self.allowed_forms:
            raise ValueError(
                "form: the Gaussian map has no compact form; set form to 'exact' or 'estimated'"
            )
        if self.map == "gaussian" and not isinstance(self.ridge, float):
            raise ValueError(
                "ridge: the Gaussian map leaves features unscaled, so there is no default and no "
                "grid to choose from; give one (the paper uses 1e4 to 1e6)"
            )
        return self

    @model_validator(mode="after")
    def _privacy_is_consistent(self) -> Self:
        if self.noise != "none" and "compact" in self.allowed_forms:
            raise ValueError(
                "noise: the compact form cannot carry it, since a noisy Gram matrix has no R "
                "factor; allow only the forms 'exact' and 'estimated'"
            )
        noisy_gram = self.noise in ("sums", "both") and "exact" in self.allowed_forms
        if noisy_gram and self.ridge == "from-sums":
            raise ValueError(
                "ridge: 'from-sums' may choose less than noise takes from a Gram matrix, and then "
                "no head can be solved; give a number, or allow the form 'estimated' alone"
            )
        if self.split == "shuffled" and self.group_minimum > 1:
            raise ValueError(
                "split: shuffled chunks can hold a class once; set group_minimum to 1 to accept "
                "that single features travel, or use 'per_class'"
            )
        if self.max_samples_per_part < self.min_samples_per_class:
            raise ValueError(
                f"max_samples_per_part: {self.max_samples_per_part}; a part must have room for "
                f"{count_of(self.min_samples_per_class, 'sample')}, the group_minimum"
            )
        return self
