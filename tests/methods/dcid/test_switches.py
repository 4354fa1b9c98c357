"""Every switch changes what it says it changes: the general model after a session, or the bytes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.settings import DcidSettings
from tests.methods.dcid.making import ANT, BEE, CAT, DOG, Fleet, assignment, samples
from tests.methods.making import joined

pytestmark = pytest.mark.torch

COMMON = {"rate": 0.01, "epochs": 2, "distil_epochs": 2}


def model(**settings) -> dict:
    return modelled(tuple(sorted(settings.items())))


@cache
def modelled(settings: tuple) -> dict:
    """The general model of a small fleet after its second session."""
    return made(**dict(settings))


def made(**settings) -> dict:
    sites = {
        f"dev-{number}": joined(
            samples(16, ANT, BEE, seed=number),
            samples(12 + 8 * number, CAT, DOG, seed=10 + number),
        )
        for number in range(2)
    }
    fleet = Fleet(assignment(**{**COMMON, **settings}), sites)
    fleet.session(ANT, BEE)
    fleet.session(CAT, DOG, rounds=2)
    return COORDINATOR.network_of(fleet.of, fleet.weights)[1]


def far(one: dict, other: dict) -> float:
    assert one.keys() == other.keys()
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


LUCIR = {"learner": "lucir"}
ALONE = {"dcd": False, "dad": False}

SWITCHES = {
    "dcd": ({}, {"dcd": False}),
    "dad": ({}, {"dad": False}),
    "omega": ({}, {"omega": "uniform"}),
    "softmax_range": ({}, {"softmax_range": "all"}),
    "tau1": ({}, {"tau1": 1.0}),
    "tau2": ({}, {"tau2": 1.0}),
    "reduction-mean": ({}, {"reduction": "mean"}),
    "reduction-sum": ({}, {"reduction": "sum"}),
    "distil_rate": ({}, {"distil_rate": 1e-4}),
    "distil_epochs": ({}, {"distil_epochs": 4}),
    "distil_batch": ({}, {"distil_batch": 4}),
    "distil_norm-train": ({}, {"distil_norm": "train"}),
    "distil_norm-frozen": ({"distil_norm": "train"}, {"distil_norm": "train-frozen"}),
    "distil_norm-batch": ({}, {"distil_norm": "train-frozen"}),
    "running_statistics-sent": (ALONE, {**ALONE, "running_statistics": "sent"}),
    "running_statistics-measured": (ALONE, {**ALONE, "running_statistics": "re-estimated"}),
    "running_statistics-before-dad": ({}, {"running_statistics": "re-estimated"}),
    "shared_set": ({}, {"shared_set": "synthetic", "synthetic_images": 20}),
    "synthetic_images": (
        {"shared_set": "synthetic", "synthetic_images": 20},
        {"shared_set": "synthetic", "synthetic_images": 30},
    ),
    "shared_per_class": ({}, {"shared_per_class": 2}),
    "anchors_per_class": (ALONE, {**ALONE, "anchors_per_class": 2}),
    "logits": ({}, {"logits": "int8"}),
    "averaging": (ALONE, {**ALONE, "averaging": "plain"}),
    "upload": (ALONE, {**ALONE, "upload": "int16"}),
    "distill_on": (ALONE, {**ALONE, "distill_on": "all"}),
    "strength": (ALONE, {**ALONE, "strength": 1.0}),
    "temperature": (ALONE, {**ALONE, "temperature": 1.0}),
    "scores": (ALONE, {**ALONE, "scores": "sigmoid"}),
    "proximal": (ALONE, {**ALONE, "proximal": 5.0}),
    "proximal_reduction": (
        {**ALONE, "proximal": 5.0},
        {**ALONE, "proximal": 5.0, "proximal_reduction": "tensor_mean"},
    ),
    "fedmax": (ALONE, {**ALONE, "fedmax": 100.0}),
    "fedmax_direction": (
        {**ALONE, "fedmax": 100.0},
        {**ALONE, "fedmax": 100.0, "fedmax_direction": "softmax_first"},
    ),
    "fedmax_reduction": (
        {**ALONE, "fedmax": 10.0},
        {**ALONE, "fedmax": 10.0, "fedmax_reduction": "sum"},
    ),
    "ranking": ({**ALONE, **LUCIR}, {**ALONE, **LUCIR, "ranking": 0.0}),
    "ranking_margin": (
        {**ALONE, **LUCIR, "imprinting": False},
        {**ALONE, **LUCIR, "imprinting": False, "ranking_margin": 0.0},
    ),
    "ranking_hardest": ({**ALONE, **LUCIR}, {**ALONE, **LUCIR, "ranking_hardest": 1}),
    "imprinting": ({**ALONE, **LUCIR}, {**ALONE, **LUCIR, "imprinting": False}),
    "imprint_at": ({**ALONE, **LUCIR}, {**ALONE, **LUCIR, "imprint_at": "fleet"}),
    "hold_old_rows": ({**ALONE, **LUCIR}, {**ALONE, **LUCIR, "hold_old_rows": False}),
    "triples": ({**ALONE, "learner": "erdil"}, {**ALONE, "learner": "erdil", "triples": 8}),
    "erdil-on-all": (
        {**ALONE, "learner": "erdil"},
        {**ALONE, "learner": "erdil", "distill_on": "all"},
    ),
    "tpcil-on-all": (
        {**ALONE, "learner": "tpcil"},
        {**ALONE, "learner": "tpcil", "distill_on": "all"},
    ),
    "decrease_epochs": (ALONE, {**ALONE, "decrease_epochs": (1,)}),
    "decrease_factor": (
        {**ALONE, "decrease_epochs": (1,)},
        {**ALONE, "decrease_epochs": (1,), "decrease_factor": 0.5},
    ),
    "rate_schedule": (
        {**ALONE, "decrease_epochs": (1,)},
        {**ALONE, "decrease_epochs": (1,), "rate_schedule": "session"},
    ),
    "base_epochs": (ALONE, {**ALONE, "base_epochs": 4}),
    "base_rate": (ALONE, {**ALONE, "base_rate": 0.02}),
    "base_decrease_epochs": (ALONE, {**ALONE, "base_decrease_epochs": (1,)}),
    "momentum": (ALONE, {**ALONE, "momentum": 0.0}),
    "weight_decay": (ALONE, {**ALONE, "weight_decay": 0.1}),
    "batch": (ALONE, {**ALONE, "batch": 8}),
    "smallest_batch": (ALONE, {**ALONE, "smallest_batch": 16}),
    "pad": (ALONE, {**ALONE, "pad": 1}),
    "flip": (ALONE, {**ALONE, "flip": True}),
    "seed": (ALONE, {**ALONE, "seed": 2}),
    "network": (ALONE, {**ALONE, "network": "convnet"}),
    "head": (ALONE, {**ALONE, "head": "cosine"}),
    "evaluation": (ALONE, {**ALONE, "evaluation": "nearest-mean"}),
}
"""What is compared with what, by the switch that is turned."""

OTHERWISE = {"preset", "learner", "adaptive", "base", "rate", "epochs", "network_options"}
"""Settings that other tests turn: options of networks in test_named_networks, presets and phases in
test_settings, LUCIR's factor in test_training, a base session from elsewhere in test_sessions;
rates and epochs are the engine's."""

BY_SHAPE = {"network", "head", "evaluation"}


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_changes_the_general_model(switch):
    one, other = (model(**settings) for settings in SWITCHES[switch])
    if switch in BY_SHAPE:
        assert {n: a.shape for n, a in one.items()} != {n: a.shape for n, a in other.items()}
    else:
        assert far(one, other) > 1e-6


def test_there_is_a_test_for_every_setting():
    turned = {name.split("-")[0] for name in SWITCHES} | OTHERWISE
    assert set(DcidSettings.model_fields) <= turned


@pytest.mark.parametrize("learner", ["icarl", "lucir", "erdil", "tpcil"])
def test_a_run_is_the_same_to_the_last_bit_when_it_is_repeated(learner):
    one, other = (made(learner=learner) for _ in range(2))
    assert far(one, other) == 0


def test_learners_differ():
    found = [model(**ALONE, learner=name) for name in ("lucir", "tpcil")]
    assert far(*found) > 1e-3
    found = [model(**ALONE, learner=name) for name in ("icarl", "erdil")]
    assert far(*found) > 1e-3
