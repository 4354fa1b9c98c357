"""Answers to rounds made by hand: what does not fit is refused by name, what fits is averaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.rounds.entries import RoundFailed, WeightsAveraged
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.rounds.messages import decode_weights
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Accepted, Receipt, Refused
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.round_bench import ABLE
from tests.coordinator.round_answers import answer, asked, weights
from tests.coordinator.shell_harness import MemoryCoordinator, ScriptedDevice, write_home

CLASSES = ("circle", "square")


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


@pytest.fixture
def coordinator(tmp_path: Path, broker: InMemoryBroker) -> Iterator[MemoryCoordinator]:
    write_home(tmp_path, "rounds", network="mlp")
    made = MemoryCoordinator(tmp_path, broker)
    yield made
    made.close()


def able_device(broker: InMemoryBroker, coordinator: MemoryCoordinator) -> ScriptedDevice:
    """A device that can train, of a fleet that has a network and no stage."""
    coordinator.command(AdmitDevice(device=DeviceId("dev-1")))
    made = ScriptedDevice("dev-1", broker, coordinator)
    made.born(ABLE)
    made.wait_for(Welcome)
    network = prepare_network(coordinator.home, coordinator.home / "pixels.json")
    coordinator.command(ImportNetwork(network=network))
    return made


@pytest.fixture
def device(broker: InMemoryBroker, coordinator: MemoryCoordinator) -> Iterator[ScriptedDevice]:
    made = able_device(broker, coordinator)
    coordinator.open(*CLASSES)
    yield made
    made.close()


def receipt(device: ScriptedDevice, count: int) -> Receipt:
    return device.wait_for(Receipt, count)


def test_answers_that_do_not_fit_are_refused_by_name_and_a_whole_one_is_averaged(
    coordinator: MemoryCoordinator, device: ScriptedDevice, tmp_path: Path
) -> None:
    assignment = asked(device)
    sent = weights(device, assignment, tmp_path)
    good = dict(WeightGrid.around(sent).encode(sent))
    name, head = "linear0.weight", "head.weight"
    floats = {key: value.astype(np.float32) for key, value in good.items()}
    negative = {**good, "norm0.running_var": -good["norm0.running_var"]}
    cases = [
        ({**good, head: good[head][:1]}, head),
        ({**good, "backdoor": good[name]}, "backdoor: unknown tensor"),
        ({key: value for key, value in good.items() if key != name}, f"{name}: is missing"),
        (floats, "give int32"),
        (negative, "norm0.running_var"),
    ]
    for count, (tensors, why) in enumerate(cases, start=1):
        payload = encode_tensors(tensors)
        device.send(answer(assignment, payload), payload)
        refused = receipt(device, count).answer
        assert isinstance(refused, Refused), why
        assert why in refused.reason
    whole = encode_tensors(good)
    for count, (payload, why) in enumerate(
        [(whole[:-1], "payload_bytes"), (whole[:-1] + b"x", "payload: promised")],
        start=len(cases) + 1,
    ):
        device.send(answer(assignment, whole), payload)
        refused = receipt(device, count).answer
        assert isinstance(refused, Refused), why
        assert why in refused.reason
    assert ContributionAccepted.kind not in coordinator.kinds()
    device.send(answer(assignment, whole), whole)
    assert isinstance(receipt(device, len(cases) + 3).answer, Accepted)
    coordinator.until(lambda: WeightsAveraged.kind in coordinator.kinds())


def test_weights_that_are_not_finite_cannot_be_written_as_an_answer(
    device: ScriptedDevice, tmp_path: Path
) -> None:
    sent = weights(device, asked(device), tmp_path)
    name = "linear0.weight"
    broken = {**sent, name: np.full_like(sent[name], np.nan)}
    with pytest.raises(Exception, match="holds nan"):
        WeightGrid.around(sent).encode(broken)


def test_the_mean_of_one_answer_is_that_answer(
    coordinator: MemoryCoordinator, device: ScriptedDevice, tmp_path: Path
) -> None:
    assignment = asked(device)
    sent = weights(device, assignment, tmp_path)
    grid = WeightGrid.around(sent)
    moved = {name: array + np.float32(0.25) for name, array in sent.items()}
    payload = encode_tensors(grid.encode(moved))
    device.send(answer(assignment, payload), payload)
    coordinator.until(lambda: WeightsAveraged.kind in coordinator.kinds())
    state = coordinator.engine.core.state
    assert state.rounds.weights is not None
    averaged, names = decode_weights(
        coordinator.blobs.get(state.rounds.weights.offer.digest),
        training_coordinator("rounds").read_assignment(assignment.settings).network,
    )
    assert names == CLASSES
    for name, array in grid.decode(grid.encode(moved)).items():
        np.testing.assert_array_equal(averaged[name], array)


def test_a_method_that_lacks_something_here_gives_the_reason(
    coordinator: MemoryCoordinator,
    device: ScriptedDevice,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def combine(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'torch'")

    monkeypatch.setattr(training_coordinator("rounds"), "combine", combine)
    assignment = asked(device)
    sent = weights(device, assignment, tmp_path)
    payload = encode_tensors(WeightGrid.around(sent).encode(sent))
    device.send(answer(assignment, payload), payload)
    coordinator.until(lambda: RoundFailed.kind in coordinator.kinds())
    (failed,) = coordinator.engine.ledger.find(RoundFailed)
    assert failed.body["reason"].startswith("No module named 'torch', and the method needs it here")
