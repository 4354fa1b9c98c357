"""Devices that differ: without new classes, late, newly joined, outside the cohort, mistaken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.methods.errors import MethodError
from fleetledger.methods.lga.assignment import NEW_MODEL, OLD_MODEL
from fleetledger.methods.lga.device import DEVICE
from fleetledger.methods.lga.gradient_sets import decode_gradients
from fleetledger.methods.lga.memory import read_memory
from fleetledger.methods.lga.recovery import recover_label
from fleetledger.methods.lga.terms import EXPONENT, GROUPS, TEACHER
from fleetledger.methods.training.exchange import LocalData
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from fleetledger.schemas.values import ClassName
from tests.methods.lga.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EEL,
    EVERY,
    STAGES,
    asked,
    assignment,
    moved,
    samples,
)
from tests.methods.lga.training import PICTURES, Taught, begun, learn, seen
from tests.methods.making import joined, only, order, relabelled

pytestmark = pytest.mark.torch


def labels_of(of, gradients):
    """The classes whose gradients were sent, as rows of the head."""
    sets = decode_gradients(of.encoding, gradients)
    return sorted(recover_label(item.gradients["4.weight"].numpy()) for item in sets)


def taught_by(work):
    """The rows of the old model's head, or None without one."""
    return work.frozen[TEACHER]["parameters"]["head.weight"] if TEACHER in work.frozen else None


def file(of, *names, seed=1):
    question = asked(of, *names)
    return encode_weights(moved(of, question, seed), names)


def later(fleet, memory, number=3, round_of_stage=2, **extras):
    """Another round of the second task; what the device is asked, and its data."""
    question = replace(
        fleet.question, round_of_stage=round_of_stage, extras={**fleet.question.extras, **extras}
    )
    return order(question, STAGES, number=number), fleet.data, memory


def test_a_device_enters_a_task_with_exemplars_of_its_old_classes():
    fleet = Taught(assignment())
    answer = fleet.learn()
    memory = read_memory(answer.memory)
    assert set(memory.exemplars) == {ANT, BEE}
    assert [len(item) for item in memory.exemplars.values()] == [6, 6]
    assert answer.samples == {CAT: 7, DOG: 7, ANT: 6, BEE: 6}
    assert answer.stored_samples == 12
    assert memory.looks.tasks == 2
    assert answer.observation is not None
    assert answer.observation.transition
    assert answer.observation.images == 14


def test_exemplars_are_chosen_by_the_incoming_models_features():
    fleet = Taught(assignment())
    memory = read_memory(fleet.learn().memory)
    from fleetledger.learning.networks.conversion import to_tensors
    from fleetledger.learning.networks.inference import Inference
    from fleetledger.learning.numerics.herding import herd

    arrays, _ = decode_weights(fleet.made.weights, fleet.of.network)
    for name in (ANT, BEE):
        rows = [row for row, label in enumerate(fleet.old.class_names) if label == name]
        inputs = torch.from_numpy(fleet.old.inputs[rows])
        infer = Inference(pictures=PICTURES)
        features = infer(fleet.of.network, *to_tensors(arrays), inputs).features.numpy()
        expected = tuple(fleet.old.digests[rows[index]] for index in herd(features, 6))
        assert memory.exemplars[name] == expected


def test_entropy_is_that_of_the_incoming_model_on_current_images():
    fleet = Taught(assignment(detection="rise"))
    found = seen(fleet.of, fleet.order, fleet.data, fleet.memory).observation
    work = fleet.work()
    from fleetledger.learning.networks.inference import Inference

    infer = Inference(pictures=PICTURES)
    inputs = torch.from_numpy(fleet.new.inputs)
    logits = infer(fleet.of.network, work.parameters, work.buffers, inputs).logits.double()
    shares = torch.softmax(logits, dim=1)
    assert found is not None
    assert found.entropy == pytest.approx(float(-(shares * shares.log()).sum(1).mean()), rel=1e-6)


def test_without_new_classes_a_device_goes_on_with_its_data():
    """Z_o: no transition, no exemplars, no gradients; all its classes are old, so e is 1."""
    fleet = Taught(assignment())
    work = fleet.work(fleet.old)
    assert len(work.data) == 20
    assert float(work.frozen[EXPONENT]) == 1
    answer = fleet.learn(fleet.old)
    assert answer.observation is not None
    assert not answer.observation.transition
    assert (answer.gradients, answer.stored_samples) == (None, 0)
    assert taught_by(work) is None  # there is no best model of the task before yet
    asks, _, memory = later(fleet, answer.memory, **{OLD_MODEL: file(fleet.of, ANT, BEE)})
    assert taught_by(begun(fleet.of, asks, fleet.old, memory).work) is not None


def test_a_device_that_joins_weighs_all_samples_alike():
    """Z_a: e = 0, and as released no groups."""
    fleet = Taught(assignment())
    work = begun(fleet.of, fleet.order, fleet.new).work
    assert float(work.frozen[EXPONENT]) == 0
    assert taught_by(work) is not None
    released = Taught(assignment(mode="code", rate=0.1))
    assert not begun(released.of, fleet.order, fleet.new).work.frozen[GROUPS].any()


def test_the_exponent_is_the_share_of_old_classes():
    fleet = Taught(assignment())
    assert float(fleet.work().frozen[EXPONENT]) == 0.5
    one = joined(fleet.old, samples(5, CAT, seed=1))
    assert float(fleet.work(one).frozen[EXPONENT]) == pytest.approx(2 / 3)


def test_gradients_go_to_the_proxy_once_in_a_task():
    fleet = Taught(assignment())
    assert labels_of(fleet.of, fleet.first.gradients) == [0, 1]
    answer = fleet.learn()
    assert labels_of(fleet.of, answer.gradients) == [2, 3]
    again = learn(fleet.of, *later(fleet, answer.memory))
    assert again.gradients is None
    assert again.observation is not None
    assert not again.observation.transition
    assert read_memory(again.memory).gradients.sent == EVERY


def test_who_was_not_asked_when_a_task_began_sends_gradients_when_it_is():
    fleet = Taught(assignment())
    found = DEVICE.observe(fleet.of, fleet.order, fleet.data, fleet.memory, PICTURES)
    assert found is not None
    assert found.observation.transition
    memory = read_memory(found.memory)
    assert memory.gradients.entered
    assert set(memory.exemplars) == {ANT, BEE}
    answer = learn(fleet.of, *later(fleet, found.memory))
    assert labels_of(fleet.of, answer.gradients) == [2, 3]
    assert not read_memory(answer.memory).gradients.entered
    assert learn(fleet.of, *later(fleet, answer.memory, 4)).gradients is None


def test_gradients_that_the_owner_withheld_are_sent_once_they_may_go():
    fleet = Taught(assignment())
    asks = replace(fleet.order, gives_gradients=False)
    kept = learn(fleet.of, asks, fleet.data, fleet.memory)
    assert kept.gradients is None
    assert kept.payload == fleet.learn().payload
    assert read_memory(kept.memory).gradients.sent == (ANT, BEE)
    asks, data, memory = later(fleet, kept.memory)
    still = learn(fleet.of, replace(asks, gives_gradients=False), data, memory)
    assert still.gradients is None
    allowed = learn(fleet.of, *later(fleet, still.memory, 4))
    assert labels_of(fleet.of, allowed.gradients) == [2, 3]
    assert read_memory(allowed.memory).gradients.sent == EVERY
    assert learn(fleet.of, *later(fleet, allowed.memory, 5)).gradients is None


def test_what_was_withheld_of_a_task_that_is_over_is_not_sent():
    fleet = Taught(assignment())
    asks = replace(fleet.order, gives_gradients=False)
    kept = learn(fleet.of, asks, fleet.data, fleet.memory)
    question = asked(fleet.of, *EVERY, EEL, weights=file(fleet.of, *EVERY), rows=EVERY)
    third = order(question, (*STAGES, 3), number=5)
    answer = learn(fleet.of, third, fleet.data, kept.memory)
    assert answer.gradients is None
    assert not read_memory(answer.memory).gradients.withheld


def test_without_a_proxy_nothing_is_sent():
    for preset in ("without-psr", "fedavg", "fedavg-exemplars"):
        fleet = Taught(assignment(preset=preset))
        assert fleet.first.gradients is None
        assert fleet.learn().gradients is None


def test_who_enters_a_task_has_the_newest_old_model_and_others_the_one_before():
    fleet = Taught(assignment())
    new, old = file(fleet.of, ANT, BEE, seed=2), file(fleet.of, ANT, BEE, seed=3)
    asks, data, memory = later(fleet, fleet.memory, **{NEW_MODEL: new, OLD_MODEL: old})
    first = learn(fleet.of, asks, data, memory)
    for remembered, expected in ((memory, new), (first.memory, old)):
        asks = later(fleet, None, 4, **{NEW_MODEL: new, OLD_MODEL: old})[0]
        rows = taught_by(begun(fleet.of, asks, data, remembered).work)
        arrays, _ = decode_weights(expected, fleet.of.network)
        assert np.array_equal(rows, arrays["head.weight"])


def test_who_enters_late_does_not_learn_from_a_model_that_knows_the_task():
    fleet = Taught(assignment())
    new, old = file(fleet.of, *EVERY), file(fleet.of, ANT, BEE, seed=3)
    asks, data, memory = later(fleet, fleet.memory, **{NEW_MODEL: new, OLD_MODEL: old})
    work = begun(fleet.of, asks, data, memory).work
    assert work.data.targets.max() == 3
    assert np.array_equal(taught_by(work), decode_weights(old, fleet.of.network)[0]["head.weight"])
    question = replace(fleet.question, round_of_stage=2, extras={NEW_MODEL: new})
    alone = begun(fleet.of, order(question, STAGES, number=3), data, memory).work
    assert taught_by(alone) is None
    assert len(alone.loss.terms) == 1


def test_a_false_alarm_sends_nothing_twice_and_forgets_nothing():
    of = assignment(detection="rise", entropy_rise=0.01)
    fleet = Taught(of)
    memory = fleet.learn().memory
    asks, _, _ = later(fleet, memory)
    blurred = replace(asks, weights=file(of, *EVERY, seed=8))
    changes = {"weights_class_names": EVERY, "number": 4}
    blurred = replace(blurred, round=blurred.round.model_copy(update=changes))
    before = read_memory(memory)
    calm = replace(before, looks=replace(before.looks, history=(0.0,)))
    answer = learn(of, blurred, fleet.data, calm.write())
    assert answer.observation is not None
    assert answer.observation.transition
    assert answer.gradients is None
    after = read_memory(answer.memory)
    assert after.exemplars == before.exemplars
    assert after.looks.tasks == before.looks.tasks + 1


def test_a_transition_that_was_missed_is_made_up_for_later():
    of = assignment(detection="rise", entropy_rise=50.0)
    fleet = Taught(of)
    missed = fleet.learn()
    assert missed.stored_samples == 0
    assert missed.samples == {CAT: 7, DOG: 7}
    sharp = assignment(detection="rise", entropy_rise=0.01)
    memory = read_memory(missed.memory)
    calm = replace(memory, looks=replace(memory.looks, history=(0.0,))).write()
    answer = learn(sharp, *later(fleet, calm))
    assert set(read_memory(answer.memory).exemplars) == {ANT, BEE}
    assert labels_of(of, answer.gradients) == [2, 3]


def test_renamed_classes_keep_exemplars_and_old_rows():
    fleet = Taught(assignment())
    memory = fleet.learn().memory
    wasp = ClassName("wasp")
    names = (ANT, wasp, CAT, DOG)
    question = asked(
        fleet.of,
        *names,
        weights=file(fleet.of, *EVERY),
        rows=names,
        round_of_stage=2,
        extras={OLD_MODEL: file(fleet.of, ANT, BEE, seed=3)},
    )
    asks = order(question, STAGES, number=3, aliases={BEE: wasp})
    answer = learn(fleet.of, asks, relabelled(fleet.data, {BEE: wasp}), memory)
    assert answer.samples == {CAT: 7, DOG: 7, ANT: 6, wasp: 6}
    assert answer.gradients is None
    assert read_memory(answer.memory).gradients.sent == (ANT, CAT, DOG, wasp)
    work = begun(fleet.of, asks, relabelled(fleet.data, {BEE: wasp}), memory).work
    assert len(taught_by(work)) == 2


def test_an_old_model_knows_the_rows_that_the_head_begins_with():
    """Of merged classes one row is left, and what follows a row that it lacks is not compared."""
    fleet = Taught(assignment())
    old = file(fleet.of, ANT, BEE, seed=3)
    whole, _ = decode_weights(old, fleet.of.network)
    for names, stages, aliases, rows in (
        ((BEE, CAT, DOG), (1, 2, 2), {ANT: BEE}, [0]),
        ((ANT, CAT, DOG), (1, 2, 2), {BEE: DOG}, [0]),
        ((BEE, CAT, DOG), (1, 2, 2), {ANT: DOG}, [1]),
    ):
        question = asked(
            fleet.of, *names, weights=file(fleet.of, *names), rows=names, extras={OLD_MODEL: old}
        )
        asks = order(question, stages, number=3, aliases=aliases)
        work = begun(fleet.of, asks, relabelled(fleet.data, aliases)).work
        assert np.array_equal(taught_by(work), whole["head.weight"][rows])


def test_exemplars_whose_images_are_gone_or_relabelled_are_forgotten():
    fleet = Taught(assignment())
    memory = read_memory(fleet.learn().memory)
    gone, wrong = memory.exemplars[ANT][0], memory.exemplars[BEE][0]
    rows = [row for row, digest in enumerate(fleet.data.digests) if digest != gone]
    left = only(fleet.data, rows)
    names = tuple(
        CAT if digest == wrong else name
        for name, digest in zip(left.class_names, left.digests, strict=True)
    )
    asks, _, _ = later(fleet, None)
    found = learn(fleet.of, asks, LocalData(left.inputs, names, left.digests), memory.write())
    assert found.samples == {CAT: 8, DOG: 7, ANT: 5, BEE: 5}
    after = read_memory(found.memory)
    assert after.exemplars[ANT] == memory.exemplars[ANT][1:]
    assert after.exemplars[BEE] == memory.exemplars[BEE][1:]


def test_classes_that_the_fleet_does_not_have_are_left_out():
    fleet = Taught(assignment())
    strange = joined(fleet.data, samples(5, ClassName("eel"), seed=4))
    assert fleet.learn(strange).samples == fleet.learn().samples


def test_a_device_with_one_image_or_none_has_nothing_to_train():
    fleet = Taught(assignment())
    for data in (only(fleet.data, []), only(fleet.data, [0])):
        assert DEVICE.begin(fleet.of, fleet.order, data, None, PICTURES) is None
    assert DEVICE.observe(fleet.of, fleet.order, only(fleet.data, []), None, PICTURES) is None
    assert DEVICE.observe(fleet.of, fleet.order, only(fleet.data, [0]), None, PICTURES) is not None


def test_more_classes_than_the_encoding_has_outputs_are_told_by_name():
    fleet = Taught(assignment(reserved=3))
    with pytest.raises(MethodError, match=r"reserved: 3 outputs .* 'dog' is class 4"):
        fleet.begun()
    assert fleet.begun(only(fleet.data, range(21)))  # ant, bee and one cat


def test_an_old_model_that_is_none_is_refused():
    fleet = Taught(assignment())
    broken = replace(fleet.order, extras={NEW_MODEL: b"nothing"})
    with pytest.raises(MethodError, match="weights"):
        begun(fleet.of, broken, fleet.data, fleet.memory)


def test_a_fleets_model_that_left_the_numbers_is_told():
    of = assignment()
    question = asked(of)
    arrays = moved(of, question, 1)
    arrays["head.weight"][:] = 3e38
    weights = encode_weights(arrays, (ANT, BEE))
    asks = order(asked(of, weights=weights, rows=(ANT, BEE)), (1, 1))
    with pytest.raises(MethodError, match="scores: not finite"):
        DEVICE.observe(of, asks, samples(6, ANT, BEE), None, PICTURES)


def test_a_trained_convolutional_network_sends_gradients_too():
    fleet = Taught(assignment(network="convnet", epochs=1))
    begins = fleet.begun()
    trained = train_alone(begins.work, TrainingEngineSettings())
    answer = DEVICE.finish(fleet.of, begins, trained)
    assert labels_of(fleet.of, answer.gradients) == [2, 3]


def test_of_a_class_that_returns_new_images_are_current_and_exemplars_come_along():
    of = assignment()
    fleet = Taught(of)
    again = samples(6, ANT, seed=2)
    asks = replace(fleet.order, stage_class_names=(CAT, DOG, ANT))
    data = joined(fleet.data, again)
    second = learn(of, asks, data, fleet.memory)
    assert second.samples == {CAT: 7, DOG: 7, ANT: 6 + 6, BEE: 6}
    kept = read_memory(second.memory)
    assert set(kept.exemplars) == {ANT, BEE}
    assert set(kept.exemplars[ANT]) <= set(fleet.old.digests)
    assert kept.met.stages((ANT, ANT), (fleet.old.digests[0], again.digests[0])) == [1, 2]
    eels = samples(5, EEL, seed=3)
    question = asked(of, *EVERY, EEL, rows=EVERY, weights=file(of, *EVERY))
    third = order(question, (*STAGES, 3), number=3)
    last = begun(of, third, joined(data, eels), second.memory)
    lists = last.state.memory.exemplars
    assert {name: len(item) for name, item in lists.items()} == dict.fromkeys(EVERY, 3)
    assert set(lists[ANT]) <= {*again.digests, *kept.exemplars[ANT]}
    assert last.samples == {EEL: 5} | dict.fromkeys(EVERY, 3)
