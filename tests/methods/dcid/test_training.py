"""Phase `train`: DID against the page, term by term, and what stays with a site."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.composition import FIXED
from fleetledger.learning.networks.held_rows import joined_rows
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batch
from fleetledger.methods.dcid.device import DEVICE
from fleetledger.methods.dcid.images import shared_images
from fleetledger.methods.dcid.learners import Lucir, Session
from fleetledger.methods.dcid.logits import FINEST, LogitFrame
from fleetledger.methods.dcid.memory import read_memory
from fleetledger.methods.dcid.messages import decode_logits
from fleetledger.methods.dcid.model import Beginning
from fleetledger.methods.dcid.settings import LearnerSettings
from fleetledger.methods.errors import MethodError
from tests.methods.dcid import slow
from tests.methods.dcid.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EVERY,
    Fleet,
    asked,
    assignment,
    order,
    samples,
)
from tests.methods.dcid.pictures import PICTURES
from tests.methods.making import joined

pytestmark = pytest.mark.torch

LEARNERS = ("icarl", "lucir", "erdil", "tpcil")
SITE = "dev-0"


def taught(**settings) -> Fleet:
    """A fleet that has learned ant and bee, and is about to learn cat and dog."""
    data = joined(samples(24, ANT, BEE), samples(20, CAT, DOG, seed=1))
    fleet = Fleet(assignment(rate=0.01, **settings), {SITE: data})
    fleet.session(ANT, BEE)
    fleet.stage += 1
    return fleet


def begun(fleet: Fleet, phase: str | None = None, number: int = 9):
    """What the site would do in the first round of its second session."""
    of = fleet.of
    if of.opening_phases:
        fleet.phase("share", 1, 3, EVERY, (CAT, DOG))
    fleet.question = asked(
        of,
        *EVERY,
        phase=phase or of.round_phases[0],
        weights=fleet.weights,
        weights_class_names=fleet.names if len(fleet.names) == 2 else (ANT, BEE),
        extras=fleet.extras,
    )
    asks = order(fleet.question, 2, (CAT, DOG), SITE, number)
    found = DEVICE.begin(of, asks, fleet.sites[SITE], fleet.memories[SITE], PICTURES)
    assert found is not None
    return found


def first_loss(work) -> float:
    """The loss of all samples at once, before any step, the network in training."""
    count = len(work.data)
    batch = Batch(
        PICTURES.normalise(work.data.inputs),
        work.data.targets,
        torch.ones(count),
        work.data.extras,
    )
    return float(work.loss(work.parameters, work.buffers, work.frozen, {}, batch)[0])


@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
@pytest.mark.parametrize("on", ["anchors", "all"])
def test_icarl_trains_by_the_loss_of_the_page(on, scores):
    work = begun(taught(shared_per_class=0, distill_on=on, scores=scores)).work
    expected = slow.icarl(work, PICTURES, strength=5.0, everywhere=on == "all", scores=scores)
    assert first_loss(work) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("on", ["anchors", "all"])
def test_lucir_trains_by_the_loss_of_the_page(on):
    fleet = taught(preset="dcid-lucir", shared_per_class=0, distill_on=on, network="mlp")
    work = begun(fleet).work
    expected = slow.lucir(work, PICTURES, strength=5.0, everywhere=on == "all")
    assert first_loss(work) == pytest.approx(expected, rel=1e-4)


def test_tpcil_trains_by_the_loss_of_the_page():
    work = begun(taught(learner="tpcil", shared_per_class=0)).work
    assert first_loss(work) == pytest.approx(slow.tpcil(work, PICTURES, 15.0), rel=1e-3)


def test_the_plug_ins_add_the_losses_of_fedprox_and_fedmax():
    fleet = taught(dcd=False, dad=False)
    plain, basic = begun(fleet).work, {"rate": 0.01, "dcd": False, "dad": False}
    fleet.of = assignment(**basic, fedmax=500.0)
    added = 500 * slow.fedmax(plain, PICTURES)
    assert first_loss(begun(fleet).work) == pytest.approx(first_loss(plain) + added, rel=1e-4)
    fleet.of = assignment(**basic, proximal=0.2)
    fedprox = begun(fleet).work
    assert first_loss(fedprox) == pytest.approx(first_loss(plain))
    moved = {name: value + 0.1 for name, value in fedprox.parameters.items()}
    numbers = sum(value.numel() for value in moved.values())
    near = first_loss(replace(plain, parameters=moved))
    far = first_loss(replace(fedprox, parameters=moved))
    assert far == pytest.approx(near + 0.1 * numbers * 0.01, rel=1e-4)


def test_lucirs_factor_grows_with_the_root_of_old_classes_per_new_one():
    adaptive, fixed = (Lucir(LearnerSettings(adaptive=on)) for on in (True, False))
    assert adaptive.anchor_loss(Session(8, 2))[0].factor == pytest.approx(10.0)
    assert fixed.anchor_loss(Session(8, 2))[0].factor == 5.0


def test_samples_are_new_images_and_the_anchors_of_before():
    found = begun(taught())
    data = found.work.data
    assert data.extras["anchor"].tolist() == [0.0] * 20 + [1.0] * 8
    assert sorted(set(data.targets[:20].tolist())) == [2, 3]
    assert sorted(data.targets[20:].tolist()) == [0] * 4 + [1] * 4
    assert found.samples == {CAT: 10, DOG: 10}, "anchors do not count for the weight of a site"


@pytest.mark.parametrize("learner", LEARNERS)
def test_anchors_are_those_of_the_equation_under_the_model_after_did(learner):
    fleet = taught(learner=learner, shared_set="synthetic", synthetic_images=8)
    found = begun(fleet)
    trained = train_alone(found.work, TrainingEngineSettings())
    answer = DEVICE.finish(fleet.of, found, trained)
    memory = read_memory(answer.memory, fleet.of.network)
    data = fleet.sites[SITE]
    after = memory.after_did.arrays
    for name in (CAT, DOG):
        rows = [row for row, label in enumerate(data.class_names) if label == name]
        chosen = slow.herded(slow.features(fleet.of.network, after, PICTURES, data.inputs[rows]), 4)
        assert memory.anchors[name] == tuple(data.digests[rows[place]] for place in chosen)
    before = read_memory(fleet.memories[SITE], fleet.of.network)
    assert {memory.anchors[name] for name in (ANT, BEE)} == {
        before.anchors[name] for name in (ANT, BEE)
    }


def test_the_answer_is_what_the_remembered_model_says_of_the_shared_set():
    fleet = taught()
    found = begun(fleet)
    answer = DEVICE.finish(fleet.of, found, train_alone(found.work, TrainingEngineSettings()))
    images = shared_images(fleet.of, fleet.extras)
    after = read_memory(answer.memory, fleet.of.network).after_did
    said = decode_logits(LogitFrame(len(images), 4, "float16"), answer.payload) * 2.0**FINEST
    expected = slow.logits(fleet.of.network, after.arrays, PICTURES, images)
    assert np.abs(said - expected).max() < 0.02
    assert (after.mark.stage, after.mark.samples) == (2, {CAT: 10, DOG: 10})


def test_lucir_holds_rows_of_old_classes_and_imprints_those_of_new_ones():
    fleet = taught(preset="dcil-lucir-fedavg", network="mlp")
    found = begun(fleet)
    work = found.work
    sent = Beginning(fleet.of, fleet.weights, (ANT, BEE), EVERY).sent
    assert (work.frozen[FIXED]["head.weight"].numpy() == sent["head.weight"][:2]).all()
    features = slow.features(fleet.of.network, sent, PICTURES, work.data.inputs[:20].numpy())
    for row, target in ((0, 2), (1, 3)):
        own = features[(work.data.targets[:20] == target).numpy()]
        unit = own / np.linalg.norm(own, axis=1, keepdims=True)
        mean = unit.mean(axis=0)
        length = np.linalg.norm(sent["head.weight"][:2], axis=1).mean()
        expected = mean / np.linalg.norm(mean) * length
        assert np.abs(work.parameters["head.weight"][row].numpy() - expected).max() < 1e-5
    trained = train_alone(work, TrainingEngineSettings())
    assert "head.weight" in trained.parameters
    whole = joined_rows(work.frozen[FIXED], trained.parameters)
    assert whole["head.weight"].shape == (4, 64)


def test_rows_are_imprinted_in_the_first_round_of_a_session_only():
    fleet = taught(preset="dcil-lucir-fedavg", network="mlp")
    fleet.session(CAT, DOG, ends=False)
    fleet.stage, fleet.names = 2, EVERY
    question = asked(
        fleet.of, *EVERY, weights=fleet.weights, weights_class_names=EVERY, extras=fleet.extras
    )
    asks = order(question, 2, (CAT, DOG), SITE, 12)
    found = DEVICE.begin(fleet.of, asks, fleet.sites[SITE], fleet.memories[SITE], PICTURES)
    sent = Beginning(fleet.of, fleet.weights, EVERY, EVERY).sent
    assert (found.work.parameters["head.weight"].numpy() == sent["head.weight"][2:]).all()


def test_the_teacher_stays_the_model_before_the_session():
    fleet = taught(dcd=False, dad=False)
    before = Beginning(fleet.of, fleet.weights, (ANT, BEE), (ANT, BEE)).sent
    fleet.stage -= 1
    fleet.session(CAT, DOG, ends=False)
    question = asked(
        fleet.of, *EVERY, weights=fleet.weights, weights_class_names=EVERY, extras=fleet.extras
    )
    asks = order(question, 2, (CAT, DOG), SITE, 12)
    found = DEVICE.begin(fleet.of, asks, fleet.sites[SITE], fleet.memories[SITE], PICTURES)
    teacher = found.work.frozen["old_model"]["parameters"]
    for name, value in teacher.items():
        assert (value.numpy() == before[name]).all(), name
    assert found.work.frozen["new"].tolist() == [False, False, True, True]


def test_old_classes_without_anchors_get_theirs_by_the_model_before_the_session():
    fleet = taught(shared_per_class=0)
    fleet.memories[SITE] = None
    found = begun(fleet)
    assert found.work.data.extras["anchor"].sum() == 8
    data, before = (
        fleet.sites[SITE],
        Beginning(fleet.of, fleet.weights, (ANT, BEE), (ANT, BEE)).sent,
    )
    rows = [row for row, label in enumerate(data.class_names) if label == ANT]
    chosen = slow.herded(slow.features(fleet.of.network, before, PICTURES, data.inputs[rows]), 4)
    kept = found.state.site.memory.anchors[ANT]
    assert kept == tuple(data.digests[rows[place]] for place in chosen)


def test_the_first_session_has_no_anchor_loss_and_may_have_rates_of_its_own():
    of = assignment(
        shared_per_class=0,
        epochs=3,
        rate=0.01,
        decrease_epochs=(1,),
        base_epochs=4,
        base_rate=0.1,
        base_decrease_epochs=(2, 3),
    )
    fleet = Fleet(of, {SITE: joined(samples(24, ANT, BEE), samples(20, CAT, DOG, seed=1))})
    asks = order(asked(of), 1, (ANT, BEE), SITE, 1)
    found = DEVICE.begin(of, asks, fleet.sites[SITE], None, PICTURES)
    assert len(found.work.loss.terms) == 1
    assert found.work.optimiser.rates == pytest.approx((0.1, 0.1, 0.01, 0.001))
    fleet.session(ANT, BEE)
    fleet.stage += 1
    later = begun(fleet).work
    assert len(later.loss.terms) == 2
    assert later.optimiser.rates == pytest.approx((0.01, 0.001, 0.001))


@pytest.mark.parametrize("dcd", [False, True])
def test_rates_may_fall_over_the_epochs_of_a_session(dcd):
    of = assignment(
        dcd=dcd,
        dad=False,
        epochs=2,
        rate=0.1,
        decrease_epochs=(3, 4),
        rate_schedule="session",
    )
    fleet = Fleet(of, {SITE: joined(samples(24, ANT, BEE), samples(20, CAT, DOG, seed=1))})
    fleet.session(ANT, BEE)
    fleet.stage += 1
    if of.opening_phases:
        fleet.phase("share", 1, 9, EVERY, (CAT, DOG))
    found = []
    for number in range(3):
        place = 1 + len(of.opening_phases) + number * len(of.round_phases)
        question = asked(
            of,
            *EVERY,
            phase=of.round_phases[0],
            round_of_stage=place,
            rounds_of_stage=9,
            weights=fleet.weights,
            weights_class_names=(ANT, BEE),
            extras=fleet.extras,
        )
        asks = order(question, 2, (CAT, DOG), SITE, 9)
        begun = DEVICE.begin(of, asks, fleet.sites[SITE], fleet.memories[SITE], PICTURES)
        found.append(begun.work.optimiser.rates)
    assert found == [pytest.approx(rates) for rates in ((0.1, 0.1), (0.1, 0.01), (0.001, 0.001))]


def test_a_site_without_new_images_has_nothing():
    of = assignment(shared_per_class=0)
    asks = order(asked(of), 1, (ANT, BEE), SITE, 1)
    assert DEVICE.begin(of, asks, samples(20, CAT, DOG), None, PICTURES) is None
    assert DEVICE.begin(of, asks, samples(1, ANT), None, PICTURES) is None


def test_weights_that_left_the_numbers_are_not_answered():
    of = assignment(shared_set="synthetic", synthetic_images=4, rate=1e30)
    asks = order(asked(of), 1, (ANT, BEE), SITE, 1)
    found = DEVICE.begin(of, asks, samples(20, ANT, BEE), None, PICTURES)
    with pytest.raises(MethodError):
        DEVICE.finish(of, found, train_alone(found.work, TrainingEngineSettings()))


@pytest.mark.parametrize("learner", LEARNERS)
def test_sites_of_a_round_can_share_a_stack(learner):
    fleet = taught(learner=learner, network="mlp", shared_per_class=0)
    one = begun(fleet).work
    asks = order(fleet.question, 2, (CAT, DOG), "dev-1", 9)
    other = joined(samples(24, ANT, BEE, seed=7), samples(16, CAT, DOG, seed=8))
    two = DEVICE.begin(fleet.of, asks, other, None, PICTURES).work
    alone = train([one, two], TrainingEngineSettings(engine="loop"))
    stacked = train([one, two], TrainingEngineSettings(engine="stack"))
    for found, same in zip(alone, stacked, strict=True):
        for name, value in found.parameters.items():
            assert torch.allclose(value, same.parameters[name], atol=1e-4), name


def test_a_model_that_could_not_be_sent_has_no_part_in_the_ensemble():
    fleet = taught(shared_set="synthetic", synthetic_images=4)
    found = begun(fleet)
    trained = train_alone(found.work, TrainingEngineSettings())
    far = {name: value * 1e6 + 1e6 for name, value in trained.buffers.items()}
    with pytest.raises(MethodError, match="running_"):
        DEVICE.finish(fleet.of, found, replace(trained, buffers=far))
