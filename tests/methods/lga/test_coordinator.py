"""The coordinator's half: answers are checked and averaged exactly, old models drawn by seed."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from methods.errors import ContributionError
from methods.lga import coordinator
from methods.lga.assignment import NEW_MODEL, OLD_MODEL
from methods.network_weights import decode_weights, encode_weights
from schemas.tensors import encode_tensors
from tests.methods.lga.making import ANT, BEE, CAT, answer, asked, assignment, moved, sent
from tests.methods.making import given, no_answers, still


def answers(of, question, *counts):
    models = [moved(of, question, seed) for seed in range(len(counts))]
    payloads = [answer(of, question, model) for model in models]
    return models, [given(*pair) for pair in zip(payloads, counts, strict=True)]


@pytest.mark.parametrize(("averaging", "weights"), [("plain", (1, 1, 1)), ("samples", (5, 1, 10))])
def test_the_mean_counts_devices_alike_or_their_samples(averaging, weights):
    of = assignment(averaging=averaging)
    question = asked(of)
    models, some = answers(of, question, 5, 1, 10)
    made = coordinator.combine(of, question, some)
    mean, names = decode_weights(made.weights, of.network)
    assert names == (ANT, BEE)
    assert any("running_mean" in name for name in mean)
    for name, array in mean.items():
        expected = np.average([model[name] for model in models], axis=0, weights=weights)
        assert np.abs(array - expected).max() <= 2**-20, name
    assert made.samples == 16


def test_the_order_of_answers_and_whether_they_are_summed_as_they_come_do_not_matter():
    of = assignment()
    question = asked(of)
    _, some = answers(of, question, 1, 2, 3)
    made = [coordinator.combine(of, question, list(each)) for each in permutations(some)]
    total = coordinator.summing(of, question, 3)
    for one in some:
        total.add(one.read(), one.samples)
    made.append(coordinator.combine(of, question, total))
    assert len({item.weights for item in made}) == 1
    assert len({item.aggregate for item in made}) == 1


def test_a_head_grows_by_class_name_and_a_renamed_class_keeps_its_row():
    of = assignment()
    weights = encode_weights(moved(of, asked(of), 1), (ANT, BEE))
    before, _ = decode_weights(weights, of.network)
    after = sent(of, asked(of, CAT, BEE, ANT, weights=weights, rows=(CAT, BEE)))
    assert np.array_equal(after["head.weight"][:2], before["head.weight"])
    assert np.array_equal(after["head.weight"][2], sent(of, asked(of, ANT))["head.weight"][0])


def test_a_proxy_chooses_the_old_models_so_the_coordinator_does_not():
    of = assignment()
    question = asked(of, extras={OLD_MODEL: b"old", NEW_MODEL: b"new"})
    _, some = answers(of, question, 1)
    assert coordinator.combine(of, question, some).extras == question.extras
    plain = assignment(preset="fedavg")
    assert coordinator.combine(plain, asked(plain), answers(plain, asked(plain), 1)[1]).extras == {}


def drawn(seed, rounds=4, stages=3):
    """The old models after each round of some stages, without a proxy, and all models."""
    of = assignment(preset="without-psr", seed=seed)
    weights, rows, extras, told, models = None, (), {}, [], []
    for stage in range(1, stages + 1):
        for number in range(1, rounds + 1):
            question = asked(
                of,
                weights=weights,
                rows=rows,
                extras=extras,
                round_of_stage=number,
                rounds_of_stage=rounds,
            )
            model = answer(of, question, moved(of, question, 10 * stage + number, far=0.01))
            made = coordinator.combine(of, question, [given(model)])
            weights, rows, extras = made.weights, (ANT, BEE), made.extras
            models.append(weights)
            told.append(dict(extras))
    return told, models


def test_without_a_proxy_the_old_model_is_any_of_the_task_before():
    told, models = drawn(seed=1)
    assert [set(extras) for extras in told[:4]] == [{NEW_MODEL}] * 4
    for stage in range(3):
        own, before = models[4 * stage : 4 * stage + 4], models[4 * stage - 4 : 4 * stage]
        for number, extras in enumerate(told[4 * stage : 4 * stage + 4]):
            assert extras[NEW_MODEL] in own[: number + 1]
            if stage:
                assert extras[OLD_MODEL] == told[4 * stage - 1][NEW_MODEL]
                assert extras[OLD_MODEL] in before
    assert drawn(seed=1) == (told, models)


def test_every_model_of_a_task_is_drawn_as_often():
    places = Counter()
    for seed in range(120):
        told, models = drawn(seed, rounds=3, stages=1)
        places[models.index(told[-1][NEW_MODEL])] += 1
    assert sorted(places) == [0, 1, 2]
    assert min(places.values()) > 25


def test_what_is_no_answer_is_refused_by_name():
    of = assignment()
    question = asked(of)
    for payload, named in no_answers(sent(of, question), without="norm1.running_mean"):
        with pytest.raises(ContributionError, match=named):
            coordinator.check(of, payload, question)
    coordinator.check(of, encode_tensors(still(sent(of, question))), question)


def test_the_network_is_exported_as_it_is():
    of = assignment()
    weights = encode_weights(moved(of, asked(of), 1), (ANT, BEE))
    network, arrays, names = coordinator.network_of(of, weights)
    assert names == (ANT, BEE)
    network.check(arrays, 2)
    assert of.logit_scale == 1
    assert (of.round_phases, of.closing_phases) == (("train",), ())
