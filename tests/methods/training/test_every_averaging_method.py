"""What every method promises whose devices answer weights: exact means, growing heads, refusals."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from fleetledger.learning.errors import RangeError
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName
from tests.methods.dcid.making import EXCHANGE as DCID
from tests.methods.exchange import Exchange
from tests.methods.fbl.making import EXCHANGE as FBL
from tests.methods.fedhaf.making import EXCHANGE as FEDHAF
from tests.methods.lga.making import EXCHANGE as LGA
from tests.methods.making import as_frame, given, no_answers, still
from tests.methods.rounds.making import EXCHANGE as ROUNDS

BASIC = replace(DCID, small=DCID.small | {"preset": "dcil-icarl-fedavg"})
"""DCID's basic framework: its rounds are of weights alone."""
EVERY = {"dcid": BASIC, "fbl": FBL, "fedhaf": FEDHAF, "lga": LGA, "rounds": ROUNDS}
BY_NAME = {name: method for name, method in EVERY.items() if name != "fbl"}
"""Their new rows are drawn by the name of the class; FBL's grow out of background."""
OLD_MODEL = "old-model"
NEW = ClassName("new")

every = pytest.mark.parametrize("method", EVERY.values(), ids=EVERY)
by_name = pytest.mark.parametrize("method", BY_NAME.values(), ids=BY_NAME)
ending = pytest.mark.parametrize(
    ("method", "settings"),
    [(FEDHAF, {}), (ROUNDS, {"preset": "fed-lwf"})],
    ids=["fedhaf", "rounds"],
)


def test_the_coordinators_sides_need_no_torch() -> None:
    made = "[it.coordinator.first_weights(it.assignment()) for it in own.EVERY.values()]"
    code = f"import sys, {__name__} as own; {made}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@every
def test_the_first_weights_are_equal_everywhere_and_have_no_row(method: Exchange) -> None:
    of = method.assignment()
    first = method.coordinator.first_weights(of)
    assert first == method.coordinator.first_weights(of)
    assert first != method.coordinator.first_weights(method.assignment(seed=2))
    assert decode_weights(first, of.network)[1] == ()


@every
@pytest.mark.parametrize(("averaging", "shares"), [("plain", (1, 1, 1)), ("samples", (5, 1, 10))])
def test_the_mean_counts_devices_alike_or_their_samples(
    method: Exchange, averaging: str, shares: tuple[int, ...]
) -> None:
    of = method.assignment(averaging=averaging)
    question = method.asked(of)
    models, answers = method.answers(of, question, 5, 1, 10)
    made = method.coordinator.combine(of, question, answers)
    mean, names = decode_weights(made.weights, of.network)
    assert names == method.names
    assert mean.keys() == method.sent(of, question).keys()
    assert any("running_mean" in name for name in mean), "buffers are averaged too"
    for name, array in mean.items():
        expected = np.average([model[name] for model in models], axis=0, weights=shares)
        assert np.abs(array - expected).max() <= 2**-20, name
    assert made.samples == 16


@every
def test_the_mean_is_the_same_in_any_order_and_when_answers_are_summed_as_they_come(
    method: Exchange,
) -> None:
    of = method.assignment()
    question = method.asked(of)
    _, answers = method.answers(of, question, 1, 2, 3)
    made = [method.coordinator.combine(of, question, list(some)) for some in permutations(answers)]
    total = method.coordinator.summing(of, question, 3)
    for one in answers:
        total.add(one.read(), one.samples)
    made.append(method.coordinator.combine(of, question, total))
    assert len({item.weights for item in made}) == 1
    assert len({item.aggregate for item in made}) == 1


@every
def test_the_mean_of_identical_answers_is_the_answer(method: Exchange) -> None:
    of = method.assignment()
    question = method.asked(of)
    payload = method.answer(of, question, method.sent(of, question))
    made = method.coordinator.combine(of, question, [given(payload, n) for n in (1, 7, 90)])
    mean, _ = decode_weights(made.weights, of.network)
    for name, array in method.sent(of, question).items():
        assert np.abs(mean[name] - array).max() <= 2**-21, name


@every
def test_more_samples_than_the_sum_was_proven_for_are_refused(method: Exchange) -> None:
    of = method.assignment(averaging="samples")
    question = method.asked(of)
    payload = method.answer(of, question, method.sent(of, question))
    with pytest.raises(MethodError, match="samples: 2147483649"):
        method.coordinator.combine(of, question, [given(payload, 2**31 + 1), given(payload)])


@by_name
def test_a_head_grows_by_class_name_and_keeps_its_rows(method: Exchange) -> None:
    of = method.assignment()
    first = method.asked(of)
    weights = method.combined(of, first, 1).weights
    before, names = decode_weights(weights, of.network)
    after = method.sent(of, method.asked(of, *names, NEW, weights=weights, rows=names))
    assert np.array_equal(after["head.weight"][:2], before["head.weight"])
    alone = method.sent(of, method.asked(of, NEW))
    assert np.array_equal(after["head.weight"][2], alone["head.weight"][0])
    for name in before.keys() - {"head.weight", "head.bias"}:
        assert np.array_equal(after[name], before[name]), name


@by_name
def test_a_renamed_class_keeps_its_row(method: Exchange) -> None:
    of = method.assignment()
    weights = encode_weights(method.moved(of, method.asked(of), 1), method.names)
    before, _ = decode_weights(weights, of.network)
    renamed = (NEW, method.names[1])
    after = method.sent(of, method.asked(of, *renamed, weights=weights, rows=renamed))
    assert np.array_equal(after["head.weight"], before["head.weight"])


@ending
def test_the_old_model_is_the_one_that_ended_its_stage(
    method: Exchange, settings: dict[str, str]
) -> None:
    of = method.assignment(**settings)
    assert not method.combined(of, method.asked(of), 1).extras
    made = method.combined(of, method.asked(of, round_of_stage=2), 2)
    assert made.extras == {OLD_MODEL: made.weights}
    known = {"weights": made.weights, "rows": method.names, "extras": made.extras}
    later = method.combined(of, method.asked(of, *method.names, NEW, **known), 3)
    assert later.extras == {OLD_MODEL: made.weights}


@every
def test_what_is_no_answer_is_refused_by_name(method: Exchange) -> None:
    of = method.assignment()
    question = method.asked(of)
    first = method.sent(of, question)
    method.coordinator.check(
        of, method.answer(of, question, method.moved(of, question, 1)), question
    )
    method.coordinator.check(of, encode_tensors(still(first)), question)
    for without in (next(name for name in first if "running_mean" in name), "head.weight"):
        for payload, named in no_answers(first, without):
            with pytest.raises(ContributionError, match=named):
                method.coordinator.check(of, payload, question)


@every
def test_an_answer_of_another_shape_is_refused_by_name(method: Exchange) -> None:
    of = method.assignment()
    question, other = method.asked(of), method.asked(of, NEW)
    payload = method.answer(of, other, method.moved(of, other, 1))
    with pytest.raises(ContributionError, match=r"head\."):
        method.coordinator.check(of, payload, question)


@every
def test_an_answer_larger_than_its_tensors_is_refused_before_it_is_read(method: Exchange) -> None:
    of = method.assignment()
    large = as_frame(encode_tensors({"bomb": np.zeros(1 << 24, np.int32)}))
    assert len(large) < 1 << 20
    with pytest.raises(ContributionError, match="answer"):
        method.coordinator.check(of, large, method.asked(of))


@every
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_no_numbers_never_leave_a_device(method: Exchange, wrong: float) -> None:
    of = method.assignment()
    question = method.asked(of)
    arrays = dict(method.sent(of, question))
    arrays["head.weight"] = np.full_like(arrays["head.weight"], wrong)
    with pytest.raises(RangeError, match=r"head\.weight"):
        method.answer(of, question, arrays)


@every
def test_weights_of_another_network_are_refused(method: Exchange) -> None:
    of = method.assignment()
    weights = encode_weights(method.moved(of, method.asked(of), 1), method.names)
    with pytest.raises(ContributionError, match="weights"):
        method.sent(of, method.asked(of, weights=weights[:-4], rows=method.names))


@every
def test_the_network_is_exported_as_it_is(method: Exchange) -> None:
    of = method.assignment()
    before = method.moved(of, method.asked(of), 1)
    weights = encode_weights(before, method.names)
    network, arrays, names = method.coordinator.network_of(of, weights)
    assert network == of.network
    assert names == method.names
    assert {name: array.shape for name, array in arrays.items()} == network.shapes(len(names))
    assert all(np.array_equal(array, before[name]) for name, array in arrays.items())
