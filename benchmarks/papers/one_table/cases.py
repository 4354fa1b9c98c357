"""Rows of the table, and the footing that all share; a method differs in its settings alone.

Statistics and methods on features see the features of `cifar100-best` themselves. LGA, GLFC and
DCID train on pictures alone, so they are given the same features as pictures (`material`). Two
rows are fitted to all images in one place until nothing moves (`joint`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.papers.footing.changes import as_changes
from benchmarks.papers.one_table.material import SIDE, Material
from benchmarks.papers.simulated_cifar.claims import PUBLISHED_BYTES

SCENARIO = "cifar100-best"
"""It ships: ten stages of ten classes, five devices, Dirichlet 0.1, 1,920 frozen features."""
SEEDS = (1, 2, 3)
TUNING_SEED, TUNING_STAGES, CLASSES_PER_STAGE = 4, 3, 10
"""Rates are chosen with a seed of its own, on its first stages, by training images held out."""
DEVICES, STAGES = 5, 10
ROUNDS, EPOCHS, BATCH = 10, 2, 64
MEMORY = 400
"""Exemplars that a device may keep, over all classes: 2,000 in the fleet, as in iCaRL's paper."""
BUDGET = round(0.06 * PUBLISHED_BYTES)
"""Bytes that a device may send in a stage: 0.06 of STSA's Table 5, which is `best`'s own bound."""
GRADIENT_BOUND = 1e-5
"""Largest entry of the gradient at which the joint linear head is done."""

Sight = Literal["statistics", "features", "pictures"]
JointFit = Literal["linear", "hidden"]
_RATES = (0.005, 0.02, 0.08)
_CALIBRATED_STEPS = (0.02, 0.08, 0.3)
_PLAIN_STEPS = (0.05, 0.2, 0.8)
"""Of SGD without momentum."""
_SIGMOID_STEPS = (0.5, 2.0, 8.0)
"""The same for a mean over sigmoids, whose gradients are smaller by the number of classes."""
_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Rates that are tried at least, and at most, until the best has tried ones on both sides."""


@dataclass(frozen=True)
class Method:
    """A row of the table."""

    title: str
    name: str
    sight: Sight = "statistics"
    settings: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the scenario."""
    rate: str | None = None
    """The setting that the best of `rates` is chosen for; None: there is none."""
    rates: tuple[float, ...] = _RATES
    tuning: Mapping[str, Any] = field(default_factory=dict)
    """Settings beside the others while a rate is chosen."""
    tuned_as: str | None = None
    """The method whose rate it takes, of which it is an ablation."""
    joint: JointFit | None = None
    """Fitted in one place by `joint` instead of run as a fleet."""
    printed_seconds: float | None = None
    """Seconds of a task on one RTX 3090 as FedHAF's paper prints them, of CIFAR-100 in ten."""
    printed_mib: float | None = None
    """MiB that a device sends in a task as the method's paper prints them."""

    @property
    def rounds(self) -> int | None:
        """Rounds of a stage in which a device answers; None for statistics and joint rows."""
        if self.sight == "statistics" or self.name == "joint":
            return None
        return int(self.fields.get("rounds.per_stage", ROUNDS))

    def changes(self, material: Material, seed: int, rate: float | None) -> list[str]:
        """Return what a run of the table sets in the scenario."""
        return as_changes(
            {"seeds": [seed], **self._fields(rate), **self._data(material.core, material.pictures)}
        )

    def tuning_changes(self, material: Material, rate: float) -> list[str]:
        """Return what a run sets that tries a rate, on training images held out."""
        return as_changes(
            {
                "seeds": [TUNING_SEED],
                **self._fields(rate),
                **{f"method.settings.{name}": value for name, value in self.tuning.items()},
                **self._data(material.held_out, material.held_out_pictures),
                "data.per_class": material.per_class_kept,
                "data.test_per_class": material.per_class_held_out,
                "stages.classes": TUNING_STAGES * CLASSES_PER_STAGE,
                "stages.count": TUNING_STAGES,
            }
        )

    def _fields(self, rate: float | None) -> dict[str, Any]:
        settings = {**self.settings, **({self.rate: rate} if self.rate else {})}
        fields: dict[str, Any] = {"method.name": self.name}
        if self.sight != "statistics":
            fields |= {"rounds.per_stage": ROUNDS, "evaluation.every_rounds": ROUNDS}
        if self.sight == "features" and self.name != "fedhaf":
            fields["method.on_features"] = True
        settings_fields = {f"method.settings.{name}": value for name, value in settings.items()}
        return {**fields, **self.fields, **settings_fields}

    def _data(self, own: Any, pictures: Any) -> dict[str, Any]:  # noqa: ANN401 - paths
        if self.sight != "pictures":
            return {"data.root": own}
        return {
            "data.root": pictures,
            "backbone.network": "pixels",
            "backbone.layers": [],
            "backbone.mirror": False,
            "backbone.size": SIDE,
        }


_LOCAL = {"epochs": EPOCHS, "batch": BATCH, "upload": "int16"}
_HIDDEN = {"network": "identity", "head": "hidden", **_LOCAL}
"""One hidden layer of 128 behind the features: FedHAF's head, for everybody who trains on them."""
_PERCEPTRON = {"network": "mlp", **_LOCAL}
"""Hidden layers of 128 and 64: what there is for pictures, and about as many numbers."""


def _rounds(title: str, preset: str, **settings: Any) -> Method:  # noqa: ANN401 - settings
    given = {"preset": preset, **_HIDDEN, **settings}
    return Method(
        title, "rounds", "features", given, rate="rate", printed_seconds=_SECONDS.get(preset)
    )


def _fedhaf(title: str, preset: str, rounds: int, **settings: Any) -> Method:  # noqa: ANN401
    memory = {"exemplar_ratio": 1.0, "exemplar_cap": MEMORY}
    given = {"preset": preset, "batch": BATCH, "upload": "int16", **memory, **settings}
    fields = {"rounds.per_stage": rounds, "evaluation.every_rounds": rounds}
    return Method(
        title,
        "fedhaf",
        "features",
        {**given, "head_epochs": EPOCHS},
        fields,
        rate="head_rate",
        rates=_CALIBRATED_STEPS,
        printed_seconds=_SECONDS.get(preset),
    )


def _lga(
    title: str,
    preset: str,
    mode: Literal["paper", "code"],
    *,
    proxy: bool = False,
    tuned_as: str | None = None,
) -> Method:
    """Return a case of LGA; with a proxy it chooses its rate without it, in seconds."""
    given = {"preset": preset, "mode": mode, **_PERCEPTRON}
    return Method(
        f"{title}, mode `{mode}`",
        "lga",
        "pictures",
        {**given, "memory": MEMORY, "detection": "stage", **(_SHORT_SEARCH if proxy else {})},
        {"devices.policy.publish_gradients": True},
        rate="rate",
        rates=_PLAIN_STEPS if mode == "paper" else _SIGMOID_STEPS,
        tuning={"old_model": "random"} if proxy else {},
        tuned_as=tuned_as,
    )


_SECONDS = {"fedavg": 16.5, "fedprox": 19.4, "fedhaf": 67.3}
"""Seconds of a task on one RTX 3090, as FedHAF prints them: ResNet-152 features, own protocol."""
_SHORT_SEARCH = {
    "reserved": STAGES * CLASSES_PER_STAGE,
    "inversion_steps": 10,
    "inversion_rate": 1.0,
    "inversion_start": "grey",
}
"""A hundred outputs of Gamma, and a search that ends as soon as it finds such pictures."""
_DCID = {
    "preset": "dcid-icarl",
    "evaluation": "head",
    **_PERCEPTRON,
    "anchors_per_class": MEMORY // (STAGES * CLASSES_PER_STAGE),
    "shared_per_class": MEMORY // (STAGES * CLASSES_PER_STAGE),
}
_PAPER_MAP = {"preset": "default", "map_width": 5000}


def _joint(
    title: str,
    fit: JointFit | None,
    settings: Mapping[str, Any],
    rate: str = "rate",
    rates: tuple[float, ...] = _RATES,
) -> Method:
    return Method(
        title,
        "joint",
        "features",
        {"network": "identity", "epochs": 1, "batch": BATCH, **settings},
        {"rounds.per_stage": 5, "evaluation.every_rounds": 5},
        rate=rate,
        rates=rates,
        joint=fit,
    )


METHODS: Mapping[str, Method] = {
    "fedavg-task": _rounds("FedAvg, the stage's classes alone (`fedavg-task`)", "fedavg-task"),
    "joint-linear": _joint(
        f"joint, linear head by L-BFGS to a gradient of {GRADIENT_BOUND:g}",
        "linear",
        {"head": "linear"},
        rate="weight_decay",
        rates=_PENALTIES,
    ),
    "joint": _joint("joint, hidden 128, five passes a stage", None, {"head": "hidden"}),
    "stsa-best": Method("STSA, preset `best`", "stsa", settings={"preset": "best"}),
    "stsa-compact": Method("STSA, compact form, M = 5000", "stsa", settings=_PAPER_MAP),
    "stsa-printed": Method(
        "STSA as printed: Gaussian map, exact, M = 5000",
        "stsa",
        settings={**_PAPER_MAP, "map": "gaussian", "form": "exact", "ridge": 1e4},
        printed_mib=95.56,
    ),
    "stsa-e": Method(
        "STSA-E, 10 groups, M = 5000",
        "stsa",
        settings={**_PAPER_MAP, "form": "estimated"},
        printed_mib=9.54,
    ),
    "fed3r": Method("Fed3R", "fed3r"),
    "fedcof": Method("FedCOF", "fedcof"),
    "fedncm": Method("FedNCM", "fedncm"),
    "fedhaf-calibrated": _fedhaf(
        "FedHAF, `calibrated`, without FAM", "calibrated", ROUNDS, adapter="none"
    ),
    "fedhaf": _fedhaf("FedHAF, its paper's losses, FAM of 256, 4 rounds", "fedhaf", 4, hidden=256),
    "fedhaf-printed": _fedhaf("FedHAF, its paper's losses, FAM of 512", "fedhaf", ROUNDS),
    "fedhaf-calibrated-fam": _fedhaf("FedHAF, `calibrated`, FAM of 512", "calibrated", ROUNDS),
    "icarl": _rounds("iCaRL in a fleet", "icarl", exemplars=MEMORY),
    "fedavg-exemplars": _rounds("FedAvg with exemplars", "fedavg-exemplars", exemplars=MEMORY),
    "rounds-best": _rounds("rounds, preset `best`", "best", exemplars=MEMORY),
    "fedavg-counts": _rounds(
        "FedAvg with exemplars, class counts in its loss",
        "fedavg-exemplars",
        exemplars=MEMORY,
        ce_prior="device",
    ),
    "fedavg-aligned": _rounds(
        "FedAvg with exemplars and aligned rows (WA's second half)",
        "fedavg-aligned",
        exemplars=MEMORY,
    ),
    "fedavg-refit": _rounds(
        "FedAvg with exemplars, its head refitted after each stage",
        "fedavg-refit",
        exemplars=MEMORY,
    ),
    "ss-il": _rounds("SS-IL in a fleet", "ss-il", exemplars=MEMORY),
    "wa": _rounds("WA in a fleet", "wa", exemplars=MEMORY),
    "bic": _rounds("BiC in a fleet", "bic", exemplars=MEMORY),
    "fed-lwf": _rounds("Fed-LwF", "fed-lwf"),
    "fed-ewc": _rounds("Fed-EWC", "fed-ewc"),
    "fedprox": _rounds("FedProx", "fedprox"),
    "fedmax": _rounds("FedMAX", "fedmax"),
    "fedavg": _rounds("FedAvg", "fedavg"),
    "lga-without-psr": _lga(
        "LGA without a proxy (`without-psr`)", "without-psr", "paper", tuned_as="lga"
    ),
    "lga-code-without-psr": _lga("LGA without a proxy (`without-psr`)", "without-psr", "code"),
    "lga-fedavg-exemplars": _lga(
        "FedAvg with LGA's network and exemplars", "fedavg-exemplars", "paper"
    ),
    "lga-fedavg-exemplars-code": _lga(
        "FedAvg with LGA's network and exemplars", "fedavg-exemplars", "code"
    ),
    "dcid": Method(
        "DCID with iCaRL, by its head",
        "dcid",
        "pictures",
        _DCID,
        {"devices.policy.publish_images": True},
        rate="rate",
    ),
    "dcid-nearest": Method(
        "DCID with iCaRL, by nearest means",
        "dcid",
        "pictures",
        {**_DCID, "evaluation": "nearest-mean"},
        {"devices.policy.publish_images": True},
        rate="rate",
    ),
    "lga": _lga("LGA", "lga", "paper", proxy=True),
    "glfc": _lga("GLFC", "glfc", "paper", proxy=True),
    "lga-code": _lga("LGA", "lga", "code", proxy=True, tuned_as="lga-code-without-psr"),
    "joint-hidden": _joint(
        "joint, hidden 512, fifty passes a stage", "hidden", {"head": "hidden", "epochs": 50}
    ),
    "glfc-code": _lga("GLFC", "glfc", "code", proxy=True),
    "pooled": Method(
        "pooled features, logistic regression",
        "pooled",
        settings={"tolerance": 1e-4},
        fields={"devices.policy.publish_features": True},
    ),
}
"""By name, in the order in which they are measured; the table is sorted by what they reach."""
