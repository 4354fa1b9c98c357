"""A step in parts is the step of the whole batch, and one part is in memory at a time."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
import torch
from torch.nn import functional

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.losses.composition import ComposedLoss
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.measures import fisher_diagonal
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batch, Batching, Work
from tests.learning.training.agents import (
    CLASSES,
    CROSS_ENTROPY,
    INPUTS,
    largest_difference,
    make_works,
)

pytestmark = pytest.mark.torch

SETTINGS = TrainingEngineSettings()


@dataclass(frozen=True)
class Linear:
    """Cross-entropy of a linear layer, with the rows of every call written down."""

    rows: list[int]
    stackable = False

    def __call__(self, parameters, buffers, frozen, extras, batch: Batch):
        self.rows.append(len(batch.inputs))
        scores = batch.inputs @ parameters["weight"]
        return functional.cross_entropy(scores, batch.targets), buffers


def linear_work(samples: int, batching: Batching) -> Work:
    (work,) = make_works((samples,), epochs=3, loss=Linear([]), batching=batching)
    weight = torch.linspace(-1, 1, INPUTS * CLASSES, dtype=torch.float64)
    parameters = {"weight": weight.reshape(INPUTS, CLASSES)}
    return replace(work, parameters=parameters, buffers={})


def state(trained) -> Mapping[str, torch.Tensor]:
    return {**trained.parameters, **trained.buffers}


@pytest.mark.parametrize("parts", [2, 3, 8])
@pytest.mark.parametrize("samples", [16, 21, 9])
def test_parts_without_normalisation_are_the_batch(samples, parts):
    whole = train_alone(linear_work(samples, Batching(8, 1)), SETTINGS)
    split = train_alone(linear_work(samples, Batching(8, 1, parts)), SETTINGS)
    assert largest_difference(split.parameters, whole.parameters) < 1e-12
    assert split.losses == pytest.approx(whole.losses, rel=1e-12)
    assert split.steps == whole.steps


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_dropout_and_frozen_norms_are_those_of_the_batch(parts):
    (work,) = make_works((37,), norms_frozen=True)
    whole = train_alone(work, SETTINGS)
    split = train_alone(replace(work, batching=Batching(8, parts=parts)), SETTINGS)
    assert largest_difference(split.parameters, whole.parameters) < 1e-12
    assert all(torch.equal(split.buffers[name], value) for name, value in work.buffers.items())


def test_one_part_gives_the_bits_of_a_batch_at_once():
    works = make_works((20, 20), torch.float32)
    one, other = works[0], replace(works[0], batching=Batching(8, parts=1))
    first, second = train([one], SETTINGS)[0], train_alone(other, SETTINGS)
    assert all(torch.equal(value, state(second)[name]) for name, value in state(first).items())


@pytest.mark.parametrize(
    ("batching", "rows"),
    [
        (Batching(8, 1, 2), [4, 4, 3, 2]),
        (Batching(8, 1, 3), [3, 3, 2, 3, 2]),
        (Batching(6, 1, 4), [2, 2, 2, 2, 2, 2, 1]),
        (Batching(8, 1, 8), [1] * 13),
        (Batching(20, 1, 2), [7, 6]),
    ],
)
def test_a_part_has_no_more_rows_than_its_share_and_short_batches_fewer_parts(batching, rows):
    work = linear_work(13, batching)
    train_alone(replace(work, optimiser=replace(work.optimiser, rates=(0.1,))), SETTINGS)
    assert work.loss.rows == rows


def test_measured_norms_never_see_a_part_of_one():
    (work,) = make_works((13,), epochs=1, batching=Batching(6, 2, 3))  # batches of 6, 6 (and 1)
    assert train_alone(work, SETTINGS).steps == 2
    assert work.batching.part_sizes(5, least=2) == [3, 2]
    assert work.batching.part_sizes(3, least=2) == [3]
    assert work.batching.part_sizes(1, least=2) == [1]


def test_running_statistics_go_from_part_to_part():
    (work,) = make_works((8,), epochs=1)
    halves = train_alone(replace(work, batching=Batching(8, parts=2)), SETTINGS)
    name = next(name for name in work.buffers if name.endswith("running_mean"))
    rows = torch.from_numpy(work.chance.shuffled(0, 8))
    mean = work.buffers[name]
    layer = name.removesuffix("running_mean").replace("norm", "linear")
    for part in work.data.inputs[rows].split(4):
        weight, bias = (work.parameters[f"{layer}{kind}"] for kind in ("weight", "bias"))
        mean = 0.9 * mean + 0.1 * (part @ weight.T + bias).mean(dim=0)
    assert torch.allclose(halves.buffers[name], mean, rtol=1e-12)


def test_importance_is_that_of_whole_batches():
    loss = ComposedLoss(CROSS_ENTROPY.network, CROSS_ENTROPY.terms, training="none")
    (work,) = make_works((21,), loss=loss)
    whole = fisher_diagonal(work, SETTINGS)
    split = fisher_diagonal(replace(work, batching=Batching(8, parts=3)), SETTINGS)
    assert largest_difference(split, whole) < 1e-12


def test_parts_of_one_are_refused_where_a_norm_measures_them():
    (work,) = make_works((16,), batching=Batching(8, parts=8))
    with pytest.raises(TrainingError, match=r"parts of one.*set parts to 4 at most"):
        train_alone(work, SETTINGS)
    assert train_alone(replace(work, norms_frozen=True), SETTINGS).steps == 2 * 8


@pytest.mark.parametrize(("samples", "batching"), [(17, Batching(8, 1)), (5, Batching(1, 1))])
def test_frozen_norms_take_a_batch_of_one(samples, batching):
    (work,) = make_works((samples,), epochs=1, batching=batching)
    with pytest.raises(TrainingError, match="or freeze the norms"):
        train_alone(work, SETTINGS)
    trained = train_alone(replace(work, norms_frozen=True), SETTINGS)
    assert trained.steps == -(-samples // batching.size)
    assert all(torch.equal(trained.buffers[name], value) for name, value in work.buffers.items())


def test_frozen_norms_train_alike_alone_and_in_a_stack():
    works = make_works((17, 9, 16), epochs=2, batching=Batching(8, 1), norms_frozen=True)
    alone, stacked = (
        train(works, TrainingEngineSettings(engine=name)) for name in ("loop", "stack")
    )
    for one, other in zip(alone, stacked, strict=True):
        assert largest_difference(state(other), state(one)) < 1e-12


def test_stacks_refuse_parts_and_auto_trains_them_one_by_one():
    works = make_works((16, 16), epochs=1, batching=Batching(8, parts=2))
    with pytest.raises(TrainingError, match=r"in parts are for one agent.*choose loop or auto"):
        train(works, TrainingEngineSettings(engine="stack"))
    chosen, alone = (train(works, TrainingEngineSettings(engine=name)) for name in ("auto", "loop"))
    for one, other in zip(chosen, alone, strict=True):
        assert all(torch.equal(value, state(other)[name]) for name, value in state(one).items())


def test_no_parts_are_refused():
    with pytest.raises(TrainingError, match="parts: 0"):
        Batching(8, parts=0)
