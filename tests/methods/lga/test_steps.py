"""Methods of one's own that begin with `Lga`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fleetledger as fl
from fleetledger.methods.lga.memory import read_memory
from fleetledger.methods.registry import METHODS, descriptor, training_coordinator, training_device
from fleetledger.methods.training.exchange import ClientUpdate
from tests.methods.lga.making import ANT, BEE, EXCHANGE, SHAPE
from tests.methods.lga.training import PICTURES, Taught
from tests.methods.local_rounds import LocalRounds
from tests.outside import nothing_stays

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(METHODS):
        yield


def second_task(method: type[fl.methods.Lga], **settings: Any) -> ClientUpdate:
    """Return the answer of a device that enters its second task."""
    fl.method("mine")(method)
    fleet = Taught(training_coordinator("mine").assign(EXCHANGE.small | settings, SHAPE))
    local = LocalRounds(training_device("mine"), PICTURES)
    return local.learn(fleet.of, fleet.order, fleet.data, fleet.memory)


class Unchanged(fl.methods.Lga):
    """LGA under another name."""


class Louder(fl.methods.Lga):
    """LGA whose loss counts more."""

    class Settings(fl.methods.Lga.Settings):
        """With a factor."""

        factor: float = 2.0

    def loss(self, step: Any) -> Any:
        return self.settings.factor * super().loss(step)


class Farthest(fl.methods.Lga):
    """LGA that keeps the samples farthest from their mean."""

    def exemplars(self, features: Any, count: int) -> Any:
        return np.argsort(-np.linalg.norm(features - features.mean(0), axis=1))[:count]


def test_it_has_a_proxy_and_observes_as_lga_does() -> None:
    fl.method("mine")(Unchanged)
    told, ours = descriptor("mine"), descriptor("lga")
    assert (told.proxy, told.observes, told.needs) == (ours.proxy, ours.observes, ours.needs)


def test_what_is_not_changed_is_done_to_the_bit_and_an_own_loss_counts() -> None:
    usual = second_task(Unchanged)
    assert usual.payload == Taught(EXCHANGE.assignment()).learn().payload
    assert second_task(Louder).payload != second_task(Louder, factor=1.0).payload
    assert usual.gradients is not None


def test_an_own_rule_says_which_exemplars_are_kept() -> None:
    usual, own = (
        read_memory(second_task(method).memory).exemplars for method in (Unchanged, Farthest)
    )
    assert own.keys() == usual.keys() == {ANT, BEE}
    assert own != usual
