"""The fake accelerator says what a GPU would say, and its numbers are those of the processor."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from benchmarks.speed.kernel_counts.accelerator import (
    DEVICE,
    DeviceTensor,
    FakeAccelerator,
    MixedDevicesError,
    counted,
)
from benchmarks.speed.kernel_counts.counting import NotLinearError, costs_of
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from tests.learning.training.agents import make_works

pytestmark = pytest.mark.torch


def moved(*shape: int) -> torch.Tensor:
    """A tensor of the accelerator, which must be switched on."""
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape).to(DEVICE)


def test_a_training_on_it_has_the_numbers_of_the_processor() -> None:
    works = make_works(sizes=(16, 9), epochs=2)
    here = TrainingEngineSettings(), TrainingEngineSettings("stack")
    there = TrainingEngineSettings(device=DEVICE), TrainingEngineSettings("stack", DEVICE)
    with FakeAccelerator():
        found = [train_alone(works[0], there[0]), *train_stacked(works, there[1])]
    wanted = [train_alone(works[0], here[0]), *train_stacked(works, here[1])]
    for one, other in zip(found, wanted, strict=True):
        assert one.losses == other.losses
        for name, tensor in {**one.parameters, **one.buffers}.items():
            assert isinstance(tensor, DeviceTensor)
            assert torch.equal(tensor.held, {**other.parameters, **other.buffers}[name])


def test_what_computes_is_a_kernel_and_a_view_is_none() -> None:
    with FakeAccelerator() as fake:
        values = moved(2, 3)
        values.T[1].unsqueeze(0).add(1).mul_(values[:1, :2])
    assert dict(fake.seen.kernels) == {"add": 1, "mul_": 1}
    assert fake.seen.to_device.total() == 1
    assert not fake.seen.waits


def test_each_copy_from_the_host_is_counted_however_it_is_written() -> None:
    ways = (
        lambda: torch.tensor([1, 2], device=DEVICE),
        lambda: torch.as_tensor(0.5, device=DEVICE),
        lambda: torch.ones(3).to(DEVICE),
        lambda: torch.empty(3, device=DEVICE).copy_(torch.ones(3)),
        lambda: torch.empty(3, device=DEVICE).new_tensor([1.0]),
        lambda: torch.empty(3, device=DEVICE)[torch.tensor([0, 1])],
    )
    assert [counted(way).to_device.total() for way in ways] == [1] * len(ways)
    for way in (lambda: torch.zeros(3, device=DEVICE), lambda: torch.arange(3, device=DEVICE)):
        assert not counted(way).to_device


def test_whoever_needs_a_value_waits() -> None:
    with FakeAccelerator() as fake:
        values = moved(3)
        ways = (
            values.sum().item,
            lambda: float(values[0]),
            values.tolist,
            values.cpu,
            lambda: bool(values.sum() > 1),
            lambda: values[values > 1],
            (values > 1).nonzero,
            lambda: torch.bincount(values.long()),
            lambda: torch.equal(values, values),
        )
        found = []
        for way in ways:
            before = fake.seen.waits.total()
            way()
            found.append(fake.seen.waits.total() - before)
    assert found == [1] * len(ways)


def test_tensors_of_both_devices_do_not_meet() -> None:
    with FakeAccelerator():
        with pytest.raises(MixedDevicesError, match=r"add: \[\(3,\)\] on the processor"):
            moved(3) + torch.ones(3)
        assert (moved(3) + torch.tensor(1.0)).sum().item() == 9, "a number may lie anywhere"
        with pytest.raises(MixedDevicesError, match="numpy"):
            moved(3).numpy()


def test_a_convolution_on_the_processor_is_told_apart() -> None:
    kernel, pictures = torch.ones(1, 1, 3, 3), torch.ones(2, 1, 5, 5)
    here = counted(lambda: functional.conv2d(pictures, kernel))
    assert here.host_convolutions.total() == here.host["convolution"] == 1
    there = counted(lambda: functional.conv2d(pictures.to(DEVICE), kernel.to(DEVICE)))
    assert not there.host_convolutions
    assert there.kernels["convolution"] == 1


def test_bfloat16_is_refused() -> None:
    settings = TrainingEngineSettings(device=DEVICE, autocast=True)
    with FakeAccelerator(), pytest.raises(ValueError, match="float32 alone"):
        train_alone(make_works(sizes=(16,))[0], settings)


def test_costs_are_taken_apart_exactly() -> None:
    def run(epochs: int, batches: int):
        def train() -> None:
            values = moved(2).add(1)  # once
            for _ in range(epochs):
                values = values.mul(2).mul(2)
                for _ in range(batches):
                    values = values.sub(1).sub(1).sub(1)

        return train

    costs = costs_of(run)
    assert (costs.step["kernels"], costs.epoch["kernels"], costs.fixed["kernels"]) == (3, 2, 1)
    assert (costs.step["to_device"], costs.fixed["to_device"]) == (0, 1)


def test_steps_that_differ_are_no_law() -> None:
    def run(epochs: int, batches: int):
        return lambda: [moved(1).add(1) for _ in range((epochs * batches) ** 2)]

    with pytest.raises(NotLinearError, match="in six steps"):
        costs_of(run)
