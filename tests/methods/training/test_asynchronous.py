"""Answers that began from several versions, against a slow reference in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.asynchronous import StaleSum, moved
from fleetledger.methods.training.client_updates import Mean, UpdateFrame
from fleetledger.methods.training.exchange import BufferStep
from fleetledger.methods.training.update_forms import Upload

Arrays = dict[str, np.ndarray[Any, Any]]

FEDBUFF = BufferStep(rate=0.5, mixes=False)
FEDASYNC = BufferStep(rate=0.75, mixes=True)


class Answer(NamedTuple):
    version: int
    weights: Arrays
    samples: int


def version(number: int) -> Arrays:
    """Weights of a version; later ones are larger, so their grids have longer steps."""
    random, scale = np.random.default_rng(number), np.float32(3.0**number)
    return {
        "head.bias": np.zeros(2, np.float32),
        "linear.weight": scale * random.normal(size=(5, 4)).astype(np.float32),
        "norm.running_var": scale * np.abs(random.normal(size=3)).astype(np.float32),
    }


VERSIONS = [version(number) for number in range(4)]
WEIGHTS = {0: 128, 1: 148, 2: 181, 3: 256}
"""By version, of 256: the first ones are stale."""


def answer(seed: int, number: int) -> Answer:
    random = np.random.default_rng(100 + seed)
    weights = {
        name: np.abs(array + 0.1 * random.normal(size=array.shape)).astype(np.float32)
        for name, array in VERSIONS[number].items()
    }
    return Answer(number, weights, samples=1 + seed)


ANSWERS = [answer(seed, number) for seed, number in enumerate((3, 1, 3, 0, 2, 1))]


def combined(
    answers: Sequence[Answer],
    step: BufferStep,
    *,
    weighted: bool = True,
    upload: Upload = "int32",
) -> Mean:
    """As the coordinator does it: the sums of each version, moved together."""
    parts = []
    for number in dict.fromkeys(one.version for one in answers):
        frame = UpdateFrame(VERSIONS[number], upload)
        total = frame.summing(len(answers), weighted=weighted)
        for one in answers:
            if one.version == number:
                total.add(frame.encode(one.weights), one.samples)
        parts.append(StaleSum(frame, WEIGHTS[number], total.partial()))
    return moved(VERSIONS[-1], step, parts)


def reference(
    answers: Sequence[Answer], step: BufferStep, *, weighted: bool, upload: Upload
) -> Arrays:
    """One number after the other, one answer after the other, without rounding in between."""
    found: Arrays = {}
    for name, newest in VERSIONS[-1].items():
        after = np.empty(newest.size, np.float32)
        for place, theta in enumerate(newest.reshape(-1)):
            total, count = Fraction(0), 0
            for one in answers:
                frame = UpdateFrame(VERSIONS[one.version], upload)
                grid, body = frame.grid, frame.encode(one.weights)
                step_size = Fraction(2) ** grid.exponents[name]
                gave = int(frame.values(body)[grid.places[name]][place])
                begun = VERSIONS[one.version][name].reshape(-1)[place]
                around = float(theta) if step.mixes else float(begun)
                if upload == "int16":
                    gave += round(Fraction(float(begun) - around) / step_size)
                else:
                    gave -= round(Fraction(around) / step_size)
                share = one.samples if weighted else 1
                count += share
                total += Fraction(WEIGHTS[one.version], 256) * share * gave * step_size
            moves = step.rate * float(total / count)
            after[place] = np.float32(float(theta) + moves)
            if name.endswith("running_var"):
                after[place] = max(after[place], np.float32(0))
        found[name] = after.reshape(newest.shape)
    return found


@pytest.mark.parametrize("step", [FEDBUFF, FEDASYNC], ids=["fedbuff", "fedasync"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("upload", ["int32", "int16"])
def test_the_step_is_that_of_the_reference(
    step: BufferStep, weighted: bool, upload: Upload
) -> None:
    found = combined(ANSWERS, step, weighted=weighted, upload=upload)
    expected = reference(ANSWERS, step, weighted=weighted, upload=upload)
    for name, array in expected.items():
        assert found.arrays[name].tobytes() == array.tobytes(), name
    assert found.samples == sum(one.samples for one in ANSWERS)


@pytest.mark.parametrize("step", [FEDBUFF, FEDASYNC], ids=["fedbuff", "fedasync"])
def test_the_order_of_answers_changes_no_bit(step: BufferStep) -> None:
    first = combined(ANSWERS, step)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(ANSWERS))
        again = combined([ANSWERS[place] for place in order], step)
        assert again.aggregate == first.aggregate
        assert again.client_drift == first.client_drift
        for name, array in first.arrays.items():
            assert again.arrays[name].tobytes() == array.tobytes()


def test_devices_that_did_not_move_leave_the_newest_weights_as_they_are() -> None:
    still = [Answer(number, VERSIONS[number], 3) for number in range(4)]
    found = combined(still, FEDBUFF)
    for name, array in VERSIONS[-1].items():
        assert found.arrays[name].tobytes() == array.tobytes()
    assert found.client_drift == 0


def test_one_fresh_answer_that_is_mixed_whole_takes_the_place_of_the_weights() -> None:
    found = combined([ANSWERS[0]], BufferStep(rate=1.0, mixes=True))
    grid = UpdateFrame(VERSIONS[-1]).grid
    for name, array in ANSWERS[0].weights.items():
        steps = np.abs(found.arrays[name] - array) / 2.0 ** grid.exponents[name]
        assert steps.max() <= 1.5, name


def test_a_stale_answer_is_a_shorter_step() -> None:
    name = "linear.weight"
    found = combined([ANSWERS[3]], BufferStep(rate=1.0, mixes=False)).arrays[name]
    far = found - VERSIONS[-1][name]
    assert np.allclose(far, 0.5 * (ANSWERS[3].weights[name] - VERSIONS[0][name]), atol=1e-5)


def test_no_variance_falls_below_zero() -> None:
    large = {name: np.full_like(array, 9) for name, array in VERSIONS[2].items()}
    frame = UpdateFrame(large)
    total = frame.summing(1, weighted=False)
    total.add(frame.encode({name: np.zeros_like(array) for name, array in large.items()}), 1)
    part = StaleSum(frame, 256, total.partial())
    newest = {name: np.ones_like(array) for name, array in large.items()}
    found = moved(newest, BufferStep(rate=1.0, mixes=False), [part]).arrays
    assert found["norm.running_var"].max() == 0
    assert found["linear.weight"].min() == -8


def test_a_sum_that_could_leave_64_bits_and_another_network_are_refused() -> None:
    frame = UpdateFrame({"w": np.zeros(1, np.float32)})
    total = frame.summing(1, weighted=True)
    total.add(frame.encode({"w": np.float32([100])}), 2**31)
    part = StaleSum(frame, 256, total.partial())
    with pytest.raises(MethodError, match="'w' could leave 64 bits; take a smaller buffer"):
        moved({"w": np.zeros(1, np.float32)}, FEDBUFF, [part])
    other = UpdateFrame({"w": np.zeros(2, np.float32)})
    parts = [part, StaleSum(other, 256, other.summing(1, weighted=True).partial())]
    with pytest.raises(MethodError, match="networks of other shapes"):
        moved({"w": np.zeros(1, np.float32)}, FEDBUFF, parts)
