"""Methods of one's own that begin with `Statistics`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fleetledger as fl
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.fed3r.coordinator import COORDINATOR
from fleetledger.methods.registry import METHODS, statistics_coordinator, statistics_device
from tests.outside import nothing_stays

NAMES = ("cat", "dog")


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(METHODS):
        yield


def solved(method: type[fl.methods.Statistics], **settings: Any) -> Any:
    """Return the head of one device's features, by a method that is registered."""
    fl.method("mine")(method)
    random = np.random.default_rng(1)
    features = random.integers(-60, 60, (20, 4)).astype(np.float32)
    features[::2, 0] += 60
    side = statistics_coordinator("mine")
    told = side.assign({"min_samples_per_class": 1} | settings, 4)
    labels = [NAMES[row % 2] for row in range(20)]
    made = statistics_device("mine").finish(told, features, labels)
    part = side.aggregate_type.of(told, side.check(told, made.payload), stage=1)
    return side.solve(told, part, NAMES)


class Unchanged(fl.methods.Statistics):
    """Fed3R under another name."""


class Means(fl.methods.Statistics):
    """Class means, each scaled."""

    class Settings(fl.methods.Statistics.Settings):
        """With a scale."""

        scale: float = 1.0

    def solve(self, sums: Any) -> Any:
        return self.settings.scale * (sums.classes / sums.counts).T


def test_what_is_not_changed_is_done_to_the_bit() -> None:
    ours = solved(Unchanged)
    assert isinstance(ours.weights, np.ndarray)
    fl.method("other")(Unchanged)
    random = np.random.default_rng(1)
    features = random.integers(-60, 60, (20, 4)).astype(np.float32)
    features[::2, 0] += 60
    told = COORDINATOR.assign({"min_samples_per_class": 1}, 4)
    device = statistics_device("fed3r")
    made = device.finish(told, features, [NAMES[row % 2] for row in range(20)])
    part = COORDINATOR.aggregate_type.of(told, COORDINATOR.check(told, made.payload), stage=1)
    assert (COORDINATOR.solve(told, part, NAMES).weights == ours.weights).all()


def test_an_own_head_is_solved_from_the_exact_sums() -> None:
    one, two = solved(Means).weights, solved(Means, scale=2.0).weights
    assert one.shape == (2, 4)
    assert two == pytest.approx(2 * one)
    assert one[0, 0] > one[1, 0] + 30


def test_an_own_check_refuses_sums_of_a_device() -> None:
    class Few(fl.methods.Statistics):
        def check(self, sums: Any) -> None:
            if sums.counts.min() < 11:
                raise ContributionError(f"counts: {sums.counts.min()} of a class; 11 are asked for")

    with pytest.raises(ContributionError, match="counts: 10 of a class; 11 are asked for"):
        solved(Few)


@pytest.mark.parametrize("made", [np.zeros((2, 3)), np.full((2, 4), np.nan)])
def test_rows_that_are_none_are_refused(made: Any) -> None:
    class Wrong(fl.methods.Statistics):
        def solve(self, sums: Any) -> Any:
            return made

    with pytest.raises(MethodError, match=r"solve: Wrong gives rows .*give finite ones of shape"):
        solved(Wrong)
