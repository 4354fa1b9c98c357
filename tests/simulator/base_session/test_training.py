"""A first stage in one place: the same steps as a plain loop with torch's own optimiser."""

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.simulator.base_session.training import Lesson, train_centrally
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.scenario.sections import BaseSession
from tests.learning.training.threads import one_thread  # noqa: F401 - a fixture

pytestmark = pytest.mark.torch

CLASSES, SAMPLES, SEED = ("a", "b", "c"), 20, 3
PROTOCOL = BaseSession(
    epochs=4, batch=8, rate=0.2, milestones=(2, 3), milestone_factor=0.5, weight_decay=0.01
)


def made_lesson() -> Lesson:
    random = np.random.default_rng(7)
    network = build_network("identity", (5,))
    return Lesson(
        network=network,
        begin=network.initial(1, CLASSES),
        inputs=random.normal(size=(SAMPLES, 5)).astype(np.float32),
        rows=random.integers(0, len(CLASSES), SAMPLES).tolist(),
        pictures=None,
        seed=SEED,
    )


def test_it_does_the_steps_of_torchs_own_optimiser_and_schedule():
    lesson, told = made_lesson(), []
    parameters, buffers = to_tensors(lesson.begin)
    leaves = {name: value.requires_grad_() for name, value in parameters.items()}
    optimiser = torch.optim.SGD(leaves.values(), lr=0.2, momentum=0.9, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [2, 3], gamma=0.5)
    inputs, rows = torch.from_numpy(lesson.inputs), torch.tensor(lesson.rows)
    chance = Chance(SEED, "base-session", phase="base")
    for epoch in range(PROTOCOL.epochs):
        order = torch.from_numpy(chance.shuffled(epoch, SAMPLES))
        for batch in order.split(PROTOCOL.batch):
            seen = forward(lesson.network, leaves, buffers, inputs[batch], Mode(training=True))
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(seen.logits, rows[batch]).backward()
            optimiser.step()
        schedule.step()
    trained = train_centrally(lesson, PROTOCOL, TrainingEngineSettings(), told.append)
    assert told == [1, 2, 3, 4]
    for name, value in leaves.items():
        np.testing.assert_allclose(trained[name], value.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_what_it_begins_with_stays_as_it_is():
    lesson = made_lesson()
    before = {name: array.copy() for name, array in lesson.begin.items()}
    train_centrally(lesson, PROTOCOL, TrainingEngineSettings(), lambda _: None)
    for name, array in before.items():
        np.testing.assert_array_equal(lesson.begin[name], array)


def test_training_that_leaves_the_numbers_is_told_with_the_rate():
    wild = PROTOCOL.model_copy(update={"rate": 1e30, "weight_decay": 1.0})
    with pytest.raises(EngineError, match=r"method.base.rate: with 1e\+30"):
        train_centrally(made_lesson(), wild, TrainingEngineSettings(), lambda _: None)
