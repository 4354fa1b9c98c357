"""Whole sessions by both halves: what is learned, by whom, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.inference import Inference
from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.memory import read_memory
from fleetledger.methods.dcid.messages import means_frame
from fleetledger.methods.dcid.model import Beginning, decode_general
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.training.exchange import LocalData
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.dcid import slow
from tests.methods.dcid.making import ANT, BEE, CAT, DOG, EVERY, Fleet, assignment, sites
from tests.methods.dcid.pictures import PICTURES

pytestmark = pytest.mark.torch

LEARNERS = ("icarl", "lucir", "erdil", "tpcil")
DIGITS = tuple(ClassName(f"digit-{number}") for number in range(10))
FEW = {"rate": 0.02, "epochs": 4, "batch": 16, "shared_per_class": 10, "anchors_per_class": 10}


def digits():
    """8 x 8 digits: images and labels, shuffled."""
    datasets = pytest.importorskip("sklearn.datasets")
    found = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    images = np.round(found.images * (255 / 16)).astype(np.uint8)[order, np.newaxis]
    return images, found.target[order]


def three_sites() -> dict[str, LocalData]:
    images, labels = digits()
    dealt = {f"dev-{number}": range(600 + number, 1200, 3) for number in range(3)}
    return {
        site: LocalData(
            images[list(rows)],
            tuple(DIGITS[labels[row]] for row in rows),
            tuple(Digest.of(str(row).encode()) for row in rows),
        )
        for site, rows in dealt.items()
    }


def accuracy(fleet: Fleet) -> float:
    """Share of the test digits of all classes seen so far that the general model knows."""
    images, labels = digits()
    network, arrays, names = COORDINATOR.network_of(fleet.of, fleet.weights)
    seen = np.isin(labels[:600], [DIGITS.index(name) for name in names])
    tested, truth = images[:600][seen], labels[:600][seen]
    outputs = Inference(256, PICTURES)(network, *to_tensors(arrays), torch.from_numpy(tested))
    rows = np.array([DIGITS.index(name) for name in names])
    return float((rows[outputs.logits.argmax(dim=1).numpy()] == truth).mean())


def learned(**settings) -> Fleet:
    fleet = Fleet(assignment(**{**FEW, **settings}), three_sites())
    fleet.session(*DIGITS[:5])
    fleet.session(*DIGITS[5:8])
    fleet.session(*DIGITS[8:])
    return fleet


def test_plain_finetuning_forgets_old_classes():
    plain = learned(preset="dcil-icarl-fedavg", strength=0.0, anchors_per_class=0)
    assert accuracy(plain) < 0.4


@pytest.mark.parametrize("learner", LEARNERS)
def test_with_dcid_every_learner_knows_them(learner):
    assert accuracy(learned(preset=f"dcid-{learner}", network="mlp")) > 0.75


def test_it_works_for_convolutions_and_on_synthetic_images():
    fleet = learned(
        network="convnet", rate=0.05, shared_set="synthetic", logits="int8", synthetic_images=60
    )
    assert accuracy(fleet) > 0.75


def test_nearest_means_are_those_of_all_sites_anchors():
    fleet = learned(evaluation="nearest-mean", preset="dcil-icarl-fedavg")
    network, arrays, names = COORDINATOR.network_of(fleet.of, fleet.weights)
    assert network.head == "cosine"
    assert names == DIGITS
    body = decode_body(fleet)
    for place, name in enumerate(DIGITS):
        unit = []
        for site, data in fleet.sites.items():
            anchors = read_memory(fleet.memories[site], fleet.of.network).anchors[name]
            rows = [data.digests.index(digest) for digest in anchors]
            found = slow.features(fleet.of.network, body, PICTURES, data.inputs[rows])
            unit += [row / np.linalg.norm(row) for row in found]
        mean = np.mean(unit, axis=0)
        expected = mean / np.linalg.norm(mean)
        assert np.abs(arrays["head.weight"][place] - expected).max() < 1e-5
    assert accuracy(fleet) > 0.75


def decode_body(fleet: Fleet) -> dict:
    """The network whose head still is the trained one."""
    return decode_weights_of(fleet.weights, fleet)


def decode_weights_of(weights: bytes, fleet: Fleet) -> dict:
    return decode_general(weights, fleet.of.network).arrays


def test_training_goes_on_from_the_head_not_from_the_means():
    measured, plain = (
        learned(preset="dcil-icarl-fedavg", evaluation=how) for how in ("nearest-mean", "head")
    )
    assert decode_body(measured)["head.bias"].shape == decode_body(plain)["head.bias"].shape
    assert measured.made.weights != measured.question.weights
    arrays, sent = decode_body(measured), decode_weights_of(measured.question.weights, measured)
    for name, array in sent.items():
        assert (arrays[name] == array).all(), name


MEANS = {
    "too many anchors": (10, 100, "images"),
    "sums without anchors": (2**31, 0, "larger than so many"),
    "longer than features are": (5 * 2**30, 3, "larger than so many"),
    "less than no anchor": (0, -1, "images"),
}


@pytest.mark.parametrize("attack", MEANS)
def test_sums_that_no_anchors_have_are_refused(attack):
    total, count, told = MEANS[attack]
    frame = means_frame(assignment(), 4)
    sums, counts = np.full((4, 64), total), np.full(4, count)
    with pytest.raises(ContributionError, match=told):
        frame.decode(encode_tensors({"sums": sums, "counts": counts}))


def test_sums_of_another_shape_are_refused():
    frame = means_frame(assignment(), 4)
    tensors = {"sums": np.zeros((4, 63), np.int64), "counts": np.zeros(4, np.int64)}
    with pytest.raises(ContributionError, match="sums: int64"):
        frame.decode(encode_tensors(tensors))


def test_a_base_session_trained_elsewhere_needs_no_rounds():
    taught = Fleet(assignment(rate=0.01, shared_per_class=0), sites(2))
    taught.session(ANT, BEE, rounds=2)
    arrays, names = decode_weights(taught.weights, taught.of.network)
    fleet = Fleet(
        assignment(rate=0.01, base="central"),
        sites(2),
        weights=encode_weights(arrays, names),
        names=names,
        stage=1,
    )
    fleet.session(CAT, DOG, rounds=2)
    last = fleet.question.extras["old-model"]
    assert decode_weights(last, fleet.of.network)[1] == (ANT, BEE)
    anchors = read_memory(fleet.memories["dev-0"], fleet.of.network).anchors
    assert {name: len(digests) for name, digests in anchors.items()} == dict.fromkeys(EVERY, 4)


def test_a_site_that_joins_late_has_anchors_of_every_class_that_it_has_images_of():
    fleet = Fleet(assignment(), sites(2))
    fleet.absent = lambda phase, site: site == "dev-1"
    fleet.session(ANT, BEE)
    fleet.absent = lambda phase, site: False
    fleet.session(CAT, DOG)
    assert set(fleet.answers) == {"dev-0", "dev-1"}
    anchors = read_memory(fleet.memories["dev-1"], fleet.of.network).anchors
    assert set(anchors) == set(EVERY)


def test_a_site_that_dies_between_the_phases_is_left_out_of_the_mean_and_comes_back():
    fleet = Fleet(assignment(), sites(2))
    fleet.session(ANT, BEE)
    fleet.absent = lambda phase, site: (phase, site) == ("distil", "dev-1")
    fleet.session(CAT, DOG)
    assert set(fleet.answers) == {"dev-0"}
    fleet.absent = lambda phase, site: False
    fleet.stage -= 1
    fleet.session(CAT, DOG)
    assert set(fleet.answers) == {"dev-0", "dev-1"}


def test_renamed_classes_keep_their_anchors_and_stay_old():
    fleet = Fleet(assignment(preset="dcil-icarl-fedavg"), sites(2))
    fleet.session(ANT, BEE)
    fleet.session(CAT, DOG, ends=False)
    ape = ClassName("ape")
    names = (ape, *EVERY[1:])
    began = Beginning(fleet.of, fleet.weights, names, names, fleet.extras, {ANT: ape})
    assert began.old == 2
    assert began.before is not None
    assert began.before.names == (ape, BEE)


def test_logits_are_a_small_part_of_what_travels():
    fleet = Fleet(assignment(), sites(2))
    fleet.session(ANT, BEE)
    sent = fleet.sent_bytes
    assert set(sent) == {"share", "train", "distil"}
    assert sent["train"] < sent["distil"] / 100
    weights_only = Fleet(assignment(preset="dcil-icarl-fedavg"), sites(2))
    weights_only.session(ANT, BEE)
    assert sum(sent.values()) < 1.1 * weights_only.sent_bytes["train-alone"]
