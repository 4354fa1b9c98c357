"""Settings of DCID: the sites' learner, what is distilled on which images, and the local training.

A preset chooses the learner, and DCID or the basic framework: the same learner, whose weights are
averaged and nothing else, with the local loss of FedAvg, FedMAX or FedProx. Whatever is given
beside a preset wins. README.md has the symbols.
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

LearnerName = Literal["icarl", "lucir", "erdil", "tpcil"]
HeadKind = Literal["linear", "cosine"]
LogitForm = Literal["float16", "int8"]
Omega = Literal["samples", "uniform"]
SharedSet = Literal["devices", "public", "synthetic"]
DistilNorm = Literal["eval", "train", "train-frozen"]
RunningStatistics = Literal["averaged", "sent", "re-estimated"]

Preset = Literal[
    "dcid-icarl",
    "dcid-lucir",
    "dcid-erdil",
    "dcid-tpcil",
    "dcil-icarl-fedavg",
    "dcil-icarl-fedmax",
    "dcil-icarl-fedprox",
    "dcil-lucir-fedavg",
    "dcil-lucir-fedmax",
    "dcil-lucir-fedprox",
    "dcil-erdil-fedavg",
    "dcil-erdil-fedmax",
    "dcil-erdil-fedprox",
    "dcil-tpcil-fedavg",
    "dcil-tpcil-fedmax",
    "dcil-tpcil-fedprox",
]

_LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "icarl": {"learner": "icarl", "evaluation": "nearest-mean"},
    "lucir": {"learner": "lucir", "network": "resnet32_signed", "imprint_at": "fleet"},
    "erdil": {"learner": "erdil"},
    "tpcil": {"learner": "tpcil"},
}
_BASIC: Mapping[str, Any] = {"dcd": False, "dad": False}
_LOCAL: Mapping[str, Mapping[str, Any]] = {
    "fedavg": {},
    "fedmax": {"fedmax": 500.0},
    "fedprox": {"proximal": 0.2},
}

_OWN: Mapping[LearnerName, tuple[HeadKind, float]] = {
    "icarl": ("linear", 5.0),
    "lucir": ("cosine", 5.0),
    "erdil": ("linear", 100.0),
    "tpcil": ("cosine", 15.0),
}
"""Head, and lambda of (1) as the paper has it on CIFAR-100."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    **{f"dcid-{learner}": values for learner, values in _LEARNERS.items()},
    **{
        f"dcil-{learner}-{local}": {**values, **_BASIC, **added}
        for learner, values in _LEARNERS.items()
        for local, added in _LOCAL.items()
    },
}
"""What each preset sets beside the defaults."""


class LearnerSettings(Strict):
    """The incremental learner of the sites, and its anchor loss l_a."""

    learner: LearnerName = "icarl"
    strength: float | None = Field(default=None, ge=0)
    """lambda of (1); None: the learner's own."""
    head: HeadKind | None = None
    """None: the learner's own."""
    distill_on: Literal["anchors", "all"] = "anchors"
    """Samples of l_a: the anchors, as DCID defines it, or all, as the programs of iCaRL and LUCIR
    have it. LUCIR's ranking always looks at anchors."""
    anchors_per_class: int = Field(default=20, ge=0, le=100_000)
    """Images of each earlier class that a site trains on again."""
    scores: Literal["softmax", "sigmoid"] = "softmax"
    """iCaRL's outputs: one distribution, or each class its own, as its first program."""
    temperature: float = Field(default=2.0, gt=0)
    """T of iCaRL's distillation."""
    adaptive: bool = True
    """Whether LUCIR's lambda grows with the root of old classes per new one."""
    ranking: float = Field(default=1.0, ge=0)
    """Factor of LUCIR's margin ranking."""
    ranking_margin: float = Field(default=0.5, ge=0)
    ranking_hardest: int = Field(default=2, ge=1)
    """K: new classes that an anchor's class is held against."""
    imprinting: bool = True
    """Whether LUCIR's new rows begin as the means of their classes."""
    imprint_at: Literal["sites", "fleet"] = "sites"
    """Whose images LUCIR's new rows are the means of: each site's own, or, once before a session's
    rounds, those of all sites, so that all begin with equal rows."""
    hold_old_rows: bool = True
    """Whether LUCIR's rows of old classes stay as they are."""
    triples: int = Field(default=512, ge=1, le=1_000_000)
    """Of ERDIL, drawn in each step."""

    @property
    def head_kind(self) -> HeadKind:
        """The kind of head that is set, or the learner's own."""
        return self.head or _OWN[self.learner][0]

    @property
    def anchor_strength(self) -> float:
        """The lambda that is set, or the learner's own."""
        return _OWN[self.learner][1] if self.strength is None else self.strength

    @property
    def imprints_together(self) -> bool:
        """Whether rows of new classes are imprinted by the images of all sites."""
        return self.learner == "lucir" and self.imprinting and self.imprint_at == "fleet"


class DistillationSettings(Strict):
    """Distillation on the shared set: at the sites (DCD), and at the coordinator (DAD)."""

    dcd: bool = True
    """Whether sites distil from the ensemble of all, equation (3)."""
    dad: bool = True
    """Whether the coordinator distils the ensemble into the mean, equation (5)."""
    running_statistics: RunningStatistics = "averaged"
    """Of the mean's batch normalisation: averaged as weights are; those that the round sent, as
    where parameters alone are averaged; or measured anew on the shared set."""
    omega: Omega = "samples"
    """Weigh logits in the ensemble by the sites' numbers of samples, or alike."""
    softmax_range: Literal["new", "all"] = "new"
    """Classes that distillation compares: those of the session, or all."""
    tau1: float = Field(default=5.0, gt=0)
    tau2: float = Field(default=5.0, gt=0)
    reduction: Literal["mean", "mean_tau2", "sum"] = "mean_tau2"
    """Of the divergence over a batch; `mean_tau2`: the mean times tau squared."""
    distil_rate: float = Field(default=1e-4, gt=0)
    distil_epochs: int = Field(default=5, ge=1, le=10_000)
    distil_batch: int = Field(default=128, ge=2, le=65_536)
    distil_norm: DistilNorm = "eval"
    """Batch normalisation while distilling: by the running statistics, which stay; by the batch,
    which they follow; or by the batch, while they stay."""
    shared_set: SharedSet = "devices"
    """Unlabelled images to distil on: of the devices whose owners allow it, given with the network,
    or made by both sides from the seed."""
    shared_per_class: int = Field(default=20, ge=0, le=10_000)
    """q: images of each new class that a device shares; 0: nothing is shared, nor distilled."""
    synthetic_images: int = Field(default=1000, ge=1, le=100_000)
    """How many, where they are made."""
    logits: LogitForm = "float16"
    """How logits travel: half precision, or 8 bits in steps of a power of two."""


class DcidSettings(LearnerSettings, DistillationSettings, NamedNetworkSettings):
    """Everything that decides a training, the same for all sites."""

    preset: Preset = "dcid-icarl"
    network: str = "resnet32"
    """A name of `learning.networks`, of one that takes pictures and is trained as a whole."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Of the first weights, new rows of the head, and what is shuffled or made for all."""
    base: Literal["central", "federated"] = "federated"
    """Where classes of first weights that were trained elsewhere come from: with `central` a stage
    of nothing but these needs no rounds."""
    evaluation: Literal["head", "nearest-mean"] = "head"
    """What exported models answer by: the trained head, or the nearest mean of exemplars."""

    proximal: float = Field(default=0.0, ge=0)
    """mu of FedProx in the sites' loss."""
    proximal_reduction: Literal["sum", "tensor_mean"] = "sum"
    fedmax: float = Field(default=0.0, ge=0)
    """beta of FedMAX in the sites' loss."""
    fedmax_direction: Literal["uniform_first", "softmax_first"] = "uniform_first"
    fedmax_reduction: Literal["mean", "sum"] = "mean"

    epochs: int = Field(default=10, ge=1, le=10_000)
    """Local epochs E of a round."""
    rate: float = Field(default=0.01, gt=0)
    decrease_epochs: tuple[int, ...] = Field(default=(), max_length=100)
    """Local epochs, counted from 0, from which on the rate is lower."""
    base_epochs: int | None = Field(default=None, ge=1, le=10_000)
    """Of a session without old classes; None: as in every other."""
    base_rate: float | None = Field(default=None, gt=0)
    base_decrease_epochs: tuple[int, ...] | None = None
    decrease_factor: float = Field(default=0.1, gt=0, le=1)
    """What the rate is multiplied with at each of them."""
    rate_schedule: Literal["training", "session"] = "training"
    """What `decrease_epochs` count: epochs of each local training, or of all of a session."""
    batch: int = Field(default=128, ge=2, le=65_536)
    smallest_batch: int = Field(default=8, ge=2, le=65_536)
    """A last batch of fewer samples is left out of an epoch, unless it is the only one."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=5e-4, ge=0)
    pad: int = Field(default=0, ge=0, le=64)
    """Black pixels around a picture, of which a window of its size is cut by chance."""
    flip: bool = False
    """Whether half of the pictures are mirrored by chance."""

    averaging: Literal["samples", "plain"] = "samples"
    """Weigh models in (4) by their sites' numbers of samples, or alike."""
    upload: Upload = "int32"
    """What an answer holds: weights, or in half the bytes how far they have moved."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_preset(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        return filled_in(values, "preset", PRESETS, "dcid-icarl")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.learner == "lucir" and self.head == "linear":
            raise ValueError("head: 'linear', but LUCIR compares cosines; leave it out")
        if self.learner == "icarl" and self.scores == "sigmoid" and self.head == "cosine":
            raise ValueError("head: 'cosine', but sigmoids need a bias; give 'linear'")
        if self.re_estimates and not self.shares:
            raise ValueError(
                "running_statistics: 're-estimated' without images to measure them on; give "
                "shared_per_class above 0, or another shared_set"
            )
        return self

    @property
    def shares(self) -> bool:
        """Whether there is a set of images that the coordinator has, and all sites may get."""
        wanted = self.dcd or self.dad or self.re_estimates
        return wanted and (self.shared_set != "devices" or self.shared_per_class > 0)

    @property
    def collaborates(self) -> bool:
        """Whether sites distil from the ensemble."""
        return self.dcd and self.shares

    @property
    def aggregates(self) -> bool:
        """Whether the coordinator distils the ensemble into the mean."""
        return self.dad and self.shares

    @property
    def re_estimates(self) -> bool:
        """Whether the coordinator measures the mean's running statistics on the shared set."""
        return self.running_statistics == "re-estimated"
