"""The coordinator side of training in rounds: what follows a stage, which settings fit together."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.rounds.assignment import FISHER, OLD_MODEL
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.fisher import decode_fisher, unit_zeros
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from tests.methods.making import given
from tests.methods.rounds.making import CAT, DOG, OWL, answer, asked, assignment, moved, sent


def test_client_drift_is_the_spread_of_answers_over_the_step_of_their_mean() -> None:
    of = assignment(averaging="plain")
    question = asked(of)
    models = [moved(of, question, seed) for seed in range(3)]
    made = COORDINATOR.combine(of, question, [given(answer(of, question, m)) for m in models])
    trained = [name for name in sent(of, question) if "running" not in name]

    def flat(arrays: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([arrays[name].ravel().astype(float) for name in trained])

    rows = np.stack([flat(model) for model in models])
    mean = rows.mean(axis=0)
    spread = np.sqrt(((rows - mean) ** 2).sum(axis=1).mean())
    step = np.linalg.norm(mean - flat(sent(of, question)))
    assert made.client_drift == pytest.approx(spread / step, rel=1e-3)


def test_a_class_that_was_merged_away_has_no_row_any_more() -> None:
    of = assignment()
    first = asked(of, CAT, DOG, OWL)
    weights = encode_weights(sent(of, first), (CAT, DOG, OWL))
    after = sent(of, asked(of, CAT, OWL, weights=weights, rows=(CAT, DOG, OWL)))
    assert np.array_equal(after["head.weight"], sent(of, first)["head.weight"][[0, 2]])


def test_the_fisher_diagonal_is_averaged_after_the_rounds_and_mixed_with_the_one_before() -> None:
    of = assignment(preset="fed-ewc")
    assert of.closing_phases == (FISHER,)

    def measured(value: float, like: dict[str, np.ndarray]) -> bytes:
        arrays = {name: np.full(array.shape, value, np.float32) for name, array in like.items()}
        return UpdateFrame(like).encode(arrays)

    first = asked(of, CAT, DOG, phase=FISHER, round_of_stage=2)
    zeros = unit_zeros(sent(of, first))
    answers = [given(measured(0.25, zeros), 1), given(measured(1.0, zeros), 2)]
    made = COORDINATOR.combine(of, first, answers)
    assert made.weights == first.weights
    assert made.extras[OLD_MODEL] == first.weights
    fisher, names = decode_fisher(made.extras[FISHER], shapes(zeros))
    assert names == (CAT, DOG)
    assert np.allclose(fisher["head.weight"], 0.75, atol=1e-6)

    second = asked(of, CAT, DOG, OWL, phase=FISHER, round_of_stage=2, extras=dict(made.extras))
    zeros = unit_zeros(sent(of, second))
    again = COORDINATOR.combine(of, second, [given(measured(0.0, zeros))])
    fisher, names = decode_fisher(again.extras[FISHER], shapes(zeros))
    assert names == (CAT, DOG, OWL)
    # alpha = 2 / 3 of what was known, and the new row as it is
    assert np.allclose(fisher["head.weight"][:2], 0.5, atol=1e-6)
    assert np.allclose(fisher["head.weight"][2], 0.0)


def shapes(arrays: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


def test_wrong_settings_are_told_by_field() -> None:
    for settings, why in (
        ({"network": "resnet-9000"}, "resnet-9000"),
        ({"rate": -1.0}, "rate"),
        ({"preset": "fedsgd"}, "preset"),
        ({"scope": "task", "exemplars": 5}, "scope"),
        ({"scope": "task", "exemplars_per_class": 5}, "scope"),
    ):
        with pytest.raises(MethodError, match=why):
            assignment(**settings)


def test_what_is_given_beside_a_preset_wins() -> None:
    assert assignment(preset="fedprox").settings.proximal == 0.2
    assert assignment(preset="fedprox", proximal=3.0).settings.proximal == 3.0
    told = assignment(preset="wa", exemplars_per_class=5, calibration="none")
    assert COORDINATOR.read_assignment(told.model_dump(mode="json")) == told
    again = COORDINATOR.read_assignment(assignment(preset="icarl").model_dump(mode="json"))
    assert again == assignment(preset="icarl")


def test_a_network_is_made_for_features_too() -> None:
    of = COORDINATOR.assign({"network": "fam", "head": "hidden"}, (20,))
    arrays, _ = decode_weights(COORDINATOR.first_weights(of), of.network)
    assert arrays["linear0.weight"].shape == (512, 20)
    assert COORDINATOR.read_assignment(of.model_dump(mode="json")) == of


def test_settings_of_pictures_are_refused_for_features_and_the_other_way_round() -> None:
    with pytest.raises(MethodError, match="'resnet18' cannot take the 20 features of a frozen"):
        COORDINATOR.assign({"network": "resnet18"}, (20,))
    with pytest.raises(MethodError, match="'fam' cannot take pictures of shape"):
        COORDINATOR.assign({"network": "fam"}, (1, 8, 8))
    with pytest.raises(MethodError, match="pad and flip change pictures"):
        COORDINATOR.assign({"network": "mlp", "flip": True}, (20,))
