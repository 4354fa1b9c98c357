"""A fleet's samples lie on its accelerator once, and training by their rows gives the same bits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from benchmarks.speed.kernel_counts.accelerator import DEVICE, FakeAccelerator
from benchmarks.speed.kernel_counts.training_paths import training_paths
from fleetledger.learning.training import resident
from fleetledger.learning.training.engine import train_in_loop
from fleetledger.learning.training.resident import Residence, samples_of, tensor_of
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.shared_inference import SENT, InferenceRequest, SharedInferences
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.work import Data, Trained, Work

pytestmark = pytest.mark.torch

PICTURES = np.random.default_rng(0).integers(0, 256, (50, 3, 2, 2), np.uint8)
TRAIN: dict[str, Callable[..., list[Trained]]] = {"loop": train_in_loop, "stack": train_stacked}


def read(rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return PICTURES[rows]


def residence(device: str = DEVICE) -> Residence | None:
    return Residence.of(PICTURES[:1], len(PICTURES), read, device)


def test_samples_that_are_there_are_those_of_the_host_and_only_their_rows_are_copied() -> None:
    with FakeAccelerator() as fake:
        made = residence()
        assert made is not None
        own = made.samples(np.array([7, 3, 3, 49]))
        before = fake.seen.bytes_to_device.total()
        assert before == PICTURES.nbytes
        assert np.array_equal(tensor_of(samples_of(own, [0, 3])).cpu().numpy(), PICTURES[[7, 49]])
        assert fake.seen.bytes_to_device.total() - before == 2 * 8
    assert (own.shape, own.dtype, len(own)) == ((4, 3, 2, 2), np.uint8, 4)
    assert np.array_equal(own[[1, 2]], PICTURES[[3, 3]])
    assert np.array_equal(own[-1], PICTURES[49])
    assert np.array_equal(own[:2], PICTURES[[7, 3]])


def test_large_arrays_are_read_and_copied_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "_BLOCK_BYTES", 20 * PICTURES[0].nbytes)
    with FakeAccelerator() as fake:
        made = residence()
        assert made is not None
        assert np.array_equal(made.base.cpu().numpy(), PICTURES)
    assert fake.seen.to_device.total() == 3


def test_what_has_no_room_stays_where_it_is_and_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resident, "free_bytes", lambda device: 4 * PICTURES.nbytes - 1)
    with caplog.at_level(logging.WARNING), FakeAccelerator() as fake:
        assert residence() is None
    assert not fake.seen.to_device
    assert "one in 4" in caplog.text
    monkeypatch.setattr(resident, "free_bytes", lambda device: 4 * PICTURES.nbytes)
    with FakeAccelerator():
        assert residence() is not None


def test_on_the_processor_nothing_is_read() -> None:
    def refuse(rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        raise AssertionError(rows)

    assert Residence.of(PICTURES[:1], len(PICTURES), refuse, "cpu") is None
    assert Residence.of(PICTURES[:0], 0, refuse, DEVICE) is None


def by_rows(works: Sequence[Work]) -> list[Work]:
    """Return the works with samples that lie on the accelerator, shuffled among one another."""
    every = np.concatenate([work.data.inputs.numpy() for work in works])
    places = np.random.default_rng(1).permutation(len(every))
    shared = np.empty_like(every)
    shared[places] = every
    made = Residence.of(shared[:1], len(shared), shared.__getitem__, DEVICE)
    assert made is not None
    split = np.split(places, np.cumsum([len(work.data) for work in works])[:-1])
    return [
        replace(work, data=Data.of(made.samples(rows), work.data.targets, dict(work.data.extras)))
        for work, rows in zip(works, split, strict=True)
    ]


@pytest.mark.parametrize("way", TRAIN)
@pytest.mark.parametrize("path", ["fedhaf head", "rounds mlp"])
def test_training_by_rows_leaves_the_same_bits_and_copies_less(path: str, way: str) -> None:
    works = training_paths()[f"{path}, {way}"].works(2, 8)
    engine = TrainingEngineSettings(device=DEVICE)
    with FakeAccelerator() as fake:
        wanted = TRAIN[way](works, engine)
    before = fake.seen
    with FakeAccelerator() as fake:
        rows = by_rows(works)
        fake.seen.bytes_to_device.clear()
        fake.seen.to_device.clear()
        found = TRAIN[way](rows, engine)
        for one, other in zip(found, wanted, strict=True):
            assert one.losses == other.losses
            for name, values in other.parameters.items():
                assert torch.equal(one.parameters[name].cpu(), values.held)
    assert fake.seen.to_device.total() <= before.to_device.total()
    inputs = sum(work.data.inputs.nbytes - 8 * len(work.data) for work in works)
    assert fake.seen.bytes_to_device.total() < before.bytes_to_device.total() - 0.9 * inputs


def test_looks_that_agents_share_are_named_in_one_copy_for_all_batches() -> None:
    asked = {"a": [4, 8, 1], "b": [2] * 9, "c": [40]}
    passes: list[int] = []

    def scores(batch: torch.Tensor) -> npt.NDArray[Any]:
        passes.append(len(batch))
        return batch.cpu().numpy()

    with FakeAccelerator() as fake:
        made = residence()
        assert made is not None
        fake.seen.to_device.clear()
        looks = SharedInferences(
            {
                name: [InferenceRequest(made.samples(np.array(rows)), scores, 5)]
                for name, rows in asked.items()
            }
        )
        for name, rows in asked.items():
            parts = looks.of(name)
            assert parts is not None
            assert np.array_equal(np.concatenate(list(parts)), PICTURES[rows])
    assert passes == [5, 5, 3]
    assert fake.seen.to_device.total() == 1


def test_each_network_that_agents_share_is_asked_by_itself() -> None:
    def by(factor: int) -> Callable[[torch.Tensor], npt.NDArray[Any]]:
        return lambda batch: batch.numpy().astype(np.int64) * factor

    looks = SharedInferences(
        {
            "a": [InferenceRequest(PICTURES[:2], by(1), 8, SENT)],
            "b": [
                InferenceRequest(PICTURES[2:3], by(1), 8, SENT),
                InferenceRequest(PICTURES[3:5], by(2), 8, "before"),
            ],
        }
    )
    assert looks.of("a", "before") is None
    assert looks.of("a", "another") is None
    for agent, network, wanted in (
        ("a", SENT, PICTURES[:2]),
        ("b", SENT, PICTURES[2:3]),
        ("b", "before", PICTURES[3:5] * np.int64(2)),
    ):
        parts = looks.of(agent, network)
        assert parts is not None
        assert np.array_equal(np.concatenate(list(parts)), wanted)
