"""Answers to a round: one form, packed or not, and a sum that needs none of them afterwards."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.differences import DifferenceGrid
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import CountedUpdate
from fleetledger.methods.training.update_forms import Upload
from fleetledger.schemas.tensors import encode_tensors
from tests.methods.making import as_frame

RANDOM = np.random.default_rng(1)
SENT = {
    "linear.weight": RANDOM.normal(size=(40, 30)).astype(np.float32),
    "norm.running_mean": RANDOM.normal(size=30).astype(np.float32),
    "norm.running_var": np.abs(RANDOM.normal(size=30)).astype(np.float32),
    "head.bias": np.zeros(2, np.float32),
}
FRAME = UpdateFrame(SENT)
FRAMES: list[Upload] = ["int32", "int16"]


def moved(seed: int) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    return {n: np.abs(a + random.normal(size=a.shape)).astype(np.float32) for n, a in SENT.items()}


def test_an_answer_is_the_tensor_file_of_the_integers() -> None:
    integers = WeightGrid.around(SENT).encode(moved(1))
    assert FRAME.encode(moved(1)) == encode_tensors(integers)


def test_an_answer_is_read_packed_or_not_or_with_words_of_another_program() -> None:
    integers = WeightGrid.around(SENT).encode(moved(1))
    expected = np.concatenate([integers[name].reshape(-1) for name in sorted(integers)])
    body = FRAME.encode(moved(1))
    other = encode_tensors(integers, {"program": "another"})
    for payload in (body, as_frame(body), other):
        assert FRAME.values(payload).tobytes() == expected.tobytes()
        FRAME.check(payload)


def test_what_is_no_answer_is_refused_by_name() -> None:
    body = FRAME.encode(moved(1))
    integers = WeightGrid.around(SENT).encode(moved(1))
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


def test_a_short_answer_is_the_tensor_file_of_the_differences_with_their_exponents() -> None:
    frame = UpdateFrame(SENT, "int16")
    grid = DifferenceGrid.around(SENT)
    made = grid.encode(moved(1))
    tensors: dict[str, np.ndarray[Any, Any]] = {
        name: made.values[place].reshape(SENT[name].shape) for name, place in grid.places.items()
    }
    tensors["steps/exponents"] = made.exponents
    body = frame.encode(moved(1))
    assert body == encode_tensors(tensors)
    other = encode_tensors(tensors, {"program": "another"})
    for payload in (body, as_frame(body), other):
        assert frame.values(payload).tobytes() == grid.expand(made).tobytes()
        frame.check(payload)


def test_a_short_answer_takes_about_half_the_bytes() -> None:
    whole, short = (UpdateFrame(SENT, upload).encode(moved(1)) for upload in FRAMES)
    numbers = sum(array.size for array in SENT.values())
    assert len(whole) - len(short) > 2 * numbers - 4 * len(SENT) - 200
    assert len(short) < 2 * numbers + 4 * len(SENT) + 1000


def test_what_is_no_short_answer_is_refused_by_name() -> None:
    frame = UpdateFrame(SENT, "int16")
    grid = DifferenceGrid.around(SENT)
    made = grid.encode(moved(1))
    body = frame.encode(moved(1))

    def changed(**changes: np.ndarray[Any, Any] | None) -> bytes:
        tensors: dict[str, Any] = {
            name: made.values[place].reshape(SENT[name].shape)
            for name, place in grid.places.items()
        }
        tensors |= {"steps/exponents": made.exponents} | {
            name.replace("__", "/").replace("_of_", "."): array for name, array in changes.items()
        }
        return encode_tensors({name: a for name, a in tensors.items() if a is not None})

    lowest = np.full(30, -32768, np.int16)
    coarse = np.array([grid.exponents[name] + 16 for name in grid.places], np.int32)
    for payload, why in (
        (body[:-2], "the whole answer"),
        (body + b"1234", "the whole answer"),
        (FRAME.encode(moved(1)), "linear.weight|exponents"),
        (changed(steps__exponents=None), "steps/exponents: is missing"),
        (changed(steps__exponents=made.exponents[:-1]), r"steps/exponents: int32 \(3,\)"),
        (changed(steps__exponents=made.exponents - 100), "'head.bias' has steps of"),
        (changed(steps__exponents=coarse, norm_of_running_var=lowest), "running_var"),
        (changed(head_of_bias=np.zeros(2, np.int32)), "head.bias: int32"),
    ):
        with pytest.raises(ContributionError, match=why):
            frame.check(payload)
    with pytest.raises(ContributionError, match=r"linear\.weight|exponents"):
        FRAME.check(body)


@pytest.mark.parametrize("upload", FRAMES)
@pytest.mark.parametrize("weighted", [True, False])
def test_a_sum_that_grows_comes_to_the_mean_of_all_answers(weighted: bool, upload: Upload) -> None:
    frame = UpdateFrame(SENT, upload)
    payloads = [frame.encode(moved(seed)) for seed in range(5)]
    kept = [
        CountedUpdate(number, partial(bytes, payload)) for number, payload in enumerate(payloads, 1)
    ]
    growing = frame.summing(9, weighted=weighted)
    for number, payload in enumerate(payloads, 1):
        growing.add(as_frame(payload), number)
    one, two = frame.mean(kept, weighted=weighted), frame.mean(growing, weighted=weighted)
    backwards = frame.mean(kept[::-1], weighted=weighted)
    assert backwards.aggregate == one.aggregate
    assert all(backwards.arrays[n].tobytes() == one.arrays[n].tobytes() for n in SENT)
    assert (one.aggregate, one.samples, one.client_drift) == (two.aggregate, 15, two.client_drift)
    assert all(one.arrays[n].tobytes() == two.arrays[n].tobytes() for n in SENT)
    assert one.arrays.keys() == SENT.keys()


def test_both_forms_come_to_the_same_mean_by_sums_of_their_own() -> None:
    answers = [moved(seed) for seed in range(5)]
    means = []
    for upload in FRAMES:
        frame = UpdateFrame(SENT, upload)
        given = [CountedUpdate(n, partial(frame.encode, a)) for n, a in enumerate(answers, 1)]
        means.append(frame.mean(given, weighted=True))
    whole, short = means
    assert whole.aggregate != short.aggregate
    assert short.client_drift == pytest.approx(whole.client_drift, rel=1e-4)
    for name, sent in SENT.items():
        largest = max(float(np.abs(answer[name] - sent).max()) for answer in answers)
        assert np.abs(whole.arrays[name] - short.arrays[name]).max() < largest / 16_000


@pytest.mark.parametrize("upload", FRAMES)
def test_the_drift_is_that_of_its_formula_without_statistics(upload: Upload) -> None:
    frame = UpdateFrame(SENT, upload)
    answers = [moved(seed) for seed in range(3)]
    total = frame.summing(3, weighted=True)
    for weight, arrays in enumerate(answers, 1):
        total.add(frame.encode(arrays), weight)
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


@pytest.mark.parametrize("upload", FRAMES)
@pytest.mark.parametrize("weighted", [True, False])
def test_sums_of_some_answers_joined_are_the_sum_of_all(upload: Upload, weighted: bool) -> None:
    frame = UpdateFrame(SENT, upload)
    near = [{n: a + np.float32(seed * 1e-3) for n, a in SENT.items()} for seed in range(9)]
    answers = [(frame.encode(arrays), seed + 1) for seed, arrays in enumerate(near)]
    whole, one, other = (frame.summing(9, weighted=weighted) for _ in range(3))
    for body, samples in answers:
        whole.add(body, samples)
    for body, samples in reversed(answers[4:]):
        one.add(body, samples)
    for body, samples in answers[:4]:
        other.add(body, samples)
    one.join(other.partial())
    one.join(frame.summing(9, weighted=weighted).partial())  # who added nothing changes nothing
    expected, found = whole.mean(), one.mean()
    assert (found.aggregate, found.samples) == (expected.aggregate, expected.samples)
    assert found.client_drift == expected.client_drift > 0  # to the last bit
    for name, array in expected.arrays.items():
        assert found.arrays[name].tobytes() == array.tobytes()


def test_more_than_was_proven_to_fit_is_not_joined() -> None:
    one, other = FRAME.summing(3, weighted=True), FRAME.summing(3, weighted=True)
    for total in (one, one, other, other):
        total.add(FRAME.encode(SENT), 5)
    before = one.mean().aggregate
    with pytest.raises(MethodError, match="2 beside 2; 3 are proven to fit"):
        one.join(other.partial())
    assert one.mean().aggregate == before


def test_an_answer_that_leaves_the_grid_is_refused_by_the_name_of_its_tensor() -> None:
    answer = moved(1)
    name = next(iter(SENT))
    answer[name] = np.full_like(answer[name], 1e30)
    with pytest.raises(RangeError, match=name):
        FRAME.encode(answer)
