"""What is compared, and the footing that all share; a method differs in nothing but its settings.

Statistics and methods on features see the features of `cifar100-best` themselves. LGA, GLFC and
DCID train on pictures alone, so they are given the same features as pictures (`material`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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

Sight = Literal["statistics", "features", "pictures"]
_RATES = (0.005, 0.02, 0.08)
_CALIBRATED_STEPS = (0.02, 0.08, 0.3)
_PLAIN_STEPS = (0.05, 0.2, 0.8)
"""Of SGD without momentum."""


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
    dear: bool = False
    """Minutes a seed; measured after all the others."""

    def changes(self, material: Material, seed: int, rate: float | None) -> list[str]:
        """Return what a run of the table sets in the scenario."""
        return _texts(
            {"seeds": [seed], **self._fields(rate), **self._data(material.core, material.pictures)}
        )

    def tuning_changes(self, material: Material, rate: float) -> list[str]:
        """Return what a run sets that tries a rate, on training images held out."""
        return _texts(
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


def _texts(fields: Mapping[str, Any]) -> list[str]:
    return [f"{name}={_text(value)}" for name, value in fields.items()]


def _text(value: Any) -> str:  # noqa: ANN401 - any value of a scenario
    return str(value).lower() if isinstance(value, bool) else str(value)


_LOCAL = {"epochs": EPOCHS, "batch": BATCH, "upload": "int16"}
_HIDDEN = {"network": "identity", "head": "hidden", **_LOCAL}
"""One hidden layer of 128 behind the features: FedHAF's head, for everybody who trains on them."""
_PERCEPTRON = {"network": "mlp", **_LOCAL}
"""Hidden layers of 128 and 64: what there is for pictures, and about as many numbers."""


def _rounds(title: str, preset: str, **settings: Any) -> Method:  # noqa: ANN401 - settings
    given = {"preset": preset, **_HIDDEN, **settings}
    return Method(title, "rounds", "features", given, rate="rate")


def _fedhaf(title: str, preset: str, rounds: int, **settings: Any) -> Method:  # noqa: ANN401
    memory = {"exemplar_ratio": 1.0, "exemplar_cap": MEMORY}
    given = {"preset": preset, "batch": BATCH, "upload": "int16", **memory, **settings}
    fields = {"rounds.per_stage": rounds, "evaluation.every_rounds": rounds}
    return Method(
        title, "fedhaf", "features", given, fields, rate="head_rate", rates=_CALIBRATED_STEPS
    )


def _lga(title: str, preset: str, dear: bool = False, tuned_as: str | None = None) -> Method:
    """Return a case of LGA; those with a proxy are dear, and choose their rate without it."""
    given = {"preset": preset, **_PERCEPTRON, "memory": MEMORY, "detection": "stage"}
    return Method(
        title,
        "lga",
        "pictures",
        {**given, **(_SHORT_SEARCH if dear else {})},
        {"devices.policy.publish_gradients": True},
        rate="rate",
        rates=_PLAIN_STEPS,
        tuning={"old_model": "random"} if dear else {},
        tuned_as=tuned_as,
        dear=dear,
    )


_SHORT_SEARCH = {"reserved": STAGES * CLASSES_PER_STAGE, "inversion_steps": 10}
"""A hundred outputs of Gamma, and a search that ends as soon as it finds such pictures."""
_DCID = {
    "preset": "dcid-icarl",
    **_PERCEPTRON,
    "anchors_per_class": MEMORY // (STAGES * CLASSES_PER_STAGE),
    "shared_per_class": MEMORY // (STAGES * CLASSES_PER_STAGE),
}
_PAPER_MAP = {"preset": "default", "map_width": 5000}

METHODS: Mapping[str, Method] = {
    "joint": Method(
        "joint training, all images in one place",
        "joint",
        "features",
        {"network": "identity", "head": "hidden", "epochs": 1, "batch": BATCH},
        {"rounds.per_stage": 5, "evaluation.every_rounds": 5},
        rate="rate",
    ),
    "stsa-best": Method("STSA, preset `best`", "stsa", settings={"preset": "best"}),
    "pooled": Method(
        "pooled features, logistic regression",
        "pooled",
        settings={"tolerance": 1e-4},
        fields={"devices.policy.publish_features": True},
        dear=True,
    ),
    "stsa-compact": Method("STSA, compact form, M = 5000", "stsa", settings=_PAPER_MAP, dear=True),
    "stsa-printed": Method(
        "STSA as printed: Gaussian map, exact, M = 5000",
        "stsa",
        settings={**_PAPER_MAP, "map": "gaussian", "form": "exact", "ridge": 1e4},
        dear=True,
    ),
    "stsa-e": Method(
        "STSA-E, 10 groups, M = 5000",
        "stsa",
        settings={**_PAPER_MAP, "form": "estimated"},
        dear=True,
    ),
    "fed3r": Method("Fed3R", "fed3r"),
    "fedcof": Method("FedCOF", "fedcof"),
    "fedncm": Method("FedNCM", "fedncm"),
    "fedhaf-calibrated": _fedhaf(
        "FedHAF, `calibrated`, without FAM",
        "calibrated",
        ROUNDS,
        adapter="none",
        head_epochs=EPOCHS,
    ),
    "fedhaf": _fedhaf(
        "FedHAF, its paper's losses, FAM of 256, 4 rounds",
        "fedhaf",
        4,
        hidden=256,
        head_epochs=EPOCHS,
    ),
    "icarl": _rounds("iCaRL in a fleet", "icarl", exemplars=MEMORY),
    "fedavg-exemplars": _rounds("FedAvg with exemplars", "fedavg-exemplars", exemplars=MEMORY),
    "fed-lwf": _rounds("Fed-LwF", "fed-lwf"),
    "fed-ewc": _rounds("Fed-EWC", "fed-ewc"),
    "fedprox": _rounds("FedProx", "fedprox"),
    "fedmax": _rounds("FedMAX", "fedmax"),
    "fedavg": _rounds("FedAvg", "fedavg"),
    "lga": _lga("LGA", "lga", dear=True),
    "lga-without-psr": _lga("LGA without a proxy (`without-psr`)", "without-psr", tuned_as="lga"),
    "glfc": _lga("GLFC", "glfc", dear=True),
    "lga-fedavg-exemplars": _lga("FedAvg with LGA's network and exemplars", "fedavg-exemplars"),
    "dcid": Method(
        "DCID with iCaRL",
        "dcid",
        "pictures",
        _DCID,
        {"devices.policy.publish_images": True},
        rate="rate",
    ),
}
"""By name, in the order in which they are measured; the table is sorted by what they reach."""
