"""Devices that differ: without exemplars, without new samples, with one sample, joining late."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedhaf.coordinator import COORDINATOR
from fleetledger.methods.fedhaf.device import DEVICE
from fleetledger.methods.fedhaf.memory import read_memory
from fleetledger.methods.fedhaf.terms import KNOWN, OLD, TEACHER
from fleetledger.methods.training.network_weights import encode_weights
from fleetledger.schemas.values import ClassName
from tests.methods.fedhaf.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EVERY,
    WIDTH,
    answer,
    asked,
    assignment,
    moved,
    order,
    samples,
    sent,
)
from tests.methods.fedhaf.training import Taught, begun, carried_out, learn
from tests.methods.making import given, joined, only

pytestmark = pytest.mark.torch


def tensors(fleet, payload):
    """The weights of an answer."""
    made = COORDINATOR.combine(fleet.of, fleet.question, [given(payload)])
    return COORDINATOR.network_of(fleet.of, made.weights)[1]


def test_a_device_that_joins_in_the_middle_trains_the_head_alone():
    """It has no exemplars, so nothing says where its features should be."""
    fleet = Taught(assignment())
    late = order(fleet.question, CAT, DOG, stage=2, device_name="dev-2")
    work = begun(fleet.of, late, fleet.new)
    assert work.following is None
    assert work.samples == {CAT: 7, DOG: 7}
    made = tensors(fleet, learn(fleet.of, late, fleet.new).payload)
    begins = sent(fleet.of, fleet.question)
    apart = {name: float(np.abs(array - begins[name]).max()) for name, array in made.items()}
    assert max(far for name, far in apart.items() if not name.startswith("head.")) < 2**-18
    assert min(apart["head.weight"], apart["head.norm.running_var"]) > 1e-3


def test_its_candidates_are_exemplars_in_the_next_stage():
    fleet = Taught(assignment())
    late = order(fleet.question, CAT, DOG, stage=2, device_name="dev-2")
    told = learn(fleet.of, late, fleet.new)
    assert told.stored_samples == 0
    eel = ClassName("eel")
    question = asked(
        fleet.of, *EVERY, eel, weights=fleet.made.weights, rows=(ANT, BEE), extras=fleet.made.extras
    )
    third = order(question, eel, stage=3, device_name="dev-2")
    assert begun(fleet.of, third, fleet.new, told.memory).samples == {CAT: 2, DOG: 2}


def test_a_device_without_new_samples_keeps_to_the_old_model():
    fleet = Taught(assignment())
    work = fleet.begun(fleet.old)
    assert work.samples == {ANT: 2, BEE: 2}
    assert work.following is not None
    assert work.work.data.extras[OLD].tolist() == [1.0] * 4
    COORDINATOR.check(fleet.of, fleet.learn(fleet.old).payload, fleet.question)


@pytest.mark.parametrize("preset", ["fedhaf", "replay", "without-stages"])
def test_a_device_with_nothing_says_so(preset):
    fleet = Taught(assignment(preset=preset))
    nothing = only(fleet.new, [])
    assert DEVICE.begin(fleet.of, fleet.order, nothing, None, None) is None
    assert DEVICE.begin(fleet.of, fleet.order, nothing, fleet.memory, None) is None


def test_a_device_with_one_sample_has_nothing_that_could_be_normalised():
    fleet = Taught(assignment())
    one = only(fleet.new, [0])
    assert DEVICE.begin(fleet.of, fleet.order, one, None, None) is None


def test_one_sample_and_exemplars_are_trained_on():
    fleet = Taught(assignment())
    answered = fleet.learn(joined(fleet.old, only(fleet.new, [0])))
    assert answered.samples == {ANT: 2, BEE: 2, CAT: 1}
    COORDINATOR.check(fleet.of, answered.payload, fleet.question)


def test_without_a_loss_for_exemplars_a_device_with_nothing_new_has_nothing():
    settings = {"distillation": 0.0, "feature_distance": 0.0}
    fleet = Taught(assignment(**settings))
    assert DEVICE.begin(fleet.of, fleet.order, fleet.old, fleet.memory, None) is None
    replay = Taught(assignment(preset="replay", **settings))
    assert replay.begun(replay.old).samples == {ANT: 2, BEE: 2}


def test_without_an_old_model_both_parts_learn_together():
    """The stage before ended without an answer: the adapter is as it was drawn."""
    fleet = Taught(assignment())
    question = asked(fleet.of, *EVERY)
    work = begun(fleet.of, order(question, CAT, DOG, stage=2), fleet.data, fleet.memory)
    assert work.following is None
    assert "linear0.weight" in work.work.parameters
    assert "head.weight" in work.work.parameters


def test_a_memory_of_features_trains_as_the_images_do():
    of = assignment()
    images, features = Taught(of), Taught(of, exemplars_as="features")
    assert images.learn().payload == features.learn().payload
    kept = read_memory(features.memory, WIDTH).classes[ANT].features
    assert kept is not None
    assert kept.dtype == np.float32
    without = features.learn(features.new)
    assert without.payload == images.learn().payload


def test_the_old_model_of_renamed_and_merged_classes_speaks_of_the_right_rows():
    of = assignment()
    question = asked(of, ANT, BEE, CAT)
    arrays = moved(of, question, 3)
    old = encode_weights(arrays, (ANT, BEE, CAT))
    wasp = ClassName("wasp")
    # bee is called wasp now, and ant was merged into a class that came later
    later = asked(of, wasp, CAT, DOG, weights=old, rows=(wasp, CAT), extras={"old-model": old})
    asks = order(later, DOG, stage=2, aliases={BEE: wasp, ANT: DOG})
    work = begun(of, asks, samples(8, DOG)).work
    teacher = work.frozen[TEACHER]["parameters"]
    assert work.frozen[KNOWN].tolist() == [True, True, True]
    expected = arrays["head.weight"][[1, 2, 0]]
    assert np.array_equal(teacher["head.weight"], expected)
    plain = order(later, DOG, stage=2, aliases={BEE: wasp})
    work = begun(of, plain, samples(8, DOG)).work
    assert work.frozen[KNOWN].tolist() == [True, True, False]
    assert not work.frozen[TEACHER]["parameters"]["head.weight"][2].any()


def test_a_class_may_be_renamed_between_rounds():
    fleet = Taught(assignment())
    wasp = ClassName("wasp")
    names = (ANT, wasp, CAT, DOG)
    question = asked(
        fleet.of,
        *names,
        weights=fleet.made.weights,
        rows=(ANT, wasp),
        extras=dict(fleet.made.extras),
    )
    asks = order(question, CAT, DOG, stage=2, aliases={BEE: wasp})
    labels = tuple(wasp if name == BEE else name for name in fleet.data.class_names)
    data = type(fleet.data)(fleet.data.inputs, labels, fleet.data.digests)
    renamed = learn(fleet.of, asks, data, fleet.memory)
    # the new name only changes where exemplars of the class stand among the others
    assert renamed.samples == {ANT: 2, wasp: 2, CAT: 7, DOG: 7}
    assert set(read_memory(renamed.memory, WIDTH).classes) == set(names)


def test_files_that_do_not_fit_are_refused():
    fleet = Taught(assignment())
    with pytest.raises(MethodError, match="memory"):
        DEVICE.begin(fleet.of, fleet.order, fleet.data, b"something else", None)
    other = assignment(width=7)
    with pytest.raises(MethodError, match="weights"):
        DEVICE.begin(other, fleet.order, fleet.data, fleet.memory, None)


def test_an_answer_may_say_in_half_the_bytes_how_far_the_weights_have_moved():
    whole, short = (Taught(assignment(upload=upload)) for upload in ("int32", "int16"))
    one, other = whole.learn(), learn(short.of, whole.order, whole.data, whole.memory)
    assert len(other.payload) < 0.65 * len(one.payload)  # half, and a header
    question = whole.question
    COORDINATOR.check(short.of, other.payload, question)
    begins, exact = sent(whole.of, question), tensors(whole, one.payload)
    made = COORDINATOR.combine(short.of, question, [given(other.payload)])
    for name, array in COORDINATOR.network_of(short.of, made.weights)[1].items():
        far = np.abs(exact[name] - begins[name]).max()
        assert np.abs(array - exact[name]).max() <= 2**-12 * far + 2**-18, name


def test_answers_of_many_devices_are_one_model():
    fleet = Taught(assignment())
    works = [fleet.begun(), fleet.begun(fleet.old)]
    ended = carried_out(works)
    answers = [DEVICE.finish(fleet.of, *pair) for pair in ended]
    made = COORDINATOR.combine(
        fleet.of,
        fleet.question,
        [given(item.payload, sum(item.samples.values())) for item in answers],
    )
    one, other = (tensors(fleet, item.payload) for item in answers)
    for name, array in COORDINATOR.network_of(fleet.of, made.weights)[1].items():
        assert np.abs(array - (18 * one[name] + 4 * other[name]) / 22).max() < 2**-19, name
    assert made.samples == 22
    assert answer(fleet.of, fleet.question, one) == answers[0].payload
