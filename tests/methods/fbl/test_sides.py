"""Both halves together: several rounds of two tasks, in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode
from fleetledger.methods.fbl.assignment import OLD_MODEL
from fleetledger.methods.fbl.coordinator import COORDINATOR
from fleetledger.methods.fbl.device import DEVICE
from fleetledger.methods.fbl.memory import read_memory
from fleetledger.methods.training.exchange import RoundConfig
from tests.methods.fbl.making import ANT, BEE, CAT, DOG, EVERY, STAGES, assignment, scenes, together
from tests.methods.fbl.training import PICTURES, learn
from tests.methods.making import given, order

pytestmark = pytest.mark.torch

ROUNDS = 3
SIMPLE = {"epochs": 4, "batch": 6, "rate": 0.05, "first_rate": 0.1}


class Fleet:
    """Two devices from the beginning, a third that joins; the first alone looks on at times."""

    def __init__(self, **settings):
        self.of = assignment(**SIMPLE | settings)
        self.first = [scenes(14, ANT, BEE, seed=seed) for seed in (1, 2)]
        new = [scenes(14, CAT, DOG, hidden=(ANT, BEE), seed=seed) for seed in (3, 4, 5)]
        self.second = [*(together(*pair) for pair in zip(self.first, new, strict=False)), new[2]]
        self.memory = [None, None, None]
        self.weights, self.rows, self.extras = COORDINATOR.first_weights(self.of), (), {}
        self.number = 0
        self.noticed = []

    def task(self, names, stages, data, away=()):
        """All rounds of a task; those who are `away` look on in its first round."""
        for number in range(1, ROUNDS + 1):
            self.number += 1
            config = RoundConfig(
                "train", number, ROUNDS, self.weights, self.rows, names, self.extras
            )
            answers = []
            for place, own in enumerate(data):
                asks = order(config, stages, self.number, f"dev-{place}")
                if number == 1 and place in away:
                    found = DEVICE.observe(self.of, asks, own, self.memory[place], PICTURES)
                    self.memory[place] = found.memory
                    continue
                answer = learn(self.of, asks, own, self.memory[place])
                self.memory[place] = answer.memory
                answers.append(given(answer.payload, 14))
                COORDINATOR.check(self.of, answer.payload, config)
                if answer.observation.transition:
                    self.noticed.append((self.number, place))
            made = COORDINATOR.combine(self.of, config, answers)
            self.weights, self.rows, self.extras = made.weights, names, dict(made.extras)

    def both_tasks(self):
        self.task((ANT, BEE), (1, 1), self.first)
        self.task(EVERY, STAGES, self.second, away=(0,))
        return self

    def right(self, *names):
        """The share of the pixels of classes, in scenes that nobody had, that are told."""
        network, arrays, rows = COORDINATOR.network_of(self.of, self.weights)
        data = scenes(30, *names, seed=77)
        inputs = PICTURES.normalise(torch.from_numpy(data.inputs))
        with torch.no_grad():
            outputs, _ = DensePass(network)(*to_tensors(arrays), inputs, Mode())
        told = outputs.logits.argmax(dim=1).numpy()
        channels = np.array([0, *(1 + rows.index(name) for name in data.mask_class_names)])
        pixels = (data.masks > 0) & (data.masks < 255)
        return float((told[pixels] == channels[data.masks[pixels]]).mean())


def test_a_fleet_learns_a_second_task_and_keeps_the_first():
    fleet = Fleet(unsure="ignore", share_start=0.8).both_tasks()
    assert fleet.right(CAT, DOG) > 0.8
    assert fleet.right(ANT, BEE) > 0.6
    assert fleet.noticed == [(1, 0), (1, 1), (4, 1), (4, 2)]
    memories = [read_memory(memory) for memory in fleet.memory]
    assert [memory.looks.tasks for memory in memories] == [2, 2, 1]
    assert len({memory.old for memory in memories}) == 1
    assert [memory.kept for memory in memories] == [None] * 3
    assert OLD_MODEL in fleet.extras


def test_finetuning_forgets_what_it_learned_before():
    fleet = Fleet(preset="finetuning").both_tasks()
    assert fleet.right(CAT, DOG) > 0.8
    assert fleet.right(ANT, BEE) < 0.1
    assert not fleet.extras


def test_a_history_of_losses_runs_through_both_tasks():
    fleet = Fleet(detection="history", epochs=1).both_tasks()
    assert all(np.isfinite(array).all() for array in decoded(fleet))
    assert read_memory(fleet.memory[2]).looks.tasks >= 1


def test_as_released_every_device_signals_first_in_every_task():
    fleet = Fleet(mode="code", detection="rise", epochs=1).both_tasks()
    assert all(np.isfinite(array).all() for array in decoded(fleet))
    assert {(1, 0), (1, 1), (4, 1), (4, 2)} <= set(fleet.noticed)
    assert read_memory(fleet.memory[0]).looks.tasks >= 2


def decoded(fleet):
    _, arrays, _ = COORDINATOR.network_of(fleet.of, fleet.weights)
    return arrays.values()
