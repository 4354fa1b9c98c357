"""Leaving devices out, against models that are solved again without them, sample by sample."""

import numpy as np
import pytest

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.leave_out import FittedModel, Judges, UnitMoments
from tests.learning.numerics.digit_fleets import RIDGE, WIDTH, Samples, broken_camera, fleet


def solved(devices: list[Samples]) -> np.ndarray:
    features = np.concatenate([h for h, _ in devices])
    labels = np.concatenate([y for _, y in devices])
    return np.linalg.solve(features.T @ features + RIDGE * np.eye(WIDTH), features.T @ labels)


def error(weights: np.ndarray, samples: Samples) -> np.ndarray:
    return np.square(samples[0] @ weights - samples[1]).mean(axis=0)


@pytest.mark.parametrize("attack", [None, broken_camera])
def test_harm_is_the_error_that_judges_would_be_spared_by_a_model_without_the_device(attack):
    made = fleet(1, 0.3, devices=12, **({"bad": 3, "attack": attack} if attack else {}))
    inside, others, added = made.samples[:5], made.samples[5:9], made.samples[9:]
    units = made.units
    model = FittedModel(units[:5], RIDGE)
    whole = solved(list(inside))
    assert np.allclose(model.weights, whole, rtol=0, atol=1e-9)
    judges = Judges(units[5:9], model.weights)
    seen = []
    for place, change in model.changes(units[9:]):
        if place < 5:
            with_it = whole
            without = solved([one for at, one in enumerate(inside) if at != place])
        else:
            with_it, without = solved([*inside, added[place - 5]]), whole
        expected = np.array([error(with_it, one) - error(without, one) for one in others])
        found = judges.harm(change, inside=place < 5)
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-8)
        seen.append(place)
    assert seen == list(range(8))


def test_rows_below_the_rank_and_above_the_width_give_the_same_changes():
    (h, y), rest = fleet(2, 1.0, devices=3).samples[0], fleet(2, 1.0, devices=3).units[1:]
    counts = y.sum(axis=0).astype(np.int64)
    drawn = np.arange(0, WIDTH, 4)
    ways = [UnitMoments(h, h.T @ y, counts), UnitMoments.of(h.T @ h, h.T @ y, counts)]
    narrow = [other.of_features(drawn) for other in rest]
    changes = [
        next(iter(FittedModel([way.of_features(drawn), *narrow], RIDGE).changes()))[1]
        for way in ways
    ]
    assert len(h) > len(drawn)
    assert np.allclose(*changes, rtol=0, atol=1e-9)


def test_moments_whose_shapes_disagree_are_refused():
    with pytest.raises(FeatureError, match="moments: rows"):
        UnitMoments(np.zeros((2, 5)), np.zeros((4, 3)), np.zeros(3, np.int64))
