"""Prototypes: which image, how it is perturbed, and what of it is sent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.numerics.noise import normal_noise
from fleetledger.methods.lga.coordinator import COORDINATOR
from fleetledger.methods.lga.gradient_sets import decode_gradients, encode_gradients
from fleetledger.methods.lga.inversion import peak_signal_to_noise
from fleetledger.methods.lga.prototypes import TrainedModel, gradient_sets, perturbed, prototypes_of
from fleetledger.methods.lga.recovery import recover_label
from tests.methods.lga import slow
from tests.methods.lga.making import ANT, CAT, EVERY, SHAPE, asked, assignment, samples, sent
from tests.methods.lga.training import PICTURES

pytestmark = pytest.mark.torch

OF = assignment()
ARRAYS = sent(OF, asked(OF, *EVERY))
MODEL = TrainedModel(OF.network, *to_tensors(ARRAYS), PICTURES, EVERY)
NET = slow.Net(ARRAYS).eval()


def images(name, count, seed=0):
    return samples(count, name, seed=seed).inputs


def slow_features(pictures):
    with torch.no_grad():
        return NET.features(PICTURES.normalise(torch.from_numpy(pictures))).double().numpy()


def test_a_prototype_is_the_image_nearest_to_the_mean_of_its_class():
    given = {CAT: images(CAT, 9), ANT: images(ANT, 7, seed=1)}
    found = prototypes_of(MODEL, given)
    assert found.names == (ANT, CAT)
    assert found.labels.tolist() == [0, 2]
    for row, name in enumerate(found.names):
        features = slow_features(given[name])
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        nearest = np.linalg.norm(unit - unit.mean(axis=0), axis=1).argmin()
        assert np.allclose(found.pictures[row], given[name][nearest] / 255)
        variances = ((features - features.mean(axis=0)) ** 2).sum(axis=0) / (len(features) - 1)
        assert np.allclose(found.variances[row], variances, rtol=1e-4, atol=1e-6)
        assert found.traces[row] == pytest.approx(np.trace(np.cov(features.T)) / 64, rel=1e-4)


def test_a_class_of_one_image_has_no_variance():
    found = prototypes_of(MODEL, {ANT: images(ANT, 1)})
    assert found.traces == [0.0]
    assert np.allclose(found.pictures[0], images(ANT, 1)[0] / 255)
    assert torch.isfinite(perturbed(OF.settings, MODEL, found, b"x")).all()


def slow_perturbation(picture, label, variances, noise, settings):
    """(13) and (14), step by step, of one picture."""
    for step in range(settings.perturbation_steps):
        x = picture.clone().requires_grad_()
        inputs = x if settings.mode == "code" else (x - 0.3) / 0.25
        scores = NET.head(NET.features(inputs[None]) + 0.1 * variances.sqrt() * noise[step])[0]
        if settings.mode == "code":
            chances = torch.sigmoid(NET.head(NET.features(inputs[None]))[0])
            wanted = [chances[c] if c == label else 1 - chances[c] for c in range(len(chances))]
            loss = -sum(chance.log() for chance in wanted) / len(wanted)
        else:
            loss = -torch.log_softmax(scores, dim=0)[label]
        loss.backward()
        decay = 1e-5 if settings.mode == "code" else 0.0
        rate = 0.2 if settings.mode == "code" else 1.0
        picture = picture - rate * (x.grad + decay * picture)
    return picture


@pytest.mark.parametrize("mode", ["paper", "code"])
def test_pictures_are_perturbed_as_the_page_says(mode):
    settings = assignment(mode=mode, rate=0.1, perturbation_steps=6).settings
    found = prototypes_of(MODEL, {ANT: images(ANT, 6), CAT: images(CAT, 8)})
    made = perturbed(settings, MODEL, found, b"secret")
    for row, name in enumerate(found.names):
        drawn = normal_noise(b"secret/" + name.encode(), 6 * 64).reshape(6, 64)
        expected = slow_perturbation(
            found.pictures[row],
            int(found.labels[row]),
            found.variances[row],
            torch.from_numpy(drawn).float(),
            settings,
        )
        assert torch.allclose(made[row], expected, atol=2e-5)
        assert (made[row] - found.pictures[row]).abs().max() > 1e-4


def test_noise_follows_its_secret_and_only_where_there_is_some():
    found = prototypes_of(MODEL, {ANT: images(ANT, 6)})
    one, again, other = (perturbed(OF.settings, MODEL, found, key) for key in (b"1", b"1", b"2"))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    still = assignment(perturbation_noise=0.0).settings
    assert torch.equal(*(perturbed(still, MODEL, found, key) for key in (b"1", b"2")))


def test_without_perturbation_the_gradients_are_those_of_the_image():
    found = prototypes_of(MODEL, {ANT: images(ANT, 6), CAT: images(CAT, 8)})
    still = COORDINATOR.assign({"network": "mlp", "preset": "without-npb"}, SHAPE).settings
    assert torch.equal(perturbed(still, MODEL, found, b"x"), found.pictures)
    moved_far = perturbed(OF.settings, MODEL, found, b"x")
    assert peak_signal_to_noise(moved_far, found.pictures) < 100
    sets = gradient_sets(OF.encoding, found, found.pictures)
    for row, item in enumerate(sets):
        own = OF.encoding.gradients(found.pictures[row : row + 1], found.labels[row : row + 1])
        for name, gradient in own.items():
            assert torch.allclose(item.gradients[name], gradient[0], atol=1e-6)


def test_the_proxy_reads_label_and_trace_and_nothing_else():
    found = prototypes_of(MODEL, {ANT: images(ANT, 6), CAT: images(CAT, 8)})
    payload = encode_gradients(gradient_sets(OF.encoding, found, found.pictures))
    read = decode_gradients(OF.encoding, payload)
    told = {recover_label(item.gradients["4.weight"].numpy()): item.trace for item in read}
    assert told == dict(zip(found.labels.tolist(), found.traces, strict=True))
    assert b"ant" not in payload
