"""The coordinator side of LGA: old models are chosen by a proxy, or drawn by seed."""

from __future__ import annotations

from collections import Counter

from fleetledger.methods.lga.assignment import NEW_MODEL, OLD_MODEL
from fleetledger.methods.lga.coordinator import COORDINATOR
from tests.methods.lga.making import ANT, BEE, answer, answers, asked, assignment, moved
from tests.methods.making import given


def test_a_proxy_chooses_the_old_models_so_the_coordinator_does_not():
    of = assignment()
    question = asked(of, extras={OLD_MODEL: b"old", NEW_MODEL: b"new"})
    _, some = answers(of, question, 1)
    assert COORDINATOR.combine(of, question, some).extras == question.extras
    plain = assignment(preset="fedavg")
    assert COORDINATOR.combine(plain, asked(plain), answers(plain, asked(plain), 1)[1]).extras == {}


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
            made = COORDINATOR.combine(of, question, [given(model)])
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
