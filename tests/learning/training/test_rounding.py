"""Answers rounded where they were trained have the integers, the sums and the refusals of NumPy's.

Here that is torch on the processor, and the same on the fake accelerator, whose copies are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from benchmarks.speed.kernel_counts.accelerator import DEVICE, FakeAccelerator
from fleetledger.learning.errors import RangeError
from fleetledger.learning.training import rounding
from fleetledger.learning.training.rounding import RoundingThere
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.training.client_updates import UpdateFrame, UpdateSum, partial_of
from fleetledger.methods.training.update_forms import Upload

pytestmark = pytest.mark.torch

Arrays = Mapping[str, npt.NDArray[np.float32]]

FORMS: tuple[Upload, ...] = ("int32", "int16")
SHAPES = {
    "body.weight": (7, 5),
    "body.bias": (3,),
    "norm.running_mean": (4,),
    "norm.running_var": (4,),
    "head.weight": (0, 5),
    "tail": (),
}
SENT = {
    name: np.random.default_rng(1).uniform(0.5, 2, shape).astype(np.float32)
    for name, shape in SHAPES.items()
}
STEP = np.float32(2.0**-20)
"""Of the grid around these weights: 4 times 2 fits 24 bits."""
HARD = np.array(
    [
        *(0.0, -0.0, STEP / 2, -STEP / 2, STEP * 1.5, STEP * 2.5, -STEP * 2.5, 2047.99, -2047.99),
        *(np.float32(1e-45), -np.float32(1e-40), np.finfo(np.float32).tiny, 1 + STEP / 2, 1e-7),
        *(np.nextafter(np.float32(2048), np.float32(0)), STEP * np.float32(2**23 + 1), 1.0, 0.1),
    ],
    np.float32,
)
"""Halves between two steps, numbers without a leading bit, and the last ones that fit."""
NONE = (np.nan, np.inf, -np.inf, 2050.0, -2048.0, 1e38)
"""What is no answer: 2048 is 2^31 steps, and a move by as much is too far for 16 bits."""


def drawn(seed: int, upload: Upload) -> Arrays:
    """Weights of all sizes, with hard values among them; of 16 bits those that can be reached."""
    chance = np.random.default_rng(seed)
    hard = HARD if upload == "int32" else HARD[np.abs(HARD) < 1024]
    made = {}
    for name, shape in SHAPES.items():
        near = SENT[name] + chance.normal(0, 10.0 ** chance.integers(-8, 2), shape)
        picked = np.where(chance.random(shape) < 0.3, chance.choice(hard, shape), near)
        made[name] = np.asarray(picked, np.float32)
    made["norm.running_var"] = np.abs(made["norm.running_var"])
    return made


def there(arrays: Arrays, device: str = "cpu") -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array.copy()).to(device) for name, array in arrays.items()}


def made_of(frame: UpdateFrame, device: str = "cpu") -> RoundingThere:
    return RoundingThere(frame.grid, frame.sent, device)


def test_the_step_is_what_the_hard_values_are_made_for() -> None:
    assert UpdateFrame(SENT).grid.exponents["body.weight"] == -20


@pytest.mark.parametrize("upload", FORMS)
def test_the_bytes_are_those_that_numpy_writes(
    upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, answers = UpdateFrame(SENT, upload), [drawn(seed, upload) for seed in range(40)]
    monkeypatch.setattr(rounding, "_VALUES_AT_ONCE", 3 * frame.grid.size)  # some at a time
    found = made_of(frame).rounded([there(one) for one in answers])
    assert found.fits == [True] * 40
    for row, one in enumerate(answers):
        assert frame.framed(found.content[row]) == frame.encode(one)


@pytest.mark.parametrize("value", [2048.0, np.inf])
def test_the_first_number_beyond_int32_does_not_fit(value: float) -> None:
    frame, last = UpdateFrame(SENT), np.nextafter(np.float32(2048), np.float32(0))
    ends = [{**SENT, "body.bias": np.array([one, 0, 0], np.float32)} for one in (last, value)]
    assert made_of(frame).rounded([there(one) for one in ends]).fits == [True, False]


@pytest.mark.parametrize("upload", FORMS)
def test_a_variance_that_rounding_would_bring_below_zero_is_rounded_up(upload: Upload) -> None:
    frame, low = UpdateFrame(SENT, upload), {**SENT, "norm.running_var": np.zeros(4, np.float32)}
    low["norm.running_var"][1] = 1e-30
    found = made_of(frame).rounded([there(low)])
    assert found.fits == [True]
    assert frame.framed(found.content[0]) == frame.encode(low)


@pytest.mark.parametrize("upload", FORMS)
@pytest.mark.parametrize("value", NONE)
def test_what_numpy_refuses_does_not_fit_there_and_others_do(upload: Upload, value: float) -> None:
    frame, good = UpdateFrame(SENT, upload), drawn(5, upload)
    bad = {name: array.copy() for name, array in good.items()}
    bad["body.bias"][1] = value
    found = made_of(frame).rounded([there(one) for one in (good, bad, good)])
    assert found.fits == [True, False, True]
    with pytest.raises(RangeError, match="bias"):
        frame.encode(bad)


@pytest.mark.parametrize("upload", FORMS)
@pytest.mark.parametrize("value", [-1e-30, -1.0, np.nan])
def test_variances_below_zero_are_refused_there_too(upload: Upload, value: float) -> None:
    frame = UpdateFrame(SENT, upload)
    bad = {**SENT, "norm.running_var": np.array([1, value, 1, 1], np.float32)}
    assert made_of(frame).rounded([there(bad)]).fits == [False]
    with pytest.raises(RangeError, match="running_var"):
        frame.encode(bad)


def test_tensors_of_another_form_are_left_to_the_host() -> None:
    rounding_there, whole = made_of(UpdateFrame(SENT)), there(SENT)
    assert rounding_there.takes({**whole, "counter": torch.tensor(3)})
    assert not rounding_there.takes({**whole, "tail": whole["tail"].double()})
    assert not rounding_there.takes({**whole, "body.bias": whole["body.bias"][:2]})
    assert not rounding_there.takes({name: whole[name] for name in whole if name != "tail"})


def summed(frame: UpdateFrame, answers: list[Arrays], samples: list[int], weighted: bool) -> Any:
    total = frame.summing(len(answers), weighted=weighted)
    for one, count in zip(answers, samples, strict=True):
        total.add(frame.encode(one), count)
    return total


@pytest.mark.parametrize("upload", FORMS)
@pytest.mark.parametrize("weighted", [True, False])
def test_the_sum_and_the_drift_are_those_of_the_answers_one_by_one(
    upload: Upload, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, answers = UpdateFrame(SENT, upload), [drawn(seed, upload) for seed in range(9)]
    samples = [1, 7, 3, 2_000_000, 5, 11, 2, 40, 6]
    monkeypatch.setattr(rounding, "_VALUES_AT_ONCE", 60)  # block by block
    made, distances = made_of(frame), []
    for some in (slice(0, 4), slice(4, 9)):
        rounded = made.rounded([there(one) for one in answers[some]])
        made.add(rounded, samples[some] if weighted else [1] * len(answers[some]))
        distances += rounded.distances
    total = frame.summing(9, weighted=weighted)
    total.join(partial_of(made.sums(), samples, distances, weighted=weighted))
    found, expected = total.mean(), summed(frame, answers, samples, weighted).mean()
    assert (found.aggregate, found.samples) == (expected.aggregate, expected.samples)
    assert found.client_drift == pytest.approx(expected.client_drift, rel=1e-9)
    assert all((found.arrays[name] == expected.arrays[name]).all() for name in SHAPES)


def test_an_answer_that_does_not_count_is_in_no_sum() -> None:
    frame, good = UpdateFrame(SENT), drawn(3, "int32")
    made = made_of(frame)
    bad = {**good, "body.bias": np.full(3, np.nan, np.float32)}
    rounded = made.rounded([there(bad), there(good)])
    made.add(rounded, [0, 2])
    total: UpdateSum = frame.summing(2, weighted=True)
    total.join(partial_of(made.sums(), [2], rounded.distances[1:], weighted=True))
    assert total.mean().aggregate == summed(frame, [good], [2], True).mean().aggregate


def test_a_stack_comes_back_in_one_copy_and_a_sum_in_another() -> None:
    frame, answers = UpdateFrame(SENT), [drawn(seed, "int32") for seed in range(6)]
    with FakeAccelerator() as fake:
        made, tensors = made_of(frame, DEVICE), [there(one, DEVICE) for one in answers]
        before = fake.seen.totals()
        found = made.rounded(tensors)
        assert fake.seen.totals()["to_host"] - before["to_host"] == 1
        made.add(found, [1, 2, 3, 4, 5, 6])
        sums = made.sums()
        after = fake.seen.totals()
    assert after["to_host"] - before["to_host"] == 2 == after["waits"] - before["waits"]
    assert after["to_device"] - before["to_device"] == 1  # how often each counts
    assert [frame.framed(row) for row in found.content] == [frame.encode(one) for one in answers]
    expected = summed(frame, answers, [1, 2, 3, 4, 5, 6], True)
    assert (sums == expected.partial().arrays[0]).all()


def test_the_host_reads_what_was_written_there() -> None:
    frame = UpdateFrame(SENT)
    content = made_of(frame).rounded([there(SENT)]).content[0]
    frame.check(frame.framed(content))
    with pytest.raises(ContributionError):
        frame.check(frame.framed(content[:-1]))
