"""Devices on an accelerator look in batches that they share, and see what each would see alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.speed.kernel_counts.accelerator import DEVICE, FakeAccelerator
from benchmarks.speed.kernel_counts.round_paths import (
    PICTURES,
    Asked,
    dcid_device,
    fbl_device,
    lga_device,
    looking_fleet,
)
from fleetledger.learning.networks.head import WEIGHT
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.methods.dcid.assignment import MEANS, TRAIN_ALONE
from fleetledger.methods.training.exchange import Observed
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.virtual.shared_inference import AskedMember, with_shared_inference

pytestmark = pytest.mark.torch

HERE, THERE = TrainingEngineSettings(), TrainingEngineSettings(device=DEVICE)
DEVICES: dict[str, Callable[[int], Asked]] = {"lga": lga_device, "fbl": fbl_device}


def seen(asked: Asked, engine: TrainingEngineSettings, *, together: bool) -> list[Observed]:
    fleet = looking_fleet(asked)
    if together:
        engine = with_shared_inference(asked.side, asked.of, fleet, PICTURES, engine)
        assert engine.shared_inference is not None
    return [asked.side.observe(asked.of, *one, PICTURES, engine) for one in fleet]


@pytest.mark.parametrize("name", DEVICES)
def test_each_sees_what_it_would_see_alone_in_fewer_passes(name: str) -> None:
    asked = DEVICES[name](11)
    with FakeAccelerator() as fake:
        together = seen(asked, THERE, together=True)
    shared = fake.seen.kernels["convolution"]
    with FakeAccelerator() as fake:
        alone = seen(asked, THERE, together=False)
    for one, other in zip(together, alone, strict=True):
        assert_near(one.observation, other.observation)
    passes = {"lga": 1, "fbl": 2}[name]  # of 10 pictures, and of 8 and 2 scenes
    assert 4 * shared == passes * fake.seen.kernels["convolution"]


def assert_near(one: Observation, other: Observation) -> None:
    """Compare what two saw: entropies of other batches differ by rounding."""
    assert one.entropy == pytest.approx(other.entropy, rel=1e-5)
    assert one == other.model_copy(update={"entropy": one.entropy})


def test_devices_that_have_looked_ask_nothing_again() -> None:
    asked = lga_device(12)
    first, *_ = fleet = looking_fleet(asked)
    memory = asked.side.observe(asked.of, *first, PICTURES, HERE).memory
    again = [first._replace(memory=memory), fleet[1]]
    with FakeAccelerator():
        common = with_shared_inference(asked.side, asked.of, again, PICTURES, THERE)
        assert common.shared_inference is not None
        assert common.shared_inference.of(first.instruction.device) is None
        told = [asked.side.observe(asked.of, *one, PICTURES, common) for one in again]
        own = asked.side.observe(asked.of, *fleet[1], PICTURES, THERE)
    assert told[0].memory == memory
    assert told[1].observation == own.observation


def test_on_the_processor_each_looks_by_itself() -> None:
    asked = lga_device(13)
    fleet = looking_fleet(asked)
    assert with_shared_inference(asked.side, asked.of, fleet, PICTURES, HERE) is HERE
    nobody = [None, None]
    assert with_shared_inference(asked.side, asked.of, nobody, PICTURES, THERE) is THERE


def test_devices_without_images_ask_nothing() -> None:
    asked = lga_device(14)
    (first, *_) = looking_fleet(asked)
    empty = first._replace(
        data=replace(first.data, inputs=first.data.inputs[:0], class_names=(), digests=())
    )
    assert with_shared_inference(asked.side, asked.of, [empty, None], PICTURES, THERE) is THERE


def measuring(name: str) -> Asked:
    """Return a site of DCID that looks before it trains, or measures class means."""
    if name == "means":
        return dcid_device(MEANS)
    imprinting = {"lucir": "dcil-lucir-fedavg"}[name]
    return dcid_device(TRAIN_ALONE, preset=imprinting)


@pytest.mark.parametrize("name", ["means", "lucir"])
def test_sites_of_dcid_look_together_at_the_networks_that_they_share(name: str) -> None:
    asked = measuring(name)
    sites = [_half(asked, number) for number in range(2)]
    with FakeAccelerator() as fake:
        common = with_shared_inference(asked.side, asked.of, sites, PICTURES, THERE)
        begun = [asked.side.begin(asked.of, *one, PICTURES, common) for one in sites]
    together = fake.seen.kernels["convolution"]
    with FakeAccelerator() as fake:
        alone = [asked.side.begin(asked.of, *one, PICTURES, THERE) for one in sites]
    assert 2 * together == fake.seen.kernels["convolution"] > 0
    for one, other in zip(begun, alone, strict=True):
        assert one.state.site.memory.anchors == other.state.site.memory.anchors
        if name == "means":
            rows = one.state.rows
            assert rows == other.state.rows
            there, wanted = one.state.features(rows), other.state.features(rows)
            np.testing.assert_allclose(there, wanted, rtol=1e-5, atol=1e-6)
        else:
            with FakeAccelerator():
                weights = [job.work.parameters[WEIGHT].cpu().numpy() for job in (one, other)]
            np.testing.assert_allclose(*weights, rtol=1e-5, atol=1e-6)


def _half(asked: Asked, number: int) -> AskedMember:
    """Return a site with every second image."""
    data, rows = asked.data, range(number, len(asked.data), 2)
    half = replace(
        data,
        inputs=data.inputs[number::2],
        class_names=tuple(data.class_names[row] for row in rows),
        digests=tuple(data.digests[row] for row in rows),
    )
    told = replace(asked.instruction, device=DeviceId(f"device-{number}"))
    return AskedMember(told, half, asked.memory)
