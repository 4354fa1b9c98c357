"""Phases `train` and `distil` together: the ensemble, DCD, and who takes part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleetledger.methods.dcid.assignment import ENSEMBLE
from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.device import DEVICE
from fleetledger.methods.dcid.images import shared_images
from fleetledger.methods.dcid.memory import read_memory
from fleetledger.methods.dcid.messages import decode_ensemble, encode_ensemble
from fleetledger.methods.dcid.model import Beginning
from fleetledger.methods.errors import ContributionError, MethodError
from tests.methods.dcid import slow
from tests.methods.dcid.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EVERY,
    NEW,
    Fleet,
    asked,
    assignment,
    order,
    samples,
    sites,
)
from tests.methods.dcid.pictures import PICTURES
from tests.methods.making import joined

pytestmark = pytest.mark.torch


def trained(alike: bool = False, **settings) -> Fleet:
    """A fleet of which every site has done DID in its second session."""
    fleet = Fleet(assignment(**settings), sites(3, alike=alike))
    fleet.session(ANT, BEE)
    fleet.stage += 1
    phases = (*fleet.of.opening_phases, "train")
    for place, phase in enumerate(phases):
        fleet.phase(phase, place + 1, len(phases) + 1, EVERY, NEW)
    return fleet


def distil(fleet: Fleet) -> None:
    place = fleet.question.round_of_stage + 1
    fleet.phase("distil", place, place, EVERY, NEW)


def models(fleet: Fleet) -> list:
    """The sites' models after DID."""
    return [
        read_memory(data, fleet.of.network).after_did.arrays for data in fleet.memories.values()
    ]


def ensemble_of(fleet: Fleet) -> np.ndarray:
    images = shared_images(fleet.of, fleet.extras)
    return decode_ensemble(fleet.extras[ENSEMBLE], len(images), 4)[0]


def divergence(fleet: Fleet, arrays, ensemble, tau: float = 5.0, first: int = 2) -> float:
    """The slow KL of (3), its mean over S."""
    images = shared_images(fleet.of, fleet.extras)
    found = slow.logits(fleet.of.network, arrays, PICTURES, images)
    values = []
    for row, taught in zip(found, ensemble, strict=True):
        p, q = slow.softmax(taught[first:] / tau), slow.softmax(row[first:] / tau)
        values.append(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True)))
    return float(np.mean(values))


@pytest.mark.parametrize("form", ["float16", "int8"])
@pytest.mark.parametrize("omega", ["samples", "uniform"])
def test_the_ensemble_is_the_mean_of_what_the_sites_models_say(form, omega):
    fleet = Fleet(assignment(logits=form, omega=omega, rate=0.01), sites(3))
    fleet.sites["dev-2"] = joined(samples(20, ANT, BEE), samples(80, CAT, DOG, seed=3))
    fleet.session(ANT, BEE)
    fleet.stage += 1
    fleet.phase("share", 1, 3, EVERY, NEW)
    fleet.phase("train", 2, 3, EVERY, NEW)
    images = shared_images(fleet.of, fleet.extras)
    said = [slow.logits(fleet.of.network, arrays, PICTURES, images) for arrays in models(fleet)]
    weights = np.array([20, 20, 80]) if omega == "samples" else np.ones(3)
    expected = sum(w * z for w, z in zip(weights / weights.sum(), said, strict=True))
    largest = max(float(np.abs(z).max()) for z in said)
    step = largest * (2.0**-9 if form == "float16" else 2.0**-6)
    assert np.abs(ensemble_of(fleet) - expected).max() < step


def test_phase_train_leaves_the_weights_as_they_were():
    fleet = trained()
    assert fleet.made.weights == fleet.question.weights


def test_dcd_brings_every_site_nearer_to_the_ensemble():
    fleet = trained(dad=False, distil_rate=0.01, distil_epochs=20)
    ensemble, before = ensemble_of(fleet), models(fleet)
    distances = [divergence(fleet, arrays, ensemble) for arrays in before]
    for site in fleet.sites:
        others = {name: data for name, data in fleet.sites.items() if name == site}
        one = replace(fleet, sites=others, memories=dict(fleet.memories))
        distil(one)
        after = COORDINATOR.network_of(one.of, one.weights)[1]
        place = list(fleet.sites).index(site)
        assert divergence(fleet, after, ensemble) < distances[place] / 2


def test_identical_sites_learn_nothing_from_each_other():
    fleet = trained(alike=True, rate=0.01, distil_rate=0.01)
    # Chance is each site's own; here all have trained the same way.
    first = fleet.memories["dev-0"]
    fleet.memories = dict.fromkeys(fleet.memories, first)
    images = shared_images(fleet.of, fleet.extras)
    began = decode_ensemble(fleet.extras[ENSEMBLE], len(images), 4)[1]
    own = slow.logits(fleet.of.network, models(fleet)[0], PICTURES, images)
    fleet.extras = {**fleet.extras, ENSEMBLE: encode_ensemble(own, began)}
    distil(fleet)
    after = COORDINATOR.network_of(fleet.of, fleet.weights)[1]
    moved = max(
        float(np.abs(after[name] - array).max())
        for name, array in read_memory(first, fleet.of.network).after_did.arrays.items()
    )
    assert moved < 1e-4


def test_different_sites_do():
    fleet = trained(rate=0.01, distil_rate=0.01, dad=False)
    site = {"dev-0": fleet.sites["dev-0"]}
    before = models(fleet)[0]
    one = replace(fleet, sites=site, memories=dict(fleet.memories))
    distil(one)
    after = COORDINATOR.network_of(one.of, one.weights)[1]
    assert max(float(np.abs(after[name] - before[name]).max()) for name in before) > 1e-3


def test_a_site_without_its_model_after_did_answers_nothing():
    fleet = trained()
    fleet.memories["dev-1"] = None
    distil(fleet)
    assert set(fleet.answers) == {"dev-0", "dev-2"}


@pytest.mark.parametrize("place", [2, 4])
def test_nor_does_one_whose_model_is_of_another_round(place):
    fleet = trained()
    question = replace(fleet.question, phase="distil", round_of_stage=place, extras=fleet.extras)
    assert fleet.answer(question, NEW, "dev-0") is None


def test_nor_one_whose_model_began_with_other_weights():
    fleet = trained()
    ensemble = ensemble_of(fleet).astype(np.float64)
    other = Beginning(fleet.of, COORDINATOR.first_weights(fleet.of), (), EVERY)
    changed = encode_ensemble(ensemble, other.digest)
    extras = {**fleet.extras, ENSEMBLE: changed}
    place = fleet.question.round_of_stage + 1
    question = replace(fleet.question, phase="distil", round_of_stage=place, extras=extras)
    assert fleet.answer(question, NEW, "dev-0") is None


def test_a_model_after_did_is_distilled_once():
    fleet = trained()
    distil(fleet)
    assert all(
        read_memory(data, fleet.of.network).after_did is None for data in fleet.memories.values()
    )
    again = replace(fleet.question, extras={**fleet.question.extras})
    assert fleet.answer(again, NEW, "dev-0") is None


def test_an_order_without_an_ensemble_is_refused():
    fleet = trained()
    extras = {name: data for name, data in fleet.extras.items() if name != ENSEMBLE}
    question = replace(fleet.question, phase="distil", extras=extras)
    with pytest.raises(MethodError, match="ensemble"):
        fleet.answer(question, NEW, "dev-0")


def test_a_site_weighs_as_many_as_its_new_images_also_when_it_distils():
    fleet = trained()
    place = fleet.question.round_of_stage + 1
    question = replace(fleet.question, phase="distil", round_of_stage=place, extras=fleet.extras)
    assert fleet.answer(question, NEW, "dev-0").samples == {CAT: 10, DOG: 10}


def test_the_ensemble_goes_when_its_round_ends_and_the_old_model_stays():
    fleet = trained()
    before, place = fleet.weights, fleet.question.round_of_stage + 1
    fleet.phase("distil", place, place + 2, EVERY, NEW)
    assert ENSEMBLE not in fleet.extras
    assert fleet.extras["old-model"] == before


def test_what_only_a_session_needs_goes_with_it():
    fleet = trained()
    assert ENSEMBLE in fleet.extras
    distil(fleet)
    assert fleet.extras == {}


def test_an_answer_to_another_phase_is_refused():
    fleet = trained()
    logits = fleet.answers["dev-0"]
    question = replace(fleet.question, phase="distil", extras=fleet.extras)
    with pytest.raises(ContributionError):
        COORDINATOR.check(fleet.of, logits, question)
    distil(fleet)
    with pytest.raises(ContributionError):
        COORDINATOR.check(fleet.of, fleet.answers["dev-0"], asked_again(fleet))


def asked_again(fleet: Fleet):
    return replace(fleet.question, phase="train")


def test_a_phase_that_the_assignment_does_not_have_is_refused():
    of = assignment(dcd=False)
    with pytest.raises(MethodError, match="'distil' is none of share, train-alone"):
        COORDINATOR.check(of, b"", asked(of, phase="distil"))
    asks = order(asked(of, phase="vote"), 1, (ANT, BEE), "dev-0", 1)
    with pytest.raises(MethodError, match="'vote'"):
        DEVICE.begin(of, asks, samples(20, ANT, BEE), None, PICTURES)


def test_features_of_a_backbone_are_refused():
    of = assignment()
    asks = order(asked(of), 1, (ANT, BEE), "dev-0", 1)
    with pytest.raises(MethodError, match="without a backbone"):
        DEVICE.begin(of, asks, samples(20, ANT, BEE), None, None)
