"""The coordinator's half: exact means, growing heads, what follows a stage, what is refused."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest

from learning.errors import RangeError
from methods.answers import AnswerFrame
from methods.errors import ContributionError, MethodError
from methods.network_weights import decode_weights, encode_weights
from methods.rounds import coordinator
from methods.rounds.assignment import FISHER, OLD_MODEL
from methods.rounds.fisher import decode_fisher, unit_zeros
from schemas.tensors import encode_tensors
from tests.methods.making import given, no_answers, still
from tests.methods.rounds.making import CAT, DOG, OWL, answer, asked, assignment, moved, sent


def test_the_coordinators_half_needs_no_torch() -> None:
    code = "import sys, methods.rounds.coordinator; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_first_weights_are_equal_everywhere_and_have_no_row() -> None:
    of = assignment()
    first = coordinator.first_weights(of)
    assert first == coordinator.first_weights(of)
    assert first != coordinator.first_weights(assignment(seed=2))
    assert decode_weights(first, of.network)[1] == ()


@pytest.mark.parametrize("averaging", ["samples", "plain"])
def test_the_mean_is_that_of_the_answers(averaging: str) -> None:
    of = assignment(averaging=averaging)
    question = asked(of)
    models = [moved(of, question, seed) for seed in range(4)]
    counts = [3, 1, 10, 6]
    answers = [given(answer(of, question, m), n) for m, n in zip(models, counts, strict=True)]
    made = coordinator.combine(of, question, answers)
    shares = np.array(counts if averaging == "samples" else [1] * 4, float)
    mean, names = decode_weights(made.weights, of.network)
    assert names == (CAT, DOG)
    assert made.samples == 20
    for name, array in mean.items():
        expected = np.average([model[name] for model in models], axis=0, weights=shares)
        assert np.abs(array - expected).max() < 2**-20


def test_the_mean_is_the_same_in_any_order_to_the_last_bit() -> None:
    of = assignment()
    question = asked(of)
    answers = [
        given(answer(of, question, moved(of, question, seed)), seed + 1) for seed in range(4)
    ]
    made = [coordinator.combine(of, question, order) for order in permutations(answers)]
    assert len({item.weights for item in made}) == 1
    assert len({item.aggregate for item in made}) == 1


def test_the_mean_of_identical_answers_is_the_answer() -> None:
    of = assignment()
    question = asked(of)
    payload = answer(of, question, sent(of, question))
    made = coordinator.combine(of, question, [given(payload, n) for n in (1, 7, 90)])
    mean, _ = decode_weights(made.weights, of.network)
    for name, array in sent(of, question).items():
        assert np.abs(mean[name] - array).max() <= 2**-22


def test_client_drift_is_the_spread_of_answers_over_the_step_of_their_mean() -> None:
    of = assignment(averaging="plain")
    question = asked(of)
    models = [moved(of, question, seed) for seed in range(3)]
    made = coordinator.combine(of, question, [given(answer(of, question, m)) for m in models])
    trained = [name for name in sent(of, question) if "running" not in name]

    def flat(arrays: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([arrays[name].ravel().astype(float) for name in trained])

    rows = np.stack([flat(model) for model in models])
    mean = rows.mean(axis=0)
    spread = np.sqrt(((rows - mean) ** 2).sum(axis=1).mean())
    step = np.linalg.norm(mean - flat(sent(of, question)))
    assert made.client_drift == pytest.approx(spread / step, rel=1e-3)


def test_a_head_grows_by_class_name_and_keeps_its_rows() -> None:
    of = assignment()
    first = asked(of, CAT, DOG)
    weights = coordinator.combine(
        of, first, [given(answer(of, first, moved(of, first, 1)))]
    ).weights
    before, _ = decode_weights(weights, of.network)
    second = asked(of, CAT, DOG, OWL, weights=weights, rows=(CAT, DOG))
    grown = sent(of, second)
    assert np.array_equal(grown["head.weight"][:2], before["head.weight"])
    alone = sent(of, asked(of, OWL))
    assert np.array_equal(grown["head.weight"][2], alone["head.weight"][0])


def test_a_class_that_was_merged_away_has_no_row_any_more() -> None:
    of = assignment()
    first = asked(of, CAT, DOG, OWL)
    weights = encode_weights(sent(of, first), (CAT, DOG, OWL))
    after = sent(of, asked(of, CAT, OWL, weights=weights))
    assert np.array_equal(after["head.weight"], sent(of, first)["head.weight"][[0, 2]])


def test_what_is_no_answer_is_refused_by_name() -> None:
    of = assignment()
    question = asked(of)
    for payload, named in no_answers(sent(of, question), without="head.bias"):
        with pytest.raises(ContributionError, match=named):
            coordinator.check(of, payload, question)
    coordinator.check(of, encode_tensors(still(sent(of, question))), question)


def test_weights_that_are_no_numbers_never_leave_a_device() -> None:
    of = assignment()
    question = asked(of)
    arrays = sent(of, question)
    arrays["head.bias"] = np.array([np.nan, 0], np.float32)
    with pytest.raises(RangeError, match=r"head\.bias"):
        answer(of, question, arrays)


def test_more_samples_than_the_sum_was_proven_for_are_refused() -> None:
    of = assignment()
    question = asked(of)
    payload = answer(of, question, sent(of, question))
    with pytest.raises(MethodError, match="samples: 2147483649"):
        coordinator.combine(of, question, [given(payload, 2**31 + 1), given(payload)])


def test_the_old_model_of_distillation_is_the_one_that_ended_its_stage() -> None:
    of = assignment(preset="fed-lwf")
    early, last = asked(of), asked(of, round_of_stage=2)
    one = coordinator.combine(of, early, [given(answer(of, early, moved(of, early, 1)))])
    assert not one.extras
    made = coordinator.combine(of, last, [given(answer(of, last, moved(of, last, 2)))])
    assert made.extras == {OLD_MODEL: made.weights}
    later = asked(of, CAT, DOG, OWL, weights=made.weights, rows=(CAT, DOG), extras=made.extras)
    after = coordinator.combine(of, later, [given(answer(of, later, moved(of, later, 3)))])
    assert after.extras == {OLD_MODEL: made.weights}


def test_the_fisher_diagonal_is_averaged_after_the_rounds_and_mixed_with_the_one_before() -> None:
    of = assignment(preset="fed-ewc")
    assert of.closing_phases == (FISHER,)

    def measured(value: float, like: dict[str, np.ndarray]) -> bytes:
        arrays = {name: np.full(array.shape, value, np.float32) for name, array in like.items()}
        return AnswerFrame(like).encode(arrays)

    first = asked(of, CAT, DOG, phase=FISHER, round_of_stage=2)
    zeros = unit_zeros(sent(of, first))
    answers = [given(measured(0.25, zeros), 1), given(measured(1.0, zeros), 2)]
    made = coordinator.combine(of, first, answers)
    assert made.weights == first.weights
    assert made.extras[OLD_MODEL] == first.weights
    fisher, names = decode_fisher(made.extras[FISHER], shapes(zeros))
    assert names == (CAT, DOG)
    assert np.allclose(fisher["head.weight"], 0.75, atol=1e-6)

    second = asked(of, CAT, DOG, OWL, phase=FISHER, round_of_stage=2, extras=dict(made.extras))
    zeros = unit_zeros(sent(of, second))
    again = coordinator.combine(of, second, [given(measured(0.0, zeros))])
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
    ):
        with pytest.raises(MethodError, match=why):
            assignment(**settings)


def test_what_is_given_beside_a_preset_wins() -> None:
    assert assignment(preset="fedprox").settings.proximal == 0.2
    assert assignment(preset="fedprox", proximal=3.0).settings.proximal == 3.0
    again = coordinator.read_assignment(assignment(preset="icarl").model_dump(mode="json"))
    assert again == assignment(preset="icarl")


def test_a_network_is_made_for_features_too() -> None:
    of = coordinator.assign({"network": "fam", "head": "hidden"}, (20,))
    arrays, _ = decode_weights(coordinator.first_weights(of), of.network)
    assert arrays["linear0.weight"].shape == (512, 20)
    assert coordinator.read_assignment(of.model_dump(mode="json")) == of


def test_settings_of_pictures_are_refused_for_features_and_the_other_way_round() -> None:
    with pytest.raises(MethodError, match="'resnet18' cannot take the 20 features of a frozen"):
        coordinator.assign({"network": "resnet18"}, (20,))
    with pytest.raises(MethodError, match="'fam' cannot take pictures of shape"):
        coordinator.assign({"network": "fam"}, (1, 8, 8))
    with pytest.raises(MethodError, match="pad and flip change pictures"):
        coordinator.assign({"network": "mlp", "flip": True}, (20,))
