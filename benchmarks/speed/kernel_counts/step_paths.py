"""Every method's local step: the works of which a test compiles the step as one graph.

Networks are the smallest that a method takes; what a step does depends on its losses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.gpu.cases import FIRST_STAGE
from benchmarks.speed.kernel_counts.round_paths import (
    Asked,
    dcid_device,
    distilling_device,
    fbl_device,
    noise_bytes,
    rounds_device,
)
from benchmarks.speed.kernel_counts.training_paths import training_paths
from benchmarks.speed.lga_training.works import works
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Work
from fleetledger.methods.dcid.images import encode_images
from fleetledger.methods.fbl.assignment import OLD_MODEL as FBL_OLD_MODEL
from fleetledger.methods.lga.coordinator import COORDINATOR as LGA
from fleetledger.methods.rounds.assignment import FISHER
from fleetledger.methods.rounds.assignment import OLD_MODEL as ROUNDS_OLD_MODEL
from fleetledger.methods.rounds.fisher import encode_fisher, unit_zeros
from fleetledger.methods.training.exchange import SHARED
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.schemas.rounds import TRAIN

_LGA = ("lga", "glfc", "without-sdl")
_FBL = ("fbl", "without-apl", "ilt", "mib", "plop")
_DCID = ("dcid-icarl", "dcid-lucir", "dcid-erdil", "dcid-tpcil")
_ROUNDS: Mapping[str, Mapping[str, Any]] = {
    "as fedprox, fedmax and fed-ewc": {
        "proximal": 0.2,
        "fedmax": 1.0,
        "scope": "task",
        "exemplars": 0,
    },
    "as fed-lwf and flwf-2t": {"ewc": 0.0, "distillation": 3.0, "server_distillation": 0.25},
}
"""A term of each preset; several at once, for a step is compiled in seconds."""

StepPath = Callable[[], Work]
"""Prepares the work of a device, which has a batch at least."""


def step_paths() -> Mapping[str, StepPath]:
    """Return all of them by name."""
    trained = {
        name.removesuffix(", loop"): partial(_of_training, name)
        for name in ("fedhaf head, loop", "fedhaf body, loop", "rounds mlp, loop")
    }
    return {
        **trained,
        "rounds adapters": partial(_of_training, "rounds adapters of vit_b_16, loop"),
        "stsa first stage": lambda: _work(
            rounds_device(TRAIN, **{**FIRST_STAGE, "network": "resnet8", "batch": 8, "epochs": 1})
        ),
        **{f"rounds {name}": partial(_rounds, more) for name, more in _ROUNDS.items()},
        "lga first task": lambda: _lga("first task", preset="lga"),
        **{f"lga {name}": partial(_lga, "later task", preset=name) for name in _LGA},
        "lga as released": lambda: _lga("later task", mode="code"),
        "lga in slices": lambda: _lga("later task", slices="renormalised"),
        **{f"dcid {preset}": partial(_dcid, preset) for preset in _DCID},
        "dcid distilling": lambda: _work(distilling_device()),
        **{f"fbl {preset}": partial(_fbl, preset=preset) for preset in _FBL},
        "fbl as released": lambda: _fbl(mode="code", detection="rise"),
    }


def _work(asked: Asked) -> Work:
    begun = asked.begin(TrainingEngineSettings())
    assert begun is not None
    work: Work = begun.work
    return work


def _of_training(name: str) -> Work:
    return training_paths()[name].works(1, 1)[0]


def _rounds(settings: Mapping[str, Any]) -> Work:
    asked = rounds_device(TRAIN, **settings)
    told = asked.instruction
    arrays, names = decode_weights(told.weights, asked.of.network)  # type: ignore[attr-defined]
    extras = {
        ROUNDS_OLD_MODEL: told.weights,
        FISHER: encode_fisher(unit_zeros(arrays), names),
    }
    return _work(replace(asked, instruction=replace(told, extras=extras)))


def _lga(task: str, **settings: Any) -> Work:  # noqa: ANN401 - settings of the method
    common = {"network": "resnet8", "batch": 8, "epochs": 1, "detection": "stage"}
    return works(LGA.assign({**common, **settings}, (3, 8, 8)), 8)[task]


def _dcid(preset: str) -> Work:
    shared = {} if preset.startswith("dcil") else {SHARED: encode_images(noise_bytes(4))}
    return _work(dcid_device(TRAIN, shared, preset))


def _fbl(**settings: Any) -> Work:  # noqa: ANN401 - settings of the method
    asked = fbl_device(2, **settings)
    told = asked.instruction
    return _work(replace(asked, instruction=replace(told, extras={FBL_OLD_MODEL: told.weights})))
