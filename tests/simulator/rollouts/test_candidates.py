"""Candidates are whole models, and each is wrong in the one way that its kind says."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.export.errors import ModelFileError
from fleetledger.export.joined import join_model
from fleetledger.export.noise import noise_inputs
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import SCORES
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.rollouts.brightness import between, brightest
from fleetledger.simulator.rollouts.candidates import make_candidate
from fleetledger.simulator.scenario.rollout import CandidateKind, CandidateSettings
from tests.simulator.rollouts.making import digits


def candidate(kind: CandidateKind, **settings: object) -> LoadedModel:
    chosen = CandidateSettings.model_validate({"kind": kind, **settings})
    return LoadedModel(make_candidate(chosen, digits().material, 1))


def answers(model: LoadedModel, pictures: np.ndarray) -> np.ndarray:
    name = digits().manifest.preprocessing.input_name
    return model.run({name: pictures}, [SCORES])[SCORES].argmax(axis=1)


def active(pictures: np.ndarray) -> np.ndarray:
    material = digits().material
    return answers(LoadedModel(join_model(material.frozen, material.head)), pictures)


def right(rows: np.ndarray) -> float:
    return float((rows == digits().rows).mean())


def test_a_good_one_answers_nearly_everything_alike():
    found = answers(candidate("good"), digits().usual)
    assert 0.97 < (found == active(digits().usual)).mean() < 1
    assert abs(right(found) - right(active(digits().usual))) < 0.02


def test_one_that_is_bad_on_a_class_loses_that_class_and_nothing_else():
    lost = digits().manifest.class_names[4]
    found = answers(candidate("bad-class", of_class=lost), digits().usual)
    others = digits().rows != 4
    assert not (found == 4).any()
    assert (found[others] == active(digits().usual)[others]).mean() > 0.97


def test_the_lost_class_is_the_first_where_none_is_said():
    assert not (answers(candidate("bad-class"), digits().usual) == 0).any()


def test_a_class_that_the_model_does_not_know_is_refused_by_name():
    with pytest.raises(EngineError, match=r"rollout\.candidate\.of_class: 'pear' is no class"):
        candidate("bad-class", of_class=ClassName("pear"))


def test_one_that_is_bad_on_dim_cameras_is_the_active_model_on_all_others():
    model = candidate("bad-camera")
    assert np.array_equal(answers(model, digits().usual), active(digits().usual))
    assert right(active(digits().dim)) > 0.9
    assert right(answers(model, digits().dim)) < 0.2


def test_a_slow_one_gives_the_same_answers():
    some = digits().usual[:40]
    assert np.array_equal(answers(candidate("slow", work=3), some), active(some))


def test_a_crashing_one_runs_on_made_up_pictures_and_not_on_those_of_devices():
    model, known = candidate("crashing"), digits().manifest.preprocessing
    answers(model, noise_inputs(known, 8))
    with pytest.raises(ModelFileError, match="cannot run it"):
        answers(model, digits().usual[:8])


@pytest.mark.parametrize("kind", ["good", "bad-class", "slow"])
def test_the_same_settings_give_the_same_bytes(kind: CandidateKind):
    settings = CandidateSettings(kind=kind, work=2)
    made = [make_candidate(settings, digits().material, 1) for _ in range(2)]
    assert made[0] == made[1]


def test_pictures_that_are_equally_bright_cannot_be_told_apart():
    with pytest.raises(EngineError, match="cannot be told apart"):
        between(digits().usual[:50], digits().usual[50:], brightest)
