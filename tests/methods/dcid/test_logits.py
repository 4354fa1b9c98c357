"""Logits as they travel, and the exact ensemble."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.dcid.logits import (
    EXPONENT,
    FINEST,
    LOGITS,
    MOST_SAMPLES,
    LogitFrame,
    LogitSum,
    half_bits,
    half_numbers,
)
from fleetledger.methods.dcid.messages import decode_logits, encode_logits
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.exchange import Partial
from fleetledger.schemas.tensors import encode_tensors
from tests.methods.making import as_frame

FORMS = ("float16", "int8")


def logits(seed: int, images: int = 7, classes: int = 5, far: float = 8.0):
    return (far * np.random.default_rng(seed).normal(size=(images, classes))).astype(np.float32)


def travelled(frame: LogitFrame, values) -> np.ndarray:
    """What a payload says, in float64."""
    return decode_logits(frame, encode_logits(frame, values)) * 2.0**FINEST


@pytest.mark.parametrize("form", FORMS)
def test_logits_arrive_within_half_a_step(form):
    values = logits(1)
    found = travelled(LogitFrame(7, 5, form), values)
    step = np.abs(values) * 2.0**-10 if form == "float16" else np.abs(values).max() / 63
    assert (np.abs(found - values) <= step / 2).all()


def test_half_precision_arrives_as_it_is():
    values = logits(2).astype(np.float16).astype(np.float32)
    assert (travelled(LogitFrame(7, 5, "float16"), values) == values).all()


@pytest.mark.parametrize("form", FORMS)
def test_the_ensemble_is_the_weighted_mean_and_no_order_changes_it(form):
    frame, samples = LogitFrame(7, 5, form), (13, 500, 70)
    sites = [logits(seed, far=10.0**seed) for seed in range(3)]
    payloads = [encode_logits(frame, values) for values in sites]
    slow = sum(
        count * travelled(frame, values) for count, values in zip(samples, sites, strict=True)
    ) / sum(samples)
    digests = set()
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        total = LogitSum(frame)
        for place in order:
            total.add(decode_logits(frame, payloads[place]), samples[place])
        assert np.abs(total.mean() - slow).max() < 1e-12
        digests.add(total.digest())
    assert len(digests) == 1


def test_more_samples_than_fit_an_exact_sum_are_refused():
    total = LogitSum(LogitFrame(1, 1, "float16"))
    total.add(np.array([[2**40 - 1]]), MOST_SAMPLES - 1)
    with pytest.raises(MethodError, match="set omega to 'uniform'"):
        total.add(np.array([[1]]), 2)
    with pytest.raises(MethodError, match="set omega to 'uniform'"):
        total.join(Partial((2,), (np.array([[1]]),)))
    with pytest.raises(MethodError, match="0 of a site"):
        total.add(np.array([[1]]), 0)
    with pytest.raises(MethodError, match="there is none"):
        LogitSum(LogitFrame(1, 1, "float16")).mean()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_site_whose_training_diverged_sends_nothing(form, bad):
    values = logits(1)
    values[2, 3] = bad
    with pytest.raises(MethodError, match="diverged"):
        LogitFrame(7, 5, form).encode(values)


@pytest.mark.parametrize("form", FORMS)
def test_logits_that_are_too_large_to_add_are_refused(form):
    with pytest.raises(MethodError, match="lower the rate"):
        LogitFrame(1, 2, form).encode(np.full((1, 2), 70_000, np.float32))


def test_bits_and_numbers_are_each_others_inverse():
    values = np.array([0.5, -3.25, 2.0**-24, 65504], np.float32)
    assert (half_numbers(half_bits(values)) == values).all()


ATTACKS = {
    "other rows": (FORMS[0], {LOGITS: np.zeros((6, 5), np.int16)}, "does not fit"),
    "other columns": (FORMS[0], {LOGITS: np.zeros((7, 6), np.int16)}, "does not fit"),
    "another type": (FORMS[0], {LOGITS: np.zeros((7, 5), np.float32)}, "does not fit"),
    "a tensor more": (
        FORMS[0],
        {LOGITS: np.zeros((7, 5), np.int16), "labels": np.zeros(7, np.int8)},
        "labels: unknown",
    ),
    "not a number": (FORMS[0], {LOGITS: np.full((7, 5), 0x7E00, np.int16)}, "finite"),
    "infinity": (FORMS[0], {LOGITS: np.full((7, 5), 0x7C00, np.int16)}, "finite"),
    "coarse steps": (
        FORMS[1],
        {LOGITS: np.ones((7, 5), np.int8), EXPONENT: np.array([60], np.int32)},
        "exponent: 60",
    ),
    "no exponent": (FORMS[1], {LOGITS: np.ones((7, 5), np.int8)}, "is missing"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_anything_else_is_refused_by_name(attack):
    form, tensors, told = ATTACKS[attack]
    with pytest.raises(ContributionError, match=told):
        decode_logits(LogitFrame(7, 5, form), encode_tensors(tensors))


def test_a_frame_that_would_unpack_to_much_is_refused_before_it_does():
    bomb = as_frame(bytes(1 << 26))
    with pytest.raises(ContributionError, match="at most"):
        decode_logits(LogitFrame(7, 5, "float16"), bomb)
