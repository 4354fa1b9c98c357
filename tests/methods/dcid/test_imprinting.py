"""Phase `imprint`: LUCIR's new rows are the same at all sites, by the images of all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.device import DEVICE
from fleetledger.methods.dcid.messages import imprinting_frame
from fleetledger.methods.dcid.model import decode_general
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.values import Digest
from tests.methods.dcid import slow
from tests.methods.dcid.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EVERY,
    NEW,
    Fleet,
    assignment,
    beginning,
    order,
    samples,
    sites,
)
from tests.methods.dcid.pictures import PICTURES
from tests.methods.making import joined

pytestmark = pytest.mark.torch

LUCIR = {"preset": "dcil-lucir-fedavg", "network": "mlp", "rate": 0.01, "imprint_at": "fleet"}


def imprinted(**settings) -> Fleet:
    """A fleet whose sites were asked for sums in its second session; one has cats alone."""
    fleet = Fleet(assignment(**{**LUCIR, **settings}), sites(2))
    fleet.sites["dev-2"] = joined(samples(20, ANT, BEE, seed=5), samples(9, CAT, seed=6))
    fleet.session(ANT, BEE)
    fleet.stage += 1
    fleet.phase("imprint", 1, 3, EVERY, NEW)
    return fleet


def rows_of(fleet: Fleet) -> np.ndarray:
    return decode_general(fleet.weights, fleet.of.network).arrays["head.weight"]


def test_new_rows_are_the_mean_direction_of_all_sites_images():
    fleet = imprinted()
    sent = beginning(fleet.of, fleet.question).sent
    length = np.linalg.norm(sent["head.weight"][:2], axis=1).mean()
    found = rows_of(fleet)
    assert (found[:2] == sent["head.weight"][:2]).all()
    for row, name in ((2, CAT), (3, DOG)):
        units = []
        for data in fleet.sites.values():
            own = [place for place, label in enumerate(data.class_names) if label == name]
            if own:
                seen = slow.features(fleet.of.network, sent, PICTURES, data.inputs[own])
                units += [feature / np.linalg.norm(feature) for feature in seen]
        mean = np.mean(units, axis=0)
        assert np.abs(found[row] - length * mean / np.linalg.norm(mean)).max() < 1e-5


def test_all_sites_begin_with_these_rows_and_teach_by_the_model_before():
    fleet = imprinted()
    before = decode_general(fleet.question.weights, fleet.of.network).arrays
    question = replace(
        fleet.question,
        phase="train-alone",
        round_of_stage=2,
        weights=fleet.weights,
        weights_class_names=EVERY,
        extras=fleet.extras,
    )
    for site, data in fleet.sites.items():
        asks = order(question, 2, NEW, site, 9)
        begun = DEVICE.begin(fleet.of, asks, data, fleet.memories[site], PICTURES)
        assert begun is not None
        assert begun.work is not None
        own = begun.work.parameters["head.weight"].numpy()
        assert (own == rows_of(fleet)[2:]).all(), site
        teacher = begun.work.frozen["old_model"]["parameters"]["head.weight"].numpy()
        assert (teacher == before["head.weight"]).all()


def test_rows_imprinted_at_sites_differ_from_site_to_site():
    fleet = Fleet(assignment(**{**LUCIR, "imprint_at": "sites"}), sites(2))
    fleet.session(ANT, BEE)
    fleet.stage += 1
    question = replace(
        fleet.question,
        phase="train-alone",
        weights=fleet.weights,
        weights_class_names=(ANT, BEE),
        class_names=EVERY,
        extras=fleet.extras,
    )
    rows = []
    for site, data in fleet.sites.items():
        asks = order(question, 2, NEW, site, 9)
        begun = DEVICE.begin(fleet.of, asks, data, fleet.memories[site], PICTURES)
        assert begun is not None
        assert begun.work is not None
        rows.append(begun.work.parameters["head.weight"].numpy())
    assert np.abs(rows[0] - rows[1]).max() > 1e-4


def test_a_session_without_old_classes_leaves_the_weights_as_they_are():
    fleet = Fleet(assignment(**LUCIR), sites(2))
    fleet.stage = 1
    fleet.phase("imprint", 1, 3, (ANT, BEE), (ANT, BEE))
    assert fleet.made.weights == fleet.question.weights


def test_sums_that_are_joined_give_the_same_rows():
    fleet = imprinted()
    totals = [COORDINATOR.summing(fleet.of, fleet.question, 3) for _ in range(2)]
    for place, payload in enumerate(fleet.answers.values()):
        totals[place % 2].add(payload, 20)
    totals[0].join(totals[1].partial())
    made = COORDINATOR.combine(fleet.of, fleet.question, totals[0])
    assert (made.weights, made.aggregate) == (fleet.made.weights, fleet.made.aggregate)


def test_with_shared_images_the_phase_comes_after_sharing_and_keeps_them():
    fleet = Fleet(assignment(**{**LUCIR, "dad": True}), sites(2))
    fleet.session(ANT, BEE)
    fleet.session(CAT, DOG, ends=False)
    assert fleet.of.opening_phases == ("share", "imprint")
    assert {"shared", "old-model"} <= fleet.extras.keys()


def test_a_site_without_the_sessions_classes_has_nothing_to_say():
    fleet = imprinted()
    asks = order(fleet.question, 2, NEW, "dev-0", 9)
    assert DEVICE.begin(fleet.of, asks, samples(8, ANT), None, PICTURES) is None


def test_features_of_more_images_than_a_sum_may_hold_are_refused():
    of = assignment(**LUCIR)
    frame = imprinting_frame(of, 4)
    fleet = imprinted()
    (payload, *_) = fleet.answers.values()
    sums, counts = frame.decode(payload)
    assert counts.tolist() == [0, 0, 10, 10]
    assert not sums[:2].any()
    smaller = replace(frame, most=9)
    with pytest.raises(ContributionError, match="10 images; give 0 to 9 per class"):
        smaller.decode(payload)


def test_a_site_counts_no_more_images_of_a_class_than_fit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fleetledger.methods.dcid.site.MOST_IMPRINTED", 3)
    pictures = samples(20, CAT, DOG).inputs
    digests = tuple(Digest.of(str(row).encode()) for row in range(20))
    data = LocalData(pictures, (CAT, DOG) * 10, digests)
    fleet = imprinted()
    begun = DEVICE.begin(fleet.of, order(fleet.question, 2, NEW, "dev-0", 9), data, None, PICTURES)
    assert begun is not None
    assert begun.samples == {CAT: 3, DOG: 3}
