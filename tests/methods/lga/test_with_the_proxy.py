"""Devices, coordinator and proxy hand each other what they need, over two tasks, in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleetledger.methods.lga import proxy
from fleetledger.methods.lga.assignment import NEW_MODEL, OLD_MODEL
from fleetledger.methods.lga.coordinator import COORDINATOR
from fleetledger.methods.lga.terms import TEACHER
from fleetledger.schemas.values import Digest
from tests.methods.lga.making import ANT, BEE, CAT, DOG, asked, assignment, samples
from tests.methods.lga.training import PICTURES, begun, learn
from tests.methods.making import given, joined, order

pytestmark = pytest.mark.torch

QUICK = {"inversion_steps": 2, "inversion_kept": 2, "worst_distance": 1e9}


class Fleet:
    """Two devices, a coordinator and a proxy."""

    def __init__(self, **settings):
        self.of = assignment(**(QUICK | settings))
        self.rules = self.of.proxy_rules
        self.state, self.files, self.number = proxy.ProxyState(), {}, 0
        self.weights, self.rows = COORDINATOR.first_weights(self.of), ()
        self.memories = {"dev-1": None, "dev-2": None}

    def round(self, names, stages, data, round_of_stage=1):
        self.number += 1
        self.stages = stages
        slots = self.state.slots
        extras = {
            name: self.files[digest]
            for name, digest in ((OLD_MODEL, slots.previous), (NEW_MODEL, slots.current))
            if digest is not None
        }
        question = asked(
            self.of,
            *names,
            weights=self.weights,
            rows=self.rows,
            extras=extras,
            round_of_stage=round_of_stage,
        )
        answers = []
        for name, memory in self.memories.items():
            asks = order(question, stages, number=self.number, device_name=name)
            made = learn(self.of, asks, data[name], memory)
            COORDINATOR.check(self.of, made.payload, question)
            self.memories[name] = made.memory
            answers.append(given(made.payload))
            if made.gradients is not None:
                self.state = proxy.receive(self.rules, self.state, max(stages), made.gradients)
        combined = COORDINATOR.combine(self.of, question, answers)
        self.weights, self.rows = combined.weights, tuple(names)
        return self._scored(round_of_stage)

    def _scored(self, round_of_stage):
        digest = Digest.of(self.weights)
        self.files[digest] = self.weights
        network, arrays, names = COORDINATOR.network_of(self.of, self.weights)
        model = proxy.Model(
            digest, self.number, round_of_stage, network, arrays, names, PICTURES, self.stages
        )
        self.state, outcome = proxy.score(self.rules, self.state, model, seed=self.number)
        return outcome


FIRST = {"dev-1": samples(20, ANT, BEE), "dev-2": samples(10, BEE, seed=1)}
SECOND = {
    "dev-1": joined(FIRST["dev-1"], samples(12, CAT, DOG, seed=2)),
    "dev-2": joined(FIRST["dev-2"], samples(8, DOG, seed=3)),
}
BOTH = (ANT, BEE, CAT, DOG)


def test_the_best_model_of_a_task_teaches_the_next_one():
    fleet = Fleet()
    told = fleet.round((ANT, BEE), (1, 1), FIRST)
    assert (told.gradients, told.shifted, told.remarks) == (3, True, ())
    assert told.newest is not None
    quiet = fleet.round((ANT, BEE), (1, 1), FIRST, 2)
    assert (quiet.gradients, quiet.shifted) == (0, False)
    best = fleet.state.slots.current
    assert best in fleet.files
    assert fleet.state.slots.previous is None
    entered = fleet.round(BOTH, (1, 1, 2, 2), SECOND)
    assert (entered.gradients, entered.shifted) == (3, True)
    assert fleet.state.slots.previous == best
    assert fleet.state.names == (CAT, DOG)
    assert fleet.round(BOTH, (1, 1, 2, 2), SECOND, 2).gradients == 0


def test_who_trains_late_on_old_classes_begins_no_task():
    fleet = Fleet()
    fleet.memories = {"dev-1": None}
    fleet.round((ANT, BEE), (1, 1), FIRST)
    fleet.memories = {"dev-2": None}
    late = fleet.round(BOTH, (1, 1, 2, 2), FIRST)
    assert (late.gradients, late.shifted) == (1, False)
    assert (fleet.state.slots.task, fleet.state.slots.previous) == (1, None)
    entered = fleet.round(BOTH, (1, 1, 2, 2), SECOND, 2)
    assert (fleet.state.slots.task, entered.shifted) == (2, True)
    assert fleet.state.names == (DOG,)


def test_a_devices_old_model_is_the_one_that_the_proxy_chose():
    fleet = Fleet(preset="without-sbm")
    fleet.round((ANT, BEE), (1, 1), FIRST)
    fleet.round((ANT, BEE), (1, 1), FIRST, 2)
    last = fleet.weights
    assert fleet.state.slots.current == Digest.of(last)
    question = asked(
        fleet.of,
        *BOTH,
        weights=last,
        rows=(ANT, BEE),
        extras={NEW_MODEL: fleet.files[fleet.state.slots.current]},
    )
    asks = order(question, (1, 1, 2, 2), number=3)
    work = begun(fleet.of, asks, SECOND["dev-1"], fleet.memories["dev-1"]).work
    _, arrays, _ = COORDINATOR.network_of(fleet.of, last)
    for name, value in work.frozen[TEACHER]["parameters"].items():
        assert np.array_equal(value, arrays[name]), name


def test_without_augmentation_models_are_scored_by_the_pictures_themselves():
    one, other = Fleet(), Fleet(preset="without-ssa")
    assert one.rules == replace(other.rules, augmentation=one.rules.augmentation)
    told = [fleet.round((ANT, BEE), (1, 1), FIRST) for fleet in (one, other)]
    assert one.weights == other.weights
    assert [item.newest.score * count for item, count in zip(told, (15, 3), strict=True)] == [
        pytest.approx(round(item.newest.score * count))
        for item, count in zip(told, (15, 3), strict=True)
    ]
