"""What every method that trains promises on a device, in the first round of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from fleetledger.learning.networks.pictures import Pictures
from fleetledger.methods.dcid.device import DEVICE as DCID_DEVICE
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.methods.training.network_weights import decode_weights
from tests.methods.dcid import making as dcid
from tests.methods.exchange import Exchange
from tests.methods.fbl import making as fbl
from tests.methods.fbl import training as fbl_training
from tests.methods.fedhaf import making as fedhaf
from tests.methods.fedhaf import training as fedhaf_training
from tests.methods.lga import making as lga
from tests.methods.lga import training as lga_training
from tests.methods.local_rounds import LocalRounds
from tests.methods.making import given, order
from tests.methods.rounds import making as rounds
from tests.methods.rounds import training as rounds_training
from tests.methods.training.test_every_averaging_method import BASIC

pytestmark = pytest.mark.torch


@dataclass(frozen=True)
class Method:
    """A method, and a device that has samples of its first classes."""

    exchange: Exchange
    local: LocalRounds
    samples: Callable[..., LocalData]
    count: int = 20
    rate: str = "rate"
    """The setting that is the rate of a first stage."""

    @cached_property
    def data(self) -> LocalData:
        return self.samples(self.count, *self.exchange.names)

    def first_round(self, **settings: Any) -> tuple[Any, FitInstruction]:
        of = self.exchange.assignment(**settings)
        return of, order(self.exchange.asked(of), (1, 1))


EVERY = {
    "dcid": Method(
        BASIC, LocalRounds(DCID_DEVICE, Pictures(dcid.MEAN, dcid.DEVIATION)), dcid.samples
    ),
    "fbl": Method(fbl.EXCHANGE, fbl_training.LOCAL, fbl.scenes, 10, "first_rate"),
    "fedhaf": Method(fedhaf.EXCHANGE, fedhaf_training.LOCAL, fedhaf.samples, rate="head_rate"),
    "lga": Method(lga.EXCHANGE, lga_training.LOCAL, lga.samples),
    "rounds": Method(rounds.EXCHANGE, rounds_training.LOCAL, rounds.images),
}
LOOKING = {name: EVERY[name] for name in ("fbl", "lga")}
"""Methods whose devices look for new tasks."""
every = pytest.mark.parametrize("method", EVERY.values(), ids=EVERY)
looking = pytest.mark.parametrize("method", LOOKING.values(), ids=LOOKING)


@every
def test_the_same_order_gives_the_same_answer_to_the_last_bit(method: Method) -> None:
    of, asks = method.first_round()
    one, again = (method.local.learn(of, asks, method.data) for _ in range(2))
    assert (one.payload, one.memory) == (again.payload, again.memory)
    assert one.gradients == again.gradients
    elsewhere = method.local.learn(of, replace(asks, device="dev-2"), method.data)
    assert elsewhere.payload != one.payload, "devices have chance of their own"


@every
def test_a_fleet_of_identical_devices_is_one_device(method: Method) -> None:
    of, asks = method.first_round()
    coordinator, question = method.exchange.coordinator, method.exchange.asked(of)
    answer = given(method.local.learn(of, asks, method.data).payload, 20)
    coordinator.check(of, answer.read(), question)
    alone = coordinator.combine(of, question, [answer])
    assert coordinator.combine(of, question, [answer] * 3).weights == alone.weights


@every
def test_the_weights_of_an_answer_are_those_that_were_trained(method: Method) -> None:
    of, asks = method.first_round()
    work, trained = method.local.trained(method.local.begun(of, asks, method.data))
    answer = method.local.device.finish(of, work, trained)
    question = method.exchange.asked(of)
    made = method.exchange.coordinator.combine(of, question, [given(answer.payload, 20)])
    arrays, _ = decode_weights(made.weights, of.network)
    assert answer.samples == dict.fromkeys(method.exchange.names, len(method.data) // 2)
    for name, tensor in {**trained.parameters, **trained.buffers}.items():
        assert np.abs(arrays[name] - tensor.detach().numpy()).max() <= 2**-20, name


@every
def test_a_device_without_samples_has_nothing(method: Method) -> None:
    of, asks = method.first_round()
    masks = method.data.masks
    nothing = replace(
        method.data,
        inputs=method.data.inputs[:0],
        class_names=(),
        digests=(),
        masks=None if masks is None else masks[:0],
    )
    assert method.local.device.begin(of, asks, nothing, None, method.local.pictures) is None


@every
def test_a_training_that_leaves_the_numbers_is_no_answer(method: Method) -> None:
    of, asks = method.first_round(**{method.rate: 1e30})
    with pytest.raises(MethodError, match=r"lower (the )?rate|give finite numbers"):
        method.local.learn(of, asks, method.data)


@every
def test_files_that_are_none_are_refused(method: Method) -> None:
    of, asks = method.first_round()
    with pytest.raises(MethodError, match="weights"):
        method.local.begun(of, replace(asks, weights=b"nothing"), method.data)
    with pytest.raises(MethodError, match="memory"):
        method.local.begun(of, asks, method.data, b"nothing")


@looking
def test_a_round_is_looked_at_once(method: Method) -> None:
    of, asks = method.first_round()
    first = method.local.observed(of, asks, method.data)
    again = method.local.observed(of, asks, method.data, first.memory)
    assert (again.observation, again.memory) == (first.observation, first.memory)
    trained = method.local.learn(of, asks, method.data, first.memory)
    straight = method.local.learn(of, asks, method.data)
    assert trained.observation == straight.observation == first.observation
    assert (trained.payload, trained.memory) == (straight.payload, straight.memory)
    assert trained.gradients == straight.gradients


@looking
def test_a_device_that_looks_needs_the_stage_of_every_class(method: Method) -> None:
    of, asks = method.first_round()
    for stages in ((), (1,)):
        with pytest.raises(MethodError, match=f"class_stages: {len(stages)} for 2 classes"):
            method.local.begun(of, replace(asks, class_stages=stages), method.data)


@looking
def test_a_device_that_looks_takes_pictures_alone(method: Method) -> None:
    of, asks = method.first_round()
    device, pictures = method.local.device, method.local.pictures
    for data, normalised in unfit(method):
        for side in (device.begin, device.observe):
            with pytest.raises(MethodError, match="uint8 pictures"):
                side(of, asks, data, None, pictures if normalised else None)


def unfit(method: Method) -> Iterator[tuple[LocalData, bool]]:
    """Samples that are no pictures of the fleet's shape, and pictures that nobody normalises."""
    yield method.data, False
    for inputs in (method.data.inputs.astype(np.float32), method.data.inputs[:, :, :-1]):
        yield replace(method.data, inputs=inputs), True
