"""The coordinator's half: answers are checked and averaged exactly, heads grow by class name."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np
import pytest

from learning.errors import RangeError
from methods.errors import ContributionError
from methods.fedhaf import coordinator
from methods.fedhaf.assignment import OLD_MODEL
from methods.network_weights import decode_weights, encode_weights
from schemas.tensors import encode_tensors
from tests.methods.fedhaf.making import ANT, BEE, CAT, DOG, answer, asked, assignment, moved, sent
from tests.methods.making import given, no_answers, still


def test_the_mean_is_weighted_by_samples_parameters_and_buffers_alike():
    of = assignment()
    question = asked(of)
    models = [moved(of, question, seed) for seed in range(3)]
    counts = (5, 1, 10)
    answers = [
        given(answer(of, question, model), count)
        for model, count in zip(models, counts, strict=True)
    ]
    made = coordinator.combine(of, question, answers)
    mean, names = decode_weights(made.weights, of.network)
    assert names == (ANT, BEE)
    for name, array in mean.items():
        weighted = np.average([model[name] for model in models], axis=0, weights=counts)
        assert np.abs(array - weighted).max() <= 2**-20, name
    assert any("running_mean" in name for name in mean)
    assert made.samples == 16


def test_the_mean_may_count_all_devices_alike():
    of = assignment(averaging="plain")
    question = asked(of)
    models = [moved(of, question, seed) for seed in range(2)]
    answers = [given(answer(of, question, model), 1 + 99 * i) for i, model in enumerate(models)]
    mean, _ = decode_weights(coordinator.combine(of, question, answers).weights, of.network)
    for name, array in mean.items():
        assert np.abs(array - (models[0][name] + models[1][name]) / 2).max() <= 2**-20, name


def test_the_order_of_answers_does_not_matter():
    of = assignment()
    question = asked(of)
    answers = [
        given(answer(of, question, moved(of, question, seed)), seed + 1) for seed in range(3)
    ]
    made = [coordinator.combine(of, question, some) for some in permutations(answers)]
    assert len({item.weights for item in made}) == 1
    assert len({item.aggregate for item in made}) == 1


def test_a_head_grows_by_class_name_and_keeps_its_rows():
    of = assignment()
    first = asked(of, ANT, BEE)
    made = coordinator.combine(of, first, [given(answer(of, first, moved(of, first, 1)))])
    before, _ = decode_weights(made.weights, of.network)
    after = sent(of, asked(of, ANT, BEE, CAT, weights=made.weights, rows=(ANT, BEE)))
    assert np.array_equal(after["head.weight"][:2], before["head.weight"])
    assert np.array_equal(after["head.weight"][2], sent(of, asked(of, CAT))["head.weight"][0])
    for name in set(before) - {"head.weight", "head.bias"}:
        assert np.array_equal(after[name], before[name]), name


def test_a_renamed_class_keeps_its_row():
    of = assignment()
    weights = encode_weights(moved(of, asked(of), 1), (ANT, BEE))
    before, _ = decode_weights(weights, of.network)
    after = sent(of, asked(of, CAT, BEE, weights=weights, rows=(CAT, BEE)))
    assert np.array_equal(after["head.weight"], before["head.weight"])


def test_the_old_model_is_the_one_that_ended_its_stage():
    of = assignment()
    early, last = asked(of), asked(of, round_of_stage=2)
    one = coordinator.combine(of, early, [given(answer(of, early, moved(of, early, 1)))])
    assert not one.extras
    made = coordinator.combine(of, last, [given(answer(of, last, moved(of, last, 2)))])
    assert made.extras == {OLD_MODEL: made.weights}
    later = asked(of, ANT, BEE, CAT, weights=made.weights, rows=(ANT, BEE), extras=made.extras)
    after = coordinator.combine(of, later, [given(answer(of, later, moved(of, later, 3)))])
    assert after.extras == {OLD_MODEL: made.weights}


def test_plain_averaging_serves_no_old_model():
    of = assignment(preset="fedavg-replay")
    last = asked(of, round_of_stage=2)
    assert not coordinator.combine(of, last, [given(answer(of, last, moved(of, last, 1)))]).extras


def test_everything_begins_anew_with_a_stage_where_that_is_asked():
    of = assignment(reinit=True)
    weights = encode_weights(moved(of, asked(of), 1), (ANT, BEE))
    rows = {"weights": weights, "rows": (ANT, BEE)}
    anew = sent(of, asked(of, ANT, BEE, CAT, **rows))
    fresh = of.network.initial(of.settings.seed, (ANT, BEE, CAT))
    assert all(np.array_equal(anew[name], fresh[name]) for name in fresh)
    trained, _ = decode_weights(weights, of.network)
    later = sent(of, asked(of, ANT, BEE, round_of_stage=2, **rows))
    assert all(np.array_equal(later[name], trained[name]) for name in trained)


def test_what_is_no_answer_is_refused_by_name():
    of = assignment()
    question = asked(of)
    for payload, named in no_answers(sent(of, question), without="norm1.running_mean"):
        with pytest.raises(ContributionError, match=named):
            coordinator.check(of, payload, question)
    narrow = still(sent(of, question)) | {"linear0.weight": np.zeros((10, 7), np.int32)}
    with pytest.raises(ContributionError, match=r"linear0\.weight"):
        coordinator.check(of, encode_tensors(narrow), question)
    coordinator.check(of, encode_tensors(still(sent(of, question))), question)


def test_an_answer_larger_than_its_tensors_is_refused_before_it_is_read():
    of = assignment()
    large = encode_tensors({"bomb": np.zeros(1 << 24, np.int32)})
    assert len(large) < 1 << 20
    with pytest.raises(ContributionError, match="answer"):
        coordinator.check(of, large, asked(of))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_no_numbers_never_leave_a_device(wrong):
    of = assignment()
    question = asked(of)
    arrays = sent(of, question)
    arrays["linear0.bias"] = np.full(10, wrong, np.float32)
    with pytest.raises(RangeError, match=r"linear0\.bias"):
        answer(of, question, arrays)


def test_an_upload_has_fewer_than_two_million_numbers():
    of = coordinator.assign({}, (2048,))
    module = 2049 * 512 + 513 * 512 + 513 * 256 + 512 * 256
    head = 257 * 128 + 129 * 100
    normalisations = 4 * (512 + 512 + 256 + 128)
    numbers = sum(prod(shape) for shape in of.network.shapes(100).values())
    assert numbers == module + head + normalisations < 2_000_000
    with_shortcut = coordinator.assign({"shortcut": "input"}, (2048,)).network.shapes(100)
    assert sum(map(prod, with_shortcut.values())) > 2_000_000


@pytest.mark.parametrize("adapter", ["projection", "none"])
def test_without_the_module_only_the_head_travels(adapter):
    of = assignment(adapter=adapter)
    assert all(name.startswith("head.") for name in of.network.shapes(2))
    question = asked(of, DOG, CAT)
    made = coordinator.combine(of, question, [given(answer(of, question, sent(of, question)))])
    network, arrays, names = coordinator.network_of(of, made.weights)
    assert names == (DOG, CAT)
    network.check(arrays, 2)
