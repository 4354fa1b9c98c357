"""What is compared about batch normalisation, and the three rates that each case chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCENARIO = "cifar100-core-dcid"
TUNED_ON = 0
"""The seed by which a case chooses its rate; no figure is of it."""
SEEDS = (1, 2, 3)
RATES: Mapping[str, tuple[float, ...]] = {
    "rate": (0.01, 0.02, 0.05),
    "distil_rate": (1e-4, 1e-3, 1e-2),
}

_PROTOCOL: Mapping[str, Any] = {
    "stages.classes": 20,
    "stages.first": 12,
    "stages.count": 3,
    "rounds.per_stage": 2,
    "evaluation.every_rounds": 1,
    "evaluation.ensemble": "true",
    "engine.device": "cpu",
    "method.settings.epochs": 4,
    "method.settings.anchors_per_class": 8,
    "method.settings.shared_per_class": 20,
    "method.settings.distil_epochs": 5,
    "method.settings.distil_batch": 128,
}
"""Smaller than the scenario in classes; q, epochs and batch of distilling are the paper's."""


@dataclass(frozen=True)
class NormCase:
    """How sites learn, and what becomes of the running statistics of their mean."""

    title: str
    preset: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tuned: str = "rate"
    """The rate that is chosen from three."""
    rate_of: str | None = None
    """The case whose local rate is taken, where that of distilling is chosen."""
    only: float | None = None
    """The one rate of a case that has no choice."""

    @property
    def rates(self) -> tuple[float, ...]:
        """What is chosen from."""
        return RATES[self.tuned] if self.only is None else (self.only,)

    def changes(self, seed: int, rates: Mapping[str, float], core: Path | None = None) -> list[str]:
        """Return what the case sets in the scenario, with its rates, for one seed."""
        settings = {"preset": self.preset, **self.settings, **rates}
        told = {**_PROTOCOL, "seeds": [seed]}
        told |= {f"method.settings.{name}": value for name, value in settings.items()}
        if core is not None:
            told["data.root"] = core
        return [f"{name}={value}" for name, value in told.items()]


def _dcid(title: str, only: float | None = None, **settings: str) -> NormCase:
    return NormCase(
        f"DCID, {title}",
        "dcid-icarl",
        {**_MEANS, **settings},
        "distil_rate",
        "mean-averaged",
        only,
    )


_MEANS = {"evaluation": "nearest-mean"}
_LUCIR = {"network": "resnet8_signed", "imprint_at": "sites"}
_ALIKE = {**_LUCIR, "imprint_at": "fleet"}
_FALLING = {"decrease_epochs": [4], "rate_schedule": "session"}

ICARL: Mapping[str, NormCase] = {
    "mean-averaged": NormCase("mean, statistics averaged", "dcil-icarl-fedavg", _MEANS),
    "mean-sent": NormCase(
        "mean, statistics as sent", "dcil-icarl-fedavg", {**_MEANS, "running_statistics": "sent"}
    ),
    "mean-estimated": NormCase(
        "mean, statistics measured on S",
        "dcil-icarl-fedavg",
        {**_MEANS, "running_statistics": "re-estimated"},
    ),
    "dcid-eval": _dcid("norms in eval"),
    "dcid-train": _dcid("norms in train", distil_norm="train"),
    "dcid-train-still": _dcid(
        "norms in train, no learning: statistics alone", 1e-12, distil_norm="train"
    ),
    "dcid-train-sent": _dcid(
        "norms in train, statistics as sent", distil_norm="train", running_statistics="sent"
    ),
    "dcid-train-frozen": _dcid("norms in train, statistics put back", distil_norm="train-frozen"),
    "dcid-train-sum": _dcid("norms in train, printed sum", distil_norm="train", reduction="sum"),
}
BESIDE: Mapping[str, NormCase] = {
    "mean-falling": NormCase(
        "mean, rate falls over the session", "dcil-icarl-fedavg", {**_MEANS, **_FALLING}
    ),
    "lucir-sites": NormCase("LUCIR, mean, imprinted at sites", "dcil-lucir-fedavg", _LUCIR),
    "lucir-fleet": NormCase("LUCIR, mean, imprinted alike", "dcil-lucir-fedavg", _ALIKE),
    "lucir-kept": NormCase(
        "LUCIR, mean, imprinted alike, statistics stay at sites",
        "dcil-lucir-fedavg",
        {**_ALIKE, "running_statistics": "sent"},
    ),
    "lucir-dcid": NormCase(
        "LUCIR, DCID, norms in eval", "dcid-lucir", _ALIKE, "distil_rate", "lucir-fleet"
    ),
    "lucir-dcid-kept": NormCase(
        "LUCIR, DCID, norms in train, statistics stay at sites",
        "dcid-lucir",
        {**_ALIKE, "running_statistics": "sent", "distil_norm": "train"},
        "distil_rate",
        "lucir-kept",
    ),
}
CASES: Mapping[str, NormCase] = {**ICARL, **BESIDE}


def key_of(name: str, rate: float, seed: int) -> str:
    """Return what a run is called."""
    return f"{name}/{CASES[name].tuned}={rate:g}/seed-{seed}"


def chosen(kept: Mapping[str, Mapping[str, Any]], name: str) -> float | None:
    """Return the best of a case's rates with the seed of choosing; None until all were tried."""
    rates = CASES[name].rates
    if len(rates) == 1:
        return rates[0]
    tried = [kept.get(key_of(name, rate, TUNED_ON)) for rate in rates]
    found = {run["head"]: rate for run, rate in zip(tried, rates, strict=True) if run is not None}
    return found[max(found)] if all(run is not None for run in tried) else None
