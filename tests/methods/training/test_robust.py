"""Means of answers that may be anybody's: beside sorted lists, for any order and any split."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from statistics import median
from typing import Any

import numpy as np
import pytest

from fleetledger.learning.numerics import answer_rows
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import AnswerMeasure, CountedUpdate
from fleetledger.methods.training.held_answers import HeldAnswers
from fleetledger.methods.training.robust import NormBound, Robust
from fleetledger.methods.training.update_forms import Upload
from fleetledger.schemas.values import Digest

RANDOM = np.random.default_rng(1)
SENT = {
    "linear.weight": RANDOM.normal(size=(20, 15)).astype(np.float32),
    "norm.running_mean": RANDOM.normal(size=30).astype(np.float32),
    "norm.running_var": np.abs(RANDOM.normal(size=30)).astype(np.float32),
    "head.bias": np.zeros(2, np.float32),
}
FRAMES: list[Upload] = ["int32", "int16"]
Arrays = dict[str, np.ndarray[Any, Any]]
every_form = pytest.mark.parametrize("upload", FRAMES)


def moved(seed: int, by: float = 0.1) -> Arrays:
    random = np.random.default_rng(seed)
    return {
        name: np.abs(array + by * random.normal(size=array.shape)).astype(np.float32)
        if "running" in name
        else (array + by * random.normal(size=array.shape)).astype(np.float32)
        for name, array in SENT.items()
    }


def turned(answer: Arrays, factor: float) -> Arrays:
    return {
        name: np.maximum(SENT[name] + factor * (array - SENT[name]), 0)
        if "running" in name
        else SENT[name] + np.float32(factor) * (array - SENT[name])
        for name, array in answer.items()
    }


def summed(frame: UpdateFrame, robust: Robust, answers: list[bytes]) -> HeldAnswers:
    total = HeldAnswers(frame, robust, weighted=True)
    for number, payload in enumerate(answers, 1):
        total.add(payload, number)
    return total


def measured(
    frame: UpdateFrame, updates: list[CountedUpdate], *, weighted: bool
) -> list[AnswerMeasure]:
    total = HeldAnswers(frame, Robust(), weighted=weighted)
    payloads = [update.read() for update in updates]
    for update, payload in zip(updates, payloads, strict=True):
        total.add(payload, update.samples)
    measures = total.mean().measures
    return [measures[Digest.of(payload)] for payload in payloads]


def slow_middle(frame: UpdateFrame, answers: list[bytes], cut: int) -> list[float]:
    rows = [frame.values(payload).tolist() for payload in answers]
    columns = [sorted(column)[cut : len(column) - cut] for column in zip(*rows, strict=True)]
    return [sum(column) / len(column) for column in columns]


@every_form
@pytest.mark.parametrize(("answers", "cut"), [(1, 0), (2, 0), (3, 1), (7, 1), (10, 2)])
def test_a_trimmed_mean_is_that_of_sorted_lists(upload: Upload, answers: int, cut: int) -> None:
    frame = UpdateFrame(SENT, upload)
    given = [frame.encode(moved(seed)) for seed in range(answers)]
    mean = summed(frame, Robust(mean="trimmed"), given).mean()
    steps = slow_middle(frame, given, cut)
    for name, place in frame.grid.places.items():
        slow = np.array(steps[place]).reshape(SENT[name].shape)
        assert mean.arrays[name].tobytes() == frame.grid.weights_of(name, slow).tobytes()
    assert mean.samples == sum(range(1, answers + 1))


@every_form
@pytest.mark.parametrize("answers", [1, 2, 5, 6])
def test_a_median_is_that_of_the_standard_library(upload: Upload, answers: int) -> None:
    frame = UpdateFrame(SENT, upload)
    given = [frame.encode(moved(seed)) for seed in range(answers)]
    mean = summed(frame, Robust(mean="median"), given).mean()
    rows = [frame.values(payload).tolist() for payload in given]
    steps = [median(column) for column in zip(*rows, strict=True)]
    for name, place in frame.grid.places.items():
        slow = np.array(steps[place], np.float64).reshape(SENT[name].shape)
        assert mean.arrays[name].tobytes() == frame.grid.weights_of(name, slow).tobytes()


@every_form
def test_neither_order_nor_split_nor_where_answers_are_kept_changes_a_bit(
    upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, robust = UpdateFrame(SENT, upload), Robust(mean="trimmed", trim=0.3)
    given = [frame.encode(moved(seed % 3)) for seed in range(5)]  # with ties
    wanted = summed(frame, robust, given).mean()
    for order in list(permutations(given))[::17]:
        assert as_bytes(summed(frame, robust, list(order)).mean()) == as_bytes(wanted)
    joined = HeldAnswers(frame, robust, weighted=True)
    for part in (given[3:], given[:1], [], given[1:3]):
        joined.join(summed(frame, robust, part).partial())
    assert as_bytes(joined.mean()) == as_bytes(wanted)
    monkeypatch.setattr(answer_rows.AnswerRows.__init__, "__defaults__", (0,))
    monkeypatch.setattr(answer_rows, "_BLOCK_VALUES", 100)
    assert as_bytes(summed(frame, robust, given).mean())[:2] == as_bytes(wanted)[:2]


def as_bytes(mean: Any) -> tuple[object, ...]:
    arrays = {name: array.tobytes() for name, array in mean.arrays.items()}
    return arrays, mean.aggregate, mean.client_drift, mean.remarks, mean.measures


def test_the_digest_of_a_robust_mean_says_what_was_cut() -> None:
    frame = UpdateFrame(SENT)
    given = [frame.encode(moved(1))] * 5
    rules = [Robust(mean="trimmed"), Robust(mean="trimmed", trim=0.4), Robust(mean="median")]
    digests = [summed(frame, rule, given).mean().aggregate for rule in rules]
    assert digests[0] != digests[1]
    assert digests[1] == digests[2]  # two of five at each end: the same sum


def test_a_device_may_claim_any_number_of_samples_and_counts_once() -> None:
    frame, robust = UpdateFrame(SENT), Robust(mean="median")
    means = []
    for samples in (1, 10**6):
        total = HeldAnswers(frame, robust, weighted=True)
        for seed in range(3):
            total.add(frame.encode(moved(seed)), samples if seed == 2 else 5)
        means.append(total.mean())
    assert as_bytes(means[0])[:2] == as_bytes(means[1])[:2]
    said = "each number is the median of 3 answers that count alike"
    assert means[0].remarks == (said,)


def test_the_drift_is_that_of_the_answers_around_the_robust_mean() -> None:
    frame = UpdateFrame(SENT)
    answers = [moved(seed) for seed in range(5)]
    mean = summed(frame, Robust(mean="median"), [frame.encode(one) for one in answers]).mean()
    names = [name for name in SENT if "running" not in name]

    def distance(one: Arrays, other: Arrays) -> float:
        return sum(float(((one[n] - other[n]).astype(np.float64) ** 2).sum()) for n in names)

    spread = sum(distance(one, mean.arrays) for one in answers) / 5
    assert mean.client_drift == pytest.approx(
        np.sqrt(spread / distance(mean.arrays, SENT)), rel=1e-4
    )


def test_no_answer_is_no_mean() -> None:
    with pytest.raises(MethodError, match="none"):
        HeldAnswers(UpdateFrame(SENT), Robust(mean="median"), weighted=True).mean()


@every_form
def test_a_bound_shortens_what_is_longer_or_refuses_it(upload: Upload) -> None:
    frame = UpdateFrame(SENT, upload)
    honest, wild = frame.encode(moved(1)), frame.encode(turned(moved(2), -20))
    length = frame.norm.length(frame.norm.moved(frame.values(honest)))
    plain = frame.values(honest).tobytes()
    frame.bound = NormBound(2 * length, "clip")
    assert frame.values(honest).tobytes() == plain
    cut = frame.norm.length(frame.norm.moved(frame.values(wild)))
    assert cut == pytest.approx(2 * length, rel=1e-2)
    assert cut <= 2 * length
    frame.bound = NormBound(2 * length, "refuse")
    frame.check(honest)
    with pytest.raises(ContributionError, match=r"answer: moves by .*max_norm.*lower rate"):
        frame.check(wild)


@every_form
@pytest.mark.parametrize("weighted", [True, False])
def test_a_plain_mean_of_held_answers_is_the_running_sums_to_the_last_bit(
    upload: Upload, weighted: bool
) -> None:
    frame = UpdateFrame(SENT, upload)
    held = HeldAnswers(frame, Robust(max_norm=1e9), weighted=weighted)
    running = frame.summing(5, weighted=weighted)
    for seed in range(5):
        for total in (held, running):
            total.add(frame.encode(moved(seed)), 1000 * seed + 1)
    one, other = held.mean(), running.mean()
    assert one.aggregate == other.aggregate
    assert one.samples == other.samples
    assert one.client_drift == pytest.approx(other.client_drift, rel=1e-4)
    for name, array in other.arrays.items():
        assert one.arrays[name].tobytes() == array.tobytes()


def test_what_was_cut_is_told_with_the_length_of_before() -> None:
    frame, robust = UpdateFrame(SENT), Robust(max_norm=10.0)
    frame.bound = robust.bound
    payloads = [frame.encode(moved(1)), frame.encode(turned(moved(2), 10))]
    total = HeldAnswers(frame, robust, weighted=True)
    for payload in payloads:
        total.add(payload, 1)
    mean = total.mean()
    assert mean.remarks == ("1 answer moved farther than 10, and counts less",)
    norms = [mean.measures[Digest.of(payload)].norm for payload in payloads]
    assert norms[0] < 10 < norms[1]


def test_a_bound_holds_in_every_sum() -> None:
    frame = UpdateFrame(SENT)
    frame.bound = NormBound(0.5, "clip")
    payloads = [frame.encode(moved(seed)) for seed in range(3)]
    cut = [frame.values(payload) for payload in payloads]
    wanted = sum(values.astype(np.int64) for values in cut)
    total = frame.summing(3, weighted=False)
    for payload in payloads:
        total.add(payload, 7)
    assert np.array_equal(total.partial().arrays[0], wanted)


@pytest.mark.parametrize("weighted", [True, False])
def test_measures_are_those_of_plain_arrays(weighted: bool) -> None:
    frame = UpdateFrame(SENT)
    answers = [moved(seed) for seed in range(4)]
    answers.append(turned(moved(5), -3))
    samples = [3, 1, 4, 1, 5]
    updates = [
        CountedUpdate(count, partial(frame.encode, answer))
        for count, answer in zip(samples, answers, strict=True)
    ]
    found = measured(frame, updates, weighted=weighted)
    names = [name for name in sorted(SENT) if "running" not in name]

    def flat(answer: Arrays, names: list[str]) -> np.ndarray[Any, Any]:
        return np.concatenate([(answer[n] - SENT[n]).reshape(-1).astype(float) for n in names])

    moves = [flat(answer, names) for answer in answers]
    for at, measure in enumerate(found):
        others = sum(move / np.linalg.norm(move) for i, move in enumerate(moves) if i != at)
        cosine = moves[at] @ others / np.linalg.norm(moves[at]) / np.linalg.norm(others)
        assert measure.cosine == pytest.approx(cosine, abs=1e-5)
        assert measure.norm == pytest.approx(float(np.linalg.norm(moves[at])), rel=1e-5)


def test_turned_updates_lie_against_the_others() -> None:
    frame = UpdateFrame(SENT)
    step = moved(1)
    answers = [
        {n: (step[n] + 0.02 * (moved(seed)[n] - SENT[n])).astype(np.float32) for n in SENT}
        for seed in range(9)
    ]
    answers[0] = turned(answers[0], -1)
    found = measured(
        frame, [CountedUpdate(1, partial(frame.encode, one)) for one in answers], weighted=True
    )
    assert found[0].cosine is not None
    assert found[0].cosine < -0.9
    assert all(one.cosine is not None and one.cosine > 0.9 for one in found[1:])


def test_a_blown_up_move_does_not_turn_what_others_are_held_to() -> None:
    frame = UpdateFrame(SENT)
    step = moved(1)
    answers = [
        {n: (step[n] + 0.02 * (moved(seed)[n] - SENT[n])).astype(np.float32) for n in SENT}
        for seed in range(9)
    ]
    answers[0] = turned(answers[0], -50)
    found = measured(
        frame, [CountedUpdate(1, partial(frame.encode, one)) for one in answers], weighted=True
    )
    assert [one.cosine is not None and one.cosine > 0.9 for one in found] == [False] + [True] * 8


def test_one_answer_and_one_that_did_not_move_have_no_cosine() -> None:
    frame = UpdateFrame(SENT)
    alone = [CountedUpdate(3, partial(frame.encode, moved(1)))]
    assert [one.cosine for one in measured(frame, alone, weighted=True)] == [None]
    still = CountedUpdate(1, partial(frame.encode, SENT))
    found = measured(frame, [*alone, still], weighted=True)
    assert [one.cosine for one in found] == [None, None]
    assert found[1].norm == 0
