"""Answers to a round: one form, packed or not, and a sum that needs none of them afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from methods.answers import AnswerFrame
from methods.errors import ContributionError, MethodError
from methods.training_half import Given
from schemas.tensors import compressed, encode_tensors

RANDOM = np.random.default_rng(1)
SENT = {
    "linear.weight": RANDOM.normal(size=(40, 30)).astype(np.float32),
    "norm.running_mean": RANDOM.normal(size=30).astype(np.float32),
    "norm.running_var": np.abs(RANDOM.normal(size=30)).astype(np.float32),
    "head.bias": np.zeros(2, np.float32),
}
FRAME = AnswerFrame(SENT)


def moved(seed: int) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    return {n: np.abs(a + random.normal(size=a.shape)).astype(np.float32) for n, a in SENT.items()}


def test_an_answer_is_the_tensor_file_of_the_integers() -> None:
    integers = FRAME.grid.encode(moved(1))
    assert FRAME.encode(moved(1)) == encode_tensors(integers, compress=False)
    assert compressed(FRAME.encode(moved(1))) == encode_tensors(integers)


def test_an_answer_is_read_packed_or_not_or_with_words_of_another_program() -> None:
    integers = FRAME.grid.encode(moved(1))
    expected = np.concatenate([integers[name].reshape(-1) for name in sorted(integers)])
    body = FRAME.encode(moved(1))
    other = encode_tensors(integers, {"program": "another"})
    for payload in (body, compressed(body), other):
        assert FRAME.values(payload).tobytes() == expected.tobytes()
        FRAME.check(payload)


def test_what_is_no_answer_is_refused_by_name() -> None:
    body = FRAME.encode(moved(1))
    integers = FRAME.grid.encode(moved(1))
    negative = integers | {"norm.running_var": -integers["norm.running_var"] - 1}
    foreign = integers | {"linear.weight": integers["linear.weight"].T.copy()}
    for payload, why in (
        (body[:-4], "the whole answer"),
        (body + b"1234", "the whole answer"),
        (encode_tensors(negative), "running_var"),
        (encode_tensors(negative, {"program": "another"}), "running_var"),
        (encode_tensors(foreign), "linear.weight"),
        (b"", "header"),
    ):
        with pytest.raises(ContributionError, match=why):
            FRAME.check(payload)


@pytest.mark.parametrize("weighted", [True, False])
def test_a_sum_that_grows_comes_to_the_mean_of_all_answers(weighted: bool) -> None:
    payloads = [FRAME.encode(moved(seed)) for seed in range(5)]
    kept = [Given(number, lambda p=payload: p) for number, payload in enumerate(payloads, 1)]
    growing = FRAME.summing(9, weighted=weighted)
    for number, payload in enumerate(payloads, 1):
        growing.add(compressed(payload), number)
    one, two = FRAME.mean(kept, weighted=weighted), FRAME.mean(growing, weighted=weighted)
    assert (one.aggregate, one.samples, one.client_drift) == (two.aggregate, 15, two.client_drift)
    assert all(one.arrays[n].tobytes() == two.arrays[n].tobytes() for n in SENT)
    assert one.arrays.keys() == SENT.keys()


def test_the_drift_is_that_of_its_formula_without_statistics() -> None:
    answers = [moved(seed) for seed in range(3)]
    total = FRAME.summing(3, weighted=True)
    for weight, arrays in enumerate(answers, 1):
        total.add(FRAME.encode(arrays), weight)
    mean = total.mean()
    trained = ("linear.weight", "head.bias")
    apart = sum(
        weight * np.sum((arrays[n] - mean.arrays[n]) ** 2.0)
        for weight, arrays in enumerate(answers, 1)
        for n in trained
    )
    step = sum(np.sum((mean.arrays[n] - SENT[n]) ** 2.0) for n in trained)
    assert mean.client_drift == pytest.approx(np.sqrt(apart / 6 / step), rel=1e-4)


def test_a_sum_takes_no_more_than_was_proven_to_fit() -> None:
    with pytest.raises(MethodError, match="answers: "):
        FRAME.summing(2**40, weighted=False)
    total = FRAME.summing(1, weighted=True)
    with pytest.raises(MethodError, match="answers: devices"):
        total.mean()
    total.add(FRAME.encode(SENT), 1)
    with pytest.raises(MethodError, match="answers: devices"):
        total.add(FRAME.encode(SENT), 1)
