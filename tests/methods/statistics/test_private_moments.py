"""Parts with differential privacy: how far one image moves them, and what the coordinator takes."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.learning.numerics.triangles import diagonal_index, pack_upper
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.fed3r.coordinator import COORDINATOR as FED3R
from fleetledger.methods.fed3r.device import DEVICE as FED3R_DEVICE
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.statistics.private_moments import (
    MomentNoise,
    bounded_counts,
    clipped,
    denoised,
    noise_of,
)
from fleetledger.methods.stsa.coordinator import COORDINATOR as STSA
from fleetledger.methods.stsa.device import DEVICE as STSA_DEVICE
from fleetledger.schemas.privacy import Noise

needs_opendp = pytest.mark.skipif(
    find_spec("opendp") is None, reason="pip install 'fleetledger[privacy]'"
)
NOISE = Noise(protects="image", epsilon=8, delta=1e-5, multiplier=0.64)
WIDTH, NAMES = 24, ("ant", "bee", "cow", "dog")
SIDES = {
    "stsa": (STSA, STSA_DEVICE, {"form": "exact", "map_width": WIDTH, "max_samples_per_part": 90}),
    "fed3r": (FED3R, FED3R_DEVICE, {"max_samples_per_part": 90}),
}
METHODS = pytest.mark.parametrize("method", sorted(SIDES))


def released(h, label):
    """Return what a part of these clipped features is, before noise: triangle, sums, counts."""
    gram = pack_upper((h.T @ h).astype(np.float64))
    member = np.eye(len(NAMES))[label]
    return gram, member.T @ h, member.sum(axis=0)


def length(difference, noise):
    """Return the length of a change, in units of the noise on each number."""
    gram, sums, counts = difference
    deviation = np.full(len(gram), noise.gram / np.sqrt(2))
    deviation[diagonal_index(sums.shape[1])] = noise.gram
    parts = (gram / deviation, sums / noise.sums, counts / noise.counts)
    return np.sqrt(sum(np.square(part).sum() for part in parts))


def samples(rng, n, low=0):
    h = rng.integers(low, 128, (n, WIDTH))
    h[rng.random(h.shape) < rng.random()] = 0
    return h.astype(np.float32), rng.integers(0, len(NAMES), n)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 127), st.sampled_from([0, -127]))
def test_no_neighbour_is_further_than_the_multiplier_says(seed, clip, low):
    rng = np.random.default_rng(seed)
    noise = MomentNoise.of(NOISE.model_copy(update={"clip": clip}), WIDTH, 100)
    h, label = samples(rng, 12, low)
    if seed % 3 == 0:  # an image as long as it can be, in one feature
        h[0], h[0, 1] = 0, 127
    h = clipped(h, noise.squared_length)
    assert np.square(h).sum(axis=1).max() <= noise.squared_length
    without = released(h[1:], label[1:])
    change = [one - other for one, other in zip(released(h, label), without, strict=True)]
    assert length(change, noise) <= 1 / NOISE.multiplier * (1 + 1e-12)


def test_an_image_as_long_as_it_can_be_moves_a_part_as_far_as_is_accounted():
    noise = MomentNoise.of(NOISE.model_copy(update={"clip": 8}), 64, 100)
    h = np.zeros((1, 64), np.float32)
    h[0, 0] = 64  # = 8 sqrt 64
    change = released(clipped(h, noise.squared_length), np.zeros(1, int))
    assert length(change, noise) == pytest.approx(1 / NOISE.multiplier)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_no_device_is_further_than_the_multiplier_says(seed, most):
    rng = np.random.default_rng(seed)
    told = NOISE.model_copy(update={"protects": "device"})
    noise = MomentNoise.of(told, WIDTH, most)
    h, label = samples(rng, most)
    if seed % 2:
        h[:], label[:] = 0, 0
        h[:, 0] = 127  # the same image again and again is the worst
    change = released(clipped(h, noise.squared_length), label)
    assert length(change, noise) <= 1 / NOISE.multiplier * (1 + 1e-12)


@given(st.integers(2, 11))
def test_sharers_together_add_what_one_would(sharers):
    alone = MomentNoise.of(NOISE, WIDTH, 100)
    share = MomentNoise.of(NOISE.model_copy(update={"sharers": sharers}), WIDTH, 100)
    assert np.sqrt(sharers) * share.gram == pytest.approx(alone.gram)
    assert np.sqrt(sharers) * share.sums >= alone.sums * (1 - 1e-12)
    assert np.sqrt(sharers) * share.counts >= alone.counts


@given(st.integers(0, 2**32), st.integers(1, 127))
def test_clipping_lets_no_number_grow_and_leaves_short_images_alone(seed, clip):
    h, _ = samples(np.random.default_rng(seed), 6, -127)
    found = clipped(h, clip**2 * WIDTH)
    assert (np.abs(found) <= np.abs(h)).all()
    assert (found == np.rint(found)).all()
    short = np.square(h).sum(axis=1) <= clip**2 * WIDTH
    assert (found[short] == h[short]).all()


def test_counts_keep_their_bounds():
    assert bounded_counts(np.array([-4, 9, 30]), 1, 20).tolist() == [1, 9, 10]
    assert bounded_counts(np.array([-4, -9]), 1, 2).tolist() == [1, 1]


def test_denoised_sums_of_samples_stay_as_they_are():
    h = np.random.default_rng(0).normal(size=(30, 8))
    gram = h.T @ h
    assert denoised(gram) == pytest.approx(gram)
    noisy = gram - 40 * np.eye(8)
    assert np.linalg.eigvalsh(denoised(noisy))[0] > 0


def part(method, noise=NOISE, seed=0, n=40, labels=None):
    coordinator, device, given_settings = SIDES[method]
    told = coordinator.assign(given_settings, WIDTH, noise)
    h, label = samples(np.random.default_rng(seed), n)
    names = [NAMES[index] for index in (label if labels is None else labels[:n])]
    context = PartContext(class_names=NAMES)
    return told, coordinator, device.finish(told, h, names, context)


@needs_opendp
@METHODS
def test_a_part_names_every_class_and_is_taken(method):
    told, coordinator, made = part(method, n=12, labels=[0] * 12)
    assert tuple(sorted(made.samples)) == NAMES
    checked = coordinator.check(told, made.payload)
    assert dict(checked.samples_per_class) == made.samples
    assert min(made.samples.values()) >= 1


@needs_opendp
@METHODS
@pytest.mark.parametrize("multiplier", [0.1, 1.0, 40.0])
@pytest.mark.parametrize("protects", ["image", "device"])
def test_no_honest_part_is_refused(method, multiplier, protects):
    noise = NOISE.model_copy(update={"multiplier": multiplier, "protects": protects})
    for seed in range(4):
        told, coordinator, made = part(method, noise, seed, n=1 + 29 * seed)
        coordinator.check(told, made.payload)


@needs_opendp
@METHODS
def test_noise_has_the_deviations_that_the_budget_asks_for(method):
    told, coordinator, _ = part(method)
    noise = noise_of(told)
    empty = coordinator.aggregate_type.empty(told)
    grams, sums = [], []
    for seed in (0, 0, 1, 1, 2, 2):
        _, _, made = part(method, seed=seed)
        one = coordinator.aggregate_type.of(told, coordinator.check(told, made.payload), 1)
        grams.append((empty + one).gram.values)
        sums.append(one.classes["ant"].correlation.values)
    differences = np.concatenate([grams[i] - grams[i + 1] for i in (0, 2, 4)])
    off = np.delete(np.arange(len(grams[0])), diagonal_index(WIDTH))
    assert differences.reshape(3, -1)[:, off].std() == pytest.approx(noise.gram, rel=0.15)
    told_sums = np.concatenate([sums[i] - sums[i + 1] for i in (0, 2, 4)]).std()
    assert told_sums == pytest.approx(noise.sums * np.sqrt(2), rel=0.35)


@needs_opendp
@METHODS
def test_sums_with_noise_solve_and_undo_to_the_last_integer(method):
    told, coordinator, _ = part(method)
    kind = coordinator.aggregate_type
    parts = [
        kind.of(told, coordinator.check(told, part(method, seed=seed)[2].payload), 1)
        for seed in range(3)
    ]
    two = kind.empty(told) + parts[0] + parts[1]
    assert (two + parts[2] - parts[2]).digest == two.digest
    head = coordinator.solve(told, two, NAMES)
    assert np.isfinite(head.weights).all()
    assert coordinator.judged_moments(told, two, NAMES) is None
    assert coordinator.gram_triangle(told, two) is None


@needs_opendp
@METHODS
@pytest.mark.parametrize("members", [4, 16])
def test_noisy_parts_add_up_behind_masks_and_their_sum_is_taken(method, members):
    told, coordinator, _ = part(method)
    told = told.model_copy(update={"noise": NOISE.model_copy(update={"sharers": 4})})
    device = SIDES[method][1]
    payloads = [part(method, told.noise, seed)[2].payload for seed in range(members)]
    words = sum(device.to_words(told, payload, NAMES) for payload in payloads)
    made = coordinator.from_words(told, words, NAMES, members)
    coordinator.check_sum(told, [made.payload])
    kind = coordinator.aggregate_type
    total = kind.empty(told)
    for payload in payloads:
        total = total + kind.of(told, coordinator.read(told, payload), 1)
    assert kind.of(told, coordinator.read(told, made.payload), 1).digest == total.digest
    assert np.isfinite(coordinator.solve(told, total, NAMES).weights).all()


@needs_opendp
@METHODS
def test_impossible_numbers_are_still_refused(method):
    noise = NOISE.model_copy(update={"multiplier": 0.1, "clip": 2})
    told, coordinator, _ = part(method, noise)
    loud = told.model_copy(update={"noise": noise.model_copy(update={"multiplier": 60.0})})
    h, label = samples(np.random.default_rng(0), 40)
    device = SIDES[method][1]
    made = device.finish(loud, h, [NAMES[i] for i in label], PartContext(class_names=NAMES))
    with pytest.raises(ContributionError):
        coordinator.check(told, made.payload)


@METHODS
def test_a_class_that_was_not_assigned_is_refused(method):
    coordinator, device, given_settings = SIDES[method]
    told = coordinator.assign(given_settings, WIDTH, NOISE)
    h = np.ones((2, WIDTH), np.float32)
    with pytest.raises(MethodError, match="not among"):
        device.finish(told, h, ["ant", "eel"], PartContext(class_names=NAMES))


@pytest.mark.parametrize(
    ("given_settings", "match"),
    [
        ({"form": "compact"}, "form 'exact'"),
        ({"form": "exact", "noise": "sums"}, "own noise"),
        ({"form": "exact", "ridge": "from-sums"}, "ridge"),
        ({"form": "exact", "group_minimum": 2, "hold_back": True}, "min_samples_per_class"),
    ],
)
def test_settings_that_noise_does_not_go_with_are_refused(given_settings, match):
    with pytest.raises(MethodError, match=match):
        STSA.assign(given_settings, WIDTH, NOISE)


def test_methods_without_noise_refuse_it():
    from fleetledger.methods.fedncm.coordinator import COORDINATOR

    with pytest.raises(MethodError, match="cannot have noise"):
        COORDINATOR.assign({}, WIDTH, NOISE)
