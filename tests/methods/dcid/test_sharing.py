"""Phase `share`: what a site gives, and the set that all sites get."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.device import DEVICE
from fleetledger.methods.dcid.images import decode_images, encode_images, shared_images
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.exchange import SHARED
from tests.methods.dcid.making import ANT, BEE, CAT, DOG, SHAPE, asked, assignment, order, samples
from tests.methods.dcid.pictures import PICTURES
from tests.methods.making import given, joined

pytestmark = pytest.mark.torch


def question(of, **changes):
    return asked(of, ANT, BEE, phase="share", **changes)


def shared(of, data, new=(ANT, BEE), site="dev-1"):
    asks = order(question(of), 1, new, site, 1)
    begun = DEVICE.begin(of, asks, data, None, PICTURES)
    return None if begun is None else DEVICE.measured(of, begun)


def test_a_site_shares_so_many_of_its_images_of_each_new_class_and_no_label():
    of, data = assignment(shared_per_class=5), samples(60, ANT, BEE, CAT)
    answer = shared(of, data)
    images = decode_images(answer.payload, SHAPE, 10)
    owners = {
        image.tobytes(): name for image, name in zip(data.inputs, data.class_names, strict=True)
    }
    assert Counter(owners[image.tobytes()] for image in images) == {ANT: 5, BEE: 5}
    assert answer.samples == {ANT: 5, BEE: 5}
    labels = [owners[image.tobytes()] for image in images]
    assert labels != sorted(labels), "their order would tell the classes"


def test_a_site_with_fewer_images_shares_all_of_them():
    of = assignment(shared_per_class=50)
    assert shared(of, samples(9, ANT, BEE)).samples == {ANT: 5, BEE: 4}


def test_which_images_depends_on_site_and_round_alone():
    of, data = assignment(), samples(60, ANT, BEE)
    assert shared(of, data).payload == shared(of, data).payload
    assert shared(of, data).payload != shared(of, data, site="dev-2").payload


def test_a_site_without_new_images_shares_nothing():
    of = assignment()
    assert shared(of, samples(20, CAT, DOG)) is None


def test_the_shared_set_is_what_those_gave_who_did_not_decline():
    of = assignment()
    answers = [shared(of, samples(40, ANT, BEE, seed=seed)) for seed in range(3)]
    whole = COORDINATOR.combine(of, question(of), [given(a.payload, 10) for a in answers])
    turned = COORDINATOR.combine(of, question(of), [given(a.payload, 10) for a in answers[::-1]])
    assert whole.extras == turned.extras
    assert whole.aggregate == turned.aggregate
    assert len(shared_images(of, whole.extras)) == 30
    two = COORDINATOR.combine(of, question(of), [given(a.payload, 10) for a in answers[:2]])
    assert len(shared_images(of, two.extras)) == 20
    assert whole.weights == question(of).weights


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((11, *SHAPE), np.uint8),
        np.zeros((0, *SHAPE), np.uint8),
        np.zeros((2, 1, 8, 9), np.uint8),
    ],
)
def test_more_images_than_were_asked_for_are_refused(images):
    of = assignment(shared_per_class=5)
    with pytest.raises(ContributionError, match="images: "):
        COORDINATOR.check(of, encode_images(images), question(of))


def test_old_classes_do_not_count_for_what_a_site_may_share():
    of = assignment(shared_per_class=5)
    every = COORDINATOR.first_weights(of)
    weights = joined_weights(of, every)
    later = asked(of, ANT, BEE, CAT, phase="share", weights=weights, weights_class_names=(ANT, BEE))
    COORDINATOR.check(of, encode_images(np.zeros((5, *SHAPE), np.uint8)), later)
    with pytest.raises(ContributionError, match="does not fit"):
        COORDINATOR.check(of, encode_images(np.zeros((6, *SHAPE), np.uint8)), later)


def joined_weights(of, weights):
    from fleetledger.methods.training.network_weights import decode_weights, encode_weights, grown

    arrays, names = decode_weights(weights, of.network)
    return encode_weights(grown(arrays, names, (ANT, BEE), 1), (ANT, BEE))


def test_more_sites_than_a_shared_set_holds_are_refused():
    of = assignment(shared_per_class=10_000)
    with pytest.raises(MethodError, match="set shared_per_class lower"):
        COORDINATOR.summing(of, question(of), 6)


def test_training_without_a_shared_set_says_what_can_be_done():
    of = assignment()
    data = joined(samples(20, ANT, BEE))
    asks = order(asked(of), 1, (ANT, BEE), "dev-1", 1)
    with pytest.raises(MethodError, match="allow publish_images, or import"):
        DEVICE.begin(of, asks, data, None, PICTURES)
    with pytest.raises(MethodError, match="allow publish_images, or import"):
        COORDINATOR.check(of, b"", asked(of))


def test_an_operator_gives_public_images_with_the_network():
    of = assignment(shared_set="public")
    images = np.random.default_rng(0).integers(0, 256, (30, *SHAPE)).astype(np.uint8)
    extras = {SHARED: COORDINATOR.shared_of(of, images)}
    assert (shared_images(of, extras) == images).all()
    with pytest.raises(MethodError, match="shared: "):
        COORDINATOR.shared_of(of, images[:, :, :4])


def test_both_sides_make_the_same_synthetic_images():
    of = assignment(shared_set="synthetic", synthetic_images=12)
    again = COORDINATOR.read_assignment(of.model_dump(mode="json"))
    assert (shared_images(of, {}) == shared_images(again, {})).all()
    assert len(shared_images(of, {})) == 12
