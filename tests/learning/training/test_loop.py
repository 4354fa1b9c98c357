"""The loop against torch's own optimiser and modules, step by step."""

from dataclasses import replace

import pytest
import torch

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Extras, Sgd
from tests.learning.training.agents import (
    largest_difference,
    make_works,
    train_by_reference,
)

pytestmark = pytest.mark.torch

SETTINGS = TrainingEngineSettings()


def state(trained):
    return {**trained.parameters, **trained.buffers}


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("size", [37, 33, 5])
def test_training_is_that_of_torch_with_modules(dtype, within, size):
    (work,) = make_works((size,), dtype, epochs=8)
    trained = train_alone(work, SETTINGS)
    assert largest_difference(state(trained), train_by_reference(work)) < within
    assert trained.steps == 8 * work.batching.count(size)


@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
def test_nesterovs_steps_are_torchs(weight_decay):
    optimiser = Sgd((0.1, 0.05), 0.9, weight_decay, nesterov=True)
    (work,) = make_works((37,), optimiser=optimiser)
    made = state(train_alone(work, SETTINGS))
    assert largest_difference(made, train_by_reference(work)) < 1e-12
    plain = replace(work, optimiser=replace(optimiser, nesterov=False))
    assert largest_difference(made, state(train_alone(plain, SETTINGS))) > 1e-3


def test_nesterov_without_momentum_is_refused():
    with pytest.raises(TrainingError, match="nesterov"):
        Sgd((0.1,), nesterov=True)


def test_rates_of_zero_move_only_the_buffers():
    (work,) = make_works((20,), optimiser=Sgd((0.0,)))
    trained = train_alone(work, SETTINGS)
    assert all(torch.equal(trained.parameters[k], v) for k, v in work.parameters.items())
    assert not any(torch.equal(trained.buffers[k], v) for k, v in work.buffers.items())


def test_the_work_itself_stays_as_it_is():
    (work,) = make_works((20,))
    before = {name: value.clone() for name, value in {**work.parameters, **work.buffers}.items()}
    train_alone(work, SETTINGS)
    assert all(torch.equal(before[k], v) for k, v in {**work.parameters, **work.buffers}.items())


def test_the_same_work_gives_the_same_bits_and_another_agent_others():
    one, other = make_works((20, 20))
    other = type(one)(**{**vars(other), "data": one.data})
    first, again = (train_alone(one, SETTINGS) for _ in range(2))
    assert all(torch.equal(first.parameters[k], v) for k, v in again.parameters.items())
    assert largest_difference(state(train_alone(other, SETTINGS)), state(first)) > 1e-3


def test_the_loss_falls_and_is_told_per_epoch():
    (work,) = make_works((64,), epochs=6)
    trained = train_alone(work, SETTINGS)
    assert len(trained.losses) == 6
    assert trained.losses[-1] < 0.7 * trained.losses[0]


@pytest.mark.parametrize("size", [0, 1])
def test_an_agent_without_a_batch_returns_what_it_got(size):
    (work,) = make_works((size,))
    trained = train_alone(work, SETTINGS)
    assert trained.steps == 0
    assert trained.losses == ()
    assert largest_difference(state(trained), {**work.parameters, **work.buffers}) == 0


def test_short_batches_can_be_left_out():
    (work,) = make_works((23,), batching=Batching(8, smallest=8))
    assert train_alone(work, SETTINGS).steps == 2 * work.optimiser.epochs


@pytest.mark.parametrize(("samples", "batching"), [(17, Batching(8, 1)), (5, Batching(1, 1))])
def test_a_batch_that_cannot_be_normalised_is_refused_before_training(samples, batching):
    (work,) = make_works((samples,), batching=batching)
    with pytest.raises(TrainingError, match="cannot measure"):
        train_alone(work, SETTINGS)


def test_a_full_pass_before_each_epoch_reaches_the_loss_and_each_sample_its_own_row():
    seen = []

    def prepare(work, parameters, buffers, epoch, infer):
        return Extras({"epoch": torch.tensor(epoch)}, {"double": 2 * work.data.inputs})

    def loss(parameters, buffers, frozen, extras, batch):
        assert torch.equal(batch.extras["double"], 2 * batch.inputs)
        seen.append(int(extras["epoch"]))
        return sum(value.square().sum() for value in parameters.values()), buffers

    (work,) = make_works((20,), epochs=2, loss=loss, prepare=prepare)
    train_alone(work, SETTINGS)
    assert seen == [0] * 3 + [1] * 3


def test_bfloat16_keeps_float32_weights_and_learns_nearly_the_same():
    (work,) = make_works((64,), torch.float32, epochs=4)
    full, half = (
        train_alone(work, TrainingEngineSettings(autocast=flag)) for flag in (False, True)
    )
    assert {value.dtype for value in state(half).values()} == {torch.float32}
    assert 0 < largest_difference(state(half), state(full)) < 0.2
    assert half.losses[-1] == pytest.approx(full.losses[-1], rel=0.1)


def test_rows_that_do_not_match_the_inputs_are_refused():
    with pytest.raises(TrainingError, match="targets: 2 given, inputs 3"):
        Data(torch.zeros(3, 1), torch.zeros(2))


@pytest.mark.parametrize("smallest", [0, 9])
def test_a_smallest_batch_beyond_the_size_is_refused(smallest):
    with pytest.raises(TrainingError, match="smallest"):
        Batching(8, smallest)
