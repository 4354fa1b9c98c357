"""The setting `upload`: answers of 16-bit differences, from a device's half to the mean."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.rounds.assignment import FISHER
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.methods.training.update_forms import Upload
from tests.methods.making import given
from tests.methods.rounds.making import CAT, DOG, answer, asked, assignment, moved, sent

SHORT = assignment(upload="int16")


def test_weights_travel_whole_unless_it_is_said() -> None:
    assert assignment().settings.upload == "int32"
    with pytest.raises(MethodError, match="upload"):
        assignment(upload="int8")


def test_the_mean_is_that_of_the_answers_to_a_small_part_of_their_moves() -> None:
    question = asked(SHORT)
    models = [moved(SHORT, question, seed) for seed in range(4)]
    counts = [3, 1, 10, 6]
    answers = [given(answer(SHORT, question, m), n) for m, n in zip(models, counts, strict=True)]
    for one in answers:
        COORDINATOR.check(SHORT, one.read(), question)
    made = COORDINATOR.combine(SHORT, question, answers)
    mean, names = decode_weights(made.weights, SHORT.network)
    assert names == (CAT, DOG)
    for name, before in sent(SHORT, question).items():
        expected = np.average([model[name] for model in models], axis=0, weights=counts)
        furthest = max(float(np.abs(model[name] - before).max()) for model in models)
        assert np.abs(mean[name] - expected).max() < furthest / 16_000 + 2**-22


def test_the_mean_is_the_same_in_any_order_to_the_last_bit() -> None:
    question = asked(SHORT)
    answers = [
        given(answer(SHORT, question, moved(SHORT, question, seed, far=10.0**-seed)), seed + 1)
        for seed in range(4)
    ]
    made = [COORDINATOR.combine(SHORT, question, order) for order in permutations(answers)]
    assert len({item.weights for item in made}) == 1
    assert len({item.aggregate for item in made}) == 1


def test_an_answer_takes_half_the_bytes() -> None:
    question = asked(SHORT)
    whole, short = (answer(of, question, moved(of, question, 1)) for of in (assignment(), SHORT))
    assert len(short) < 0.6 * len(whole)


def test_an_answer_in_the_other_form_is_refused() -> None:
    whole, question = assignment(), asked(SHORT)
    for of, other in ((SHORT, whole), (whole, SHORT)):
        with pytest.raises(ContributionError, match="answer: "):
            COORDINATOR.check(of, answer(other, question, sent(other, question)), question)


def test_importance_travels_whole() -> None:
    of = assignment(preset="fed-ewc", upload="int16")
    whole = assignment(preset="fed-ewc")
    question = asked(of, phase=FISHER, round_of_stage=2)
    shares = {
        name: np.full(array.shape, 0.5, np.float32)
        for name, array in sent(of, question).items()
        if "running" not in name
    }
    payload = answer(of, question, shares)
    assert payload == answer(whole, question, shares)
    COORDINATOR.check(of, payload, question)


@pytest.mark.torch
def test_a_fleet_learns_the_same_with_half_the_bytes() -> None:
    from fleetledger.learning.training.loop import train_alone
    from fleetledger.learning.training.settings import TrainingEngineSettings
    from fleetledger.methods.rounds.device import DEVICE
    from tests.methods.rounds.making import images
    from tests.methods.rounds.training import begun, order

    def trained(upload: Upload) -> tuple[dict[str, np.ndarray], int]:
        of = assignment(upload=upload)
        weights, rows, size = COORDINATOR.first_weights(of), (), 0
        for number in range(3):
            known = {"weights_class_names": rows, "number": number + 1}
            answers = []
            for seed in range(3):
                work = begun(
                    of, order(of, weights=weights, **known), images(24, CAT, DOG, seed=seed)
                )
                made = DEVICE.finish(of, work, train_alone(work.work, TrainingEngineSettings()))
                answers.append(given(made.payload, 24))
                size += len(made.payload)
            question = asked(of, weights=weights, rows=rows)
            weights, rows = COORDINATOR.combine(of, question, answers).weights, (CAT, DOG)
        return decode_weights(weights, of.network)[0], size

    (whole, whole_size), (short, short_size) = trained("int32"), trained("int16")
    first = decode_weights(COORDINATOR.first_weights(assignment()), assignment().network)[0]
    assert short_size < 0.6 * whole_size
    for name, array in whole.items():
        if name.startswith("linear") and name.endswith("weight"):
            step = np.linalg.norm(array - first[name])
            assert np.linalg.norm(array - short[name]) < 1e-3 * step
