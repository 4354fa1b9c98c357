"""Every switch of the settings changes what devices send when they learn a second task."""

from __future__ import annotations

import math
from functools import cache

import pytest

from fleetledger.learning.losses.segmentation import presets
from fleetledger.learning.losses.segmentation.composition import WeightedTerm
from fleetledger.learning.losses.segmentation.local_pod import PodFactors
from fleetledger.learning.losses.segmentation.parts import ProbableLabels
from fleetledger.learning.losses.segmentation.terms import LocalPod
from fleetledger.methods.fbl.losses import loss_of
from fleetledger.methods.fbl.settings import FblSettings
from tests.methods.fbl.making import assignment
from tests.methods.fbl.training import Taught, learn

pytestmark = pytest.mark.torch

BASE = {"epochs": 1}
"""What the first task was learned with is always the same."""


@cache
def payload(**settings):
    fleet = Taught(assignment(**{**BASE, **settings}))
    answer = fleet.learn()
    assert answer.loss is not None
    assert math.isfinite(answer.loss)
    return answer.payload


@pytest.mark.parametrize(
    "settings",
    [
        {"preset": "without-apl"},
        {"preset": "without-fsc"},
        {"preset": "without-frc"},
        {"preset": "finetuning"},
        {"preset": "lwf"},
        {"preset": "ilt"},
        {"preset": "mib"},
        {"preset": "plop"},
        {"preset": "rcil"},
        {"mode": "code", "detection": "rise"},
        {"unsure": "ignore"},
        {"pod_literal": True},
        {"pod": 0.0},
        {"pod_maps": 1.0},
        {"pod_logits": 0.01},
        {"relations": 2.0},
        {"share_start": 0.7},
        {"share_start": 0.0},
        {"growth": "seeded"},
        {"rate": 0.01},
        {"epochs": 2},
        {"batch": 4},
        {"batch_parts": 2},
        {"momentum": 0.5},
        {"nesterov": False},
        {"weight_decay": 0.01},
        {"crop": 24},
        {"most_scale": 1.5},
        {"least_scale": 0.5},
        {"flip": True},
        {"frozen_norm": "trunk"},
        {"frozen_norm": "all"},
        {"upload": "int16"},
    ],
    ids=str,
)
def test_it_changes_the_payload(settings):
    assert payload(**settings) != payload()


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"preset": "without-apl"}, {"probability": 0.99}),
        ({"growth": "seeded"}, {"seed": 2}),
        ({"preset": "lwf"}, {"distillation": 1.0}),
        ({"preset": "ilt"}, {"encoder": 1.0}),
        ({"preset": "mib"}, {"distillation": 1.0}),
        ({"preset": "plop"}, {"pod": 3.0}),
        ({"preset": "rcil"}, {"pod": 3.0}),
        ({"mode": "code", "detection": "rise"}, {"pod": 3.0}),
        ({"mode": "code", "detection": "rise"}, {"preset": "without-apl"}),
    ],
    ids=str,
)
def test_it_changes_the_payload_beside_another(settings, more):
    assert payload(**settings, **more) != payload(**settings)


def test_a_power_changes_the_rates_and_the_same_settings_give_the_same_bytes():
    fleets = [Taught(assignment(**BASE), rounds=4) for _ in range(2)]
    one, again = (fleet.learn().payload for fleet in fleets)
    assert one == again
    later = Taught(assignment(**BASE, power=0.0))
    made = later.combined()
    falling = Taught(assignment(**BASE))
    still = learn(later.of, later.second(made), later.new)
    assert still.payload != learn(falling.of, falling.second(made), falling.new).payload


def test_the_losses_are_those_of_the_presets_that_others_use():
    network = assignment().network
    literal = WeightedTerm(0.0005, LocalPod(factors=PodFactors(1.0, 1.0)))
    for settings, terms in (
        ({}, presets.fbl()),
        ({"pod_literal": True}, presets.fbl(pod=literal)),
        ({"preset": "without-fsc"}, presets.fbl(balanced=False)),
        ({"weight_bounds": (0.5, 5.0)}, presets.fbl(bounds=(0.5, 5.0))),
        ({"preset": "without-frc"}, presets.fbl(relations=0.0)),
        ({"mode": "code"}, presets.released_fbl(current=2)),
        (
            {"mode": "code", "preset": "without-apl"},
            presets.released_fbl(current=2, labels=ProbableLabels(unsure="ignore")),
        ),
        (
            {"mode": "code", "preset": "without-fsc"},
            presets.released_fbl(current=2, balanced=False),
        ),
        (
            {"mode": "code", "preset": "without-frc"},
            presets.released_fbl(current=2, relations=False),
        ),
        ({"preset": "finetuning"}, presets.finetuning()),
        ({"preset": "lwf"}, presets.lwf()),
        ({"preset": "ilt"}, presets.ilt()),
        ({"preset": "mib"}, presets.mib()),
        ({"preset": "plop"}, presets.plop()),
        ({"preset": "rcil"}, presets.rcil()),
    ):
        assert loss_of(network, FblSettings(**settings), 2, taught=True).terms == terms, settings
        alone = loss_of(network, FblSettings(**settings), 2, taught=False)
        released = settings.get("mode") == "code"
        assert alone.terms == (presets.released_first() if released else presets.finetuning())
