"""Devices that differ: at once, late, never, newly joined, without scenes of the task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fbl.assignment import OLD_MODEL
from fleetledger.methods.fbl.device import DEVICE
from fleetledger.methods.fbl.losses import EXPONENT, OLD, TASKS
from fleetledger.methods.fbl.memory import Memory, read_memory
from fleetledger.methods.training.exchange import LocalData
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.fbl.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EEL,
    EVERY,
    STAGES,
    asked,
    assignment,
    renamed,
    scenes,
    together,
)
from tests.methods.fbl.training import PICTURES, Taught, begun, learn, seen
from tests.methods.making import order

pytestmark = pytest.mark.torch

NEVER = {"detection": "rise", "entropy_rise": 50.0}
"""After a first look, which begins the first task, no entropy rises as much."""


def old_rows(work):
    """How many rows the old model's head has, or None without one."""
    return len(work.frozen[OLD]["parameters"]["head.weight"]) if OLD in work.frozen else None


def is_old(work, of, file):
    """Whether a file is the work's old model."""
    arrays, _ = decode_weights(file, of.network)
    return np.array_equal(work.frozen[OLD]["parameters"]["head.weight"], arrays["head.weight"])


def third_task(fleet, made, number=5):
    """The first round of a third task, after `made` of the second."""
    five = (*EVERY, EEL)
    question = asked(fleet.of, *five, weights=made.weights, rows=EVERY, extras=made.extras)
    return order(question, (*STAGES, 3), number=number)


def test_the_first_task_is_cross_entropy_on_what_masks_show():
    of = assignment()
    work = begun(of, order(asked(of), (1, 1)), scenes(10, ANT, BEE)).work
    assert len(work.loss.terms) == 1
    assert work.prepare is None
    assert not work.frozen
    assert work.optimiser.rates[0] == of.settings.first_rate
    assert set(work.data.targets.unique().tolist()) == {0, 1, 2, 255}
    assert Taught(of).work().optimiser.rates[0] == of.settings.rate


def test_rates_fall_over_all_rounds_of_the_stage():
    of = assignment(power=0.5)
    question = asked(of, rounds_of_stage=4, round_of_stage=3)
    work = begun(of, order(question, (1, 1)), scenes(10, ANT, BEE)).work
    assert work.optimiser.rates == pytest.approx([0.05 * 0.5**0.5, 0.05 * 0.375**0.5])
    assert work.optimiser.nesterov


def test_a_device_trains_on_scenes_of_the_newest_task_alone():
    fleet = Taught(assignment())
    work = fleet.work()
    assert torch.equal(work.data.inputs, torch.from_numpy(fleet.new.inputs))
    assert set(work.data.targets.unique().tolist()) == {0, 3, 4, 255}
    assert fleet.learn().samples == {CAT: 6, DOG: 6}
    assert fleet.learn().stored_samples == 0


def test_the_model_of_the_round_becomes_the_old_one_at_once():
    fleet = Taught(assignment())
    work = fleet.work()
    assert old_rows(work) == 3
    assert is_old(work, fleet.of, fleet.made.weights)
    assert work.frozen[TASKS].tolist() == [0, 1, 1, 2, 2]
    answer = fleet.learn()
    assert answer.observation is not None
    assert answer.observation.transition
    assert answer.observation.images == 12
    memory = read_memory(answer.memory)
    assert memory.looks.tasks == 2
    assert memory.old == Digest.of(fleet.made.weights)


def test_its_file_is_remembered_only_while_the_coordinator_does_not_serve_it():
    fleet = Taught(assignment())
    answer = fleet.learn()
    assert read_memory(answer.memory).kept == fleet.made.weights
    made = fleet.combined(answer)
    assert made.extras[OLD_MODEL] == fleet.made.weights
    second = fleet.second(made)
    later = seen(fleet.of, second, fleet.data, answer.memory)
    assert (later.old, later.kept) == (Digest.of(fleet.made.weights), None)
    work = begun(fleet.of, second, fleet.data, answer.memory).work
    assert is_old(work, fleet.of, fleet.made.weights)


def test_a_device_that_notices_late_is_given_the_model_before_its_classes():
    fleet = Taught(assignment())
    made = fleet.combined()
    work = begun(fleet.of, fleet.second(made), fleet.data, fleet.memory).work
    assert old_rows(work) == 3
    assert is_old(work, fleet.of, fleet.made.weights)
    memory = seen(fleet.of, fleet.second(made), fleet.data, fleet.memory)
    assert memory.kept is None
    assert memory.looks.tasks == 2


def test_a_device_that_joins_is_given_the_model_before_its_classes():
    """Its first scenes ever are a task of its own; it has no old class, so the exponent is 0."""
    fleet = Taught(assignment(detection="history"))
    at_once = fleet.work(fleet.new, None)
    assert is_old(at_once, fleet.of, fleet.made.weights)
    made = fleet.combined()
    late = begun(fleet.of, fleet.second(made), fleet.new).work
    assert is_old(late, fleet.of, fleet.made.weights)
    assert float(late.frozen[EXPONENT]) == 0
    fleet = Taught(assignment())
    assert float(fleet.work().frozen[EXPONENT]) == 0.5


def test_ranks_are_of_all_pixels_and_levels_of_the_most_uncertain_ones():
    quiet = {"deviations": 1e9, "quiet_looks": 1e9}
    looks = {
        detection: read_memory(
            Taught(assignment(detection=detection, **quiet)).learn().memory
        ).looks
        for detection in ("history", "sequential")
    }
    assert looks["sequential"].tasks == looks["history"].tasks == 1
    assert looks["sequential"].history[-1] < 0.9 * looks["history"].history[-1]
    assert sum(looks["sequential"].levels) > 0


def test_the_exponent_counts_the_devices_own_classes():
    fleet = Taught(assignment())
    one = together(fleet.old, scenes(5, CAT, seed=1))
    assert float(fleet.work(one).frozen[EXPONENT]) == pytest.approx(2 / 3)
    alone = scenes(5, CAT, seed=1)
    assert float(fleet.work(alone).frozen[EXPONENT]) == pytest.approx(2 / 3)


def test_a_device_that_never_notices_its_second_task_trains_as_in_the_first():
    fleet = Taught(assignment(**NEVER))
    assert old_rows(fleet.work()) is None
    assert len(fleet.work().loss.terms) == 1
    answer = fleet.learn()
    assert answer.observation is not None
    assert not answer.observation.transition
    second = fleet.second(fleet.combined(answer))
    assert old_rows(begun(fleet.of, second, fleet.data, answer.memory).work) is None


def test_a_device_that_misses_a_task_stays_with_the_old_model_that_it_has():
    fleet = Taught(assignment(**NEVER))
    newcomer = fleet.learn(fleet.new)
    assert newcomer.observation is not None
    joined = learn(fleet.of, fleet.order, fleet.new)
    made = fleet.combined(joined)
    second = fleet.second(made)
    memory = seen(fleet.of, second, fleet.new, joined.memory)
    assert (memory.old, memory.kept) == (Digest.of(fleet.made.weights), None)
    data = together(fleet.new, scenes(6, EEL, seed=2))
    third = third_task(fleet, made)
    work = begun(fleet.of, third, data, memory.write()).work
    assert is_old(work, fleet.of, fleet.made.weights)
    kept = seen(fleet.of, third, data, memory.write())
    assert kept.kept == fleet.made.weights  # what is served changes with this round


def test_a_device_that_was_away_when_its_old_model_was_replaced_takes_the_present_one():
    fleet = Taught(assignment(**NEVER))
    made = fleet.combined(learn(fleet.of, fleet.order, fleet.new))
    away = Memory(
        looks=seen(fleet.of, fleet.order, fleet.new).looks, old=Digest.of(b"a model that is gone")
    )
    memory = seen(fleet.of, fleet.second(made), fleet.new, away.write())
    assert memory.old == Digest.of(fleet.made.weights)


def test_a_false_alarm_changes_nothing_where_rho_counts_by_the_round():
    fleet = Taught(assignment())
    answer = fleet.learn()
    second = fleet.second(fleet.combined(answer))
    of = assignment(detection="rise", entropy_rise=1e-9, share_since="round")
    memory, told = replace(read_memory(answer.memory), observation=None), {}
    for before in (5.0, 0.0):
        looks = replace(memory.looks, history=(before,))
        made = learn(of, second, fleet.data, replace(memory, looks=looks).write())
        assert made.observation is not None
        told[made.observation.transition] = made.payload
    assert told[True] == told[False]


def test_a_device_without_scenes_of_the_task_looks_and_does_not_train():
    fleet = Taught(assignment())
    assert DEVICE.begin(fleet.of, fleet.order, fleet.old, fleet.memory, PICTURES) is None
    found = DEVICE.observe(fleet.of, fleet.order, fleet.old, fleet.memory, PICTURES)
    assert found is not None
    assert found.observation.images == 10
    assert not found.observation.transition


@pytest.mark.parametrize("frozen", [False, True])
def test_what_a_device_with_one_scene_can_do_depends_on_the_norms(frozen):
    fleet = Taught(assignment(frozen_norm="all" if frozen else "none", batch=3))
    one = scenes(1, CAT, seed=1)
    found = DEVICE.begin(fleet.of, fleet.order, one, None, PICTURES)
    assert (found is not None) == frozen
    assert fleet.work().norms_frozen == frozen


def test_without_any_scene_there_is_nothing():
    fleet = Taught(assignment())
    nothing = LocalData(fleet.new.inputs[:0], (), (), masks=np.zeros((0, 16, 16), np.uint8))
    strange = scenes(4, EEL)
    for data in (nothing, strange):
        assert DEVICE.begin(fleet.of, fleet.order, data, None, PICTURES) is None
        assert DEVICE.observe(fleet.of, fleet.order, data, None, PICTURES) is None


def test_entropy_is_that_of_the_incoming_model_over_the_pixels_that_count():
    fleet = Taught(assignment())
    found = fleet.learn().observation
    assert found is not None
    work = fleet.work()
    inputs = PICTURES.normalise(work.data.inputs)
    network = DensePass(fleet.of.network)
    outputs, _ = network(work.parameters, work.buffers, inputs, Mode())
    shares = outputs.logits.double().softmax(dim=1)
    entropies = -(shares * shares.log()).sum(dim=1)
    means = [
        one[mask != 255].mean() for one, mask in zip(entropies, work.data.targets, strict=True)
    ]
    assert found.entropy == pytest.approx(float(torch.stack(means).mean()), rel=1e-6)


def test_growing_the_head_alone_is_seen_by_the_rise_and_not_by_the_history():
    fleet = Taught(assignment(detection="history"))
    before = order(replace(fleet.question, class_names=(ANT, BEE)), (1, 1), number=2)
    first, values = read_memory(fleet.memory), {}
    first = replace(first, looks=replace(first.looks, history=()))
    for asks in (before, fleet.order):
        memory = seen(fleet.of, asks, fleet.old, first.write())
        assert memory.observation is not None
        values[asks.round.class_names] = memory.observation.entropy, memory.looks.history[-1]
    (nats, level), (grown_nats, grown_level) = values[(ANT, BEE)], values[EVERY]
    assert grown_nats > nats + 0.1
    assert grown_level == pytest.approx(level, rel=1e-4)


def test_renamed_classes_are_followed():
    fleet = Taught(assignment())
    names = {ANT: EEL, CAT: ClassName("cow")}
    question = replace(
        fleet.question,
        class_names=tuple(names.get(name, name) for name in EVERY),
        weights_class_names=(EEL, BEE),
    )
    asks = order(question, STAGES, number=2, aliases=names)
    work = begun(fleet.of, asks, renamed(fleet.data, names), fleet.memory).work
    plain = fleet.work()
    assert is_old(work, fleet.of, fleet.made.weights)
    assert torch.equal(work.data.targets, plain.data.targets)
    assert float(work.frozen[EXPONENT]) == 0.5
    assert seen(fleet.of, asks, renamed(fleet.data, names), fleet.memory).seen == {
        EEL,
        BEE,
        DOG,
        ClassName("cow"),
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"inputs": np.zeros((22, 3, 8, 8), np.uint8)}, "samples"),
        ({"inputs": np.zeros((22, 3, 16, 16), np.float32)}, "samples"),
        ({"masks": None}, "masks: missing"),
        ({"masks": np.zeros((22, 8, 8), np.uint8)}, "masks"),
        ({"masks": np.zeros((22, 16, 16), np.int64)}, "masks"),
        ({"masks": np.full((22, 16, 16), 9, np.uint8)}, "value 9, and 4 classes"),
    ],
)
def test_scenes_that_do_not_fit_are_refused(change, why):
    fleet = Taught(assignment())
    data = replace(fleet.data, **change)
    for half in (DEVICE.begin, DEVICE.observe):
        with pytest.raises(MethodError, match=why):
            half(fleet.of, fleet.order, data, fleet.memory, PICTURES)


def test_a_remembered_model_that_is_none_is_refused():
    fleet = Taught(assignment())
    strange = Memory(looks=read_memory(fleet.memory).looks, old=Digest.of(b"x"), kept=b"x")
    hidden = Taught(assignment(**NEVER))
    with pytest.raises(MethodError, match="weights"):
        begun(hidden.of, hidden.order, hidden.data, strange.write())


def test_weights_that_left_the_numbers_are_told():
    fleet = Taught(assignment())
    arrays, names = decode_weights(fleet.made.weights, fleet.of.network)
    far = encode_weights({name: array * 1e30 for name, array in arrays.items()}, names)
    with pytest.raises(MethodError, match="not finite"):
        begun(fleet.of, replace(fleet.order, weights=far), fleet.data)
