"""What engine and workers hand each other arrives as it was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from methods.training import LocalData, Partial
from schemas.values import ClassName, DeviceId, Digest
from simulator.engines.inprocess.light.batches import Answered, Done, Said
from simulator.engines.inprocess.light.cohort import CohortResources, Declined
from simulator.engines.inprocess.light.engine import LightEngine
from simulator.engines.inprocess.light.hashing import AnswerBody, hashed
from simulator.engines.inprocess.light.task import RoundTask
from simulator.engines.inprocess.light.worker_messages import (
    AskSum,
    Carried,
    DeviceBatch,
    Failed,
    Setting,
    decode_result,
    decode_work,
    encode_result,
    encode_work,
)
from simulator.virtual.training import TrainerPoolSettings
from tests.simulator.rounds.small import Watching, prepared, small

pytestmark = pytest.mark.torch

ONE, TWO, THREE = (DeviceId(f"device-{number}") for number in (1, 2, 3))
NAME = ClassName("café")


def data(inputs: np.ndarray) -> LocalData:
    count = len(inputs)
    digests = tuple(Digest.of(bytes([number])) for number in range(count))
    return LocalData(inputs, (NAME,) * count, digests, "features")


def arrived(lot: DeviceBatch) -> DeviceBatch:
    found = decode_work(encode_work(lot))
    assert isinstance(found, DeviceBatch)
    return found


def same(one: LocalData, other: LocalData) -> bool:
    """Whether both are equal, to the type of each name."""
    named = [
        (found.class_names, found.digests, found.exemplars_as, *map(type, found.class_names))
        for found in (one, other)
    ]
    return (
        named[0] == named[1]
        and one.inputs.dtype == other.inputs.dtype
        and np.array_equal(one.inputs, other.inputs)
    )


@pytest.mark.parametrize("with_pictures", [True, False])
def test_where_devices_train(tmp_path: Path, with_pictures: bool) -> None:
    from learning.networks.pictures import Pictures

    pictures = Pictures((0.5, 0.25, 0.125), (1.0, 2.0, 0.1), pad=2) if with_pictures else None
    trainers = TrainerPoolSettings(
        "loop", "cpu", bfloat16=True, seconds=3.5, tf32=False, steps="compiled"
    )
    setting = Setting(
        CohortResources(trainers, pictures, tmp_path), ("rounds", "another"), ("methods",)
    )
    assert decode_work(encode_work(setting)) == setting


def test_a_lot_with_pictures_features_and_devices_that_have_nothing() -> None:
    pictures = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    features = np.linspace(-1, 1, 21, dtype=np.float32).reshape(3, 7)[::2]  # not in one piece
    given = {ONE: data(pictures), TWO: None, THREE: data(features)}
    devices = [(ONE, None), (TWO, Path("a/memory")), (THREE, None)]
    found = arrived(DeviceBatch(devices, given, None, keeps=True, forgets=False))
    assert (found.devices, found.task, found.keeps, found.forgets) == (devices, None, True, False)
    assert list(found.data) == [ONE, TWO, THREE]
    for device, expected in given.items():
        one = found.data[device]
        assert one is None if expected is None else one is not None and same(one, expected)
    first = found.data[ONE]
    assert first is not None
    assert first.inputs.flags.writeable  # or torch complains


def test_the_task_of_a_round_with_its_files(tmp_path: Path) -> None:
    engine = LightEngine(prepared(small()), tmp_path, Watching())
    engine.learn(engine._plan.stages[0])
    coordinator = engine._fleet.coordinator
    current = coordinator.state.rounds.current
    assert current is not None
    task = RoundTask.of(coordinator.state, current, coordinator.blobs.get)
    found = arrived(DeviceBatch([], {}, task, keeps=False, forgets=True)).task
    engine.close()
    assert found is not None
    assert found.files == task.files
    assert len(found.known) > 1
    assert found.known == task.known
    assert found.instruction == task.instruction
    assert (found.assignment, found.network, found.opened) == (
        task.assignment,
        task.network,
        task.opened,
    )
    assert type(found.summing()) is type(task.summing())


def test_what_came_of_devices_however_large_or_diverged() -> None:
    said = Said({NAME: 3, ClassName("b"): 4}, 7, 9, 0.1 + 0.2, 5, None)
    noise = np.random.default_rng(1).bytes(200_000)
    done = [
        Done(ONE, Answered(said, hashed(AnswerBody(b"small"))), 0.25),
        Done(TWO, Declined("training left the numbers"), 1e-9),
        Done(THREE, Answered(replace_loss(said), hashed(AnswerBody(noise))), 2.0),
    ]
    large = done[2].outcome
    assert isinstance(large, Answered)
    assert large.hashed.offer is not None
    result = decode_result(encode_result(Carried(done, 0.5)), [ONE, TWO, THREE])
    assert isinstance(result, Carried)
    assert repr(result) == repr(Carried(done, 0.5))  # NaN is not equal to itself
    other = result.done[0].outcome
    assert isinstance(other, Answered)
    assert {type(name) for name in other.said.per_class} == {ClassName}


def replace_loss(said: Said) -> Said:
    """Return it of a training that diverged, with a memory."""
    return said._replace(loss=float("nan"), memory=Path("agents/device-3/memory-1"))


def test_partial_sums_with_line_feeds_in_them() -> None:
    arrays = (np.full((3, 2), 0x0A0A0A0A, np.int64), np.array([0.1, -0.0]), np.empty((0, 4), "i4"))
    result = decode_result(encode_result(Partial((2**62, 3), arrays)))
    assert isinstance(result, Partial)
    assert result.numbers == (2**62, 3)
    assert [array.dtype for array in result.arrays] == [array.dtype for array in arrays]
    for one, other in zip(result.arrays, arrays, strict=True):
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()


def test_words_without_content() -> None:
    assert decode_work(encode_work(AskSum())) == AskSum()
    assert decode_result(encode_result(None)) is None
    assert decode_result(encode_result(Failed("device-1: no"))) == Failed("device-1: no")
