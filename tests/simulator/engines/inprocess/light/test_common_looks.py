"""Devices on an accelerator look in batches that they share, and see what each would see alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.kernel_counts.accelerator import DEVICE, FakeAccelerator
from benchmarks.kernel_counts.round_paths import (
    PICTURES,
    Asked,
    fbl_device,
    lga_device,
    looking_fleet,
)
from learning.training.settings import TrainingEngineSettings
from methods.training import Observed
from schemas.rounds import Observation
from simulator.engines.inprocess.light.looking import with_common_looks

pytestmark = pytest.mark.torch

HERE, THERE = TrainingEngineSettings(), TrainingEngineSettings(device=DEVICE)
DEVICES: dict[str, Callable[[int], Asked]] = {"lga": lga_device, "fbl": fbl_device}


def seen(asked: Asked, engine: TrainingEngineSettings, *, together: bool) -> list[Observed]:
    fleet = looking_fleet(asked)
    if together:
        engine = with_common_looks(asked.side, asked.of, fleet, PICTURES, engine)
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
        common = with_common_looks(asked.side, asked.of, again, PICTURES, THERE)
        assert common.shared_inference is not None
        assert common.shared_inference.of(first.instruction.device) is None
        told = [asked.side.observe(asked.of, *one, PICTURES, common) for one in again]
        own = asked.side.observe(asked.of, *fleet[1], PICTURES, THERE)
    assert told[0].memory == memory
    assert told[1].observation == own.observation


def test_on_the_processor_each_looks_by_itself() -> None:
    asked = lga_device(13)
    fleet = looking_fleet(asked)
    assert with_common_looks(asked.side, asked.of, fleet, PICTURES, HERE) is HERE
    nobody = [None, None]
    assert with_common_looks(asked.side, asked.of, nobody, PICTURES, THERE) is THERE


def test_devices_without_images_ask_nothing() -> None:
    asked = lga_device(14)
    (first, *_) = looking_fleet(asked)
    empty = first._replace(
        data=replace(first.data, inputs=first.data.inputs[:0], class_names=(), digests=())
    )
    assert with_common_looks(asked.side, asked.of, [empty, None], PICTURES, THERE) is THERE
