"""FedHAF with real agents and a real coordinator: adapter and head move, the backbone does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.models.joined import joined_model
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.values import Digest
from fleetledger.transport.memory import InMemoryBroker
from tests.end_to_end.memory_fleet import MemoryFleet, put_pictures
from tests.end_to_end.round_fleet import BARS, RoundFleet, rules

pytestmark = pytest.mark.torch

NAMES = ("one", "three", "two")
SETTINGS: dict[str, object] = {
    "preset": "replay",
    "hidden": 32,
    "width": 16,
    "head_epochs": 6,
    "batch": 8,
    "head_rate": 0.05,
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class FedHafFleet(RoundFleet):
    """Three devices with bars, whose networks see the 16 pixels as a backbone's features."""

    def __init__(self, folder: Path) -> None:
        MemoryFleet.__init__(self, folder, InMemoryBroker(), rules(), "fedhaf", **SETTINGS)
        for number, name in enumerate(NAMES):
            self.add_with_bars(name, number)

    def begin_on_features(self) -> NetworkImported:
        self.begin(*BARS, backbone=self.coordinator.home / "pixels.onnx")
        (network,) = self.told(NetworkImported)
        return network

    def next_stage(self) -> None:
        for number, device in enumerate(self.devices.values()):
            put_pictures(device.data, "spot", range(100 * number, 100 * number + 16))
        self.settle(0.5)
        self.coordinator.open("spot")

    def weights(self) -> list[tuple[Digest, Digest]]:
        return [(body.aggregate, body.weights.digest) for body in self.told(WeightsAveraged)]


@pytest.fixture
def fleets() -> Iterator[list[FedHafFleet]]:
    made: list[FedHafFleet] = []
    yield made
    for fleet in made:
        fleet.close()


def test_a_fleet_learns_a_second_stage_with_exemplars_and_only_the_network_moves(
    tmp_path: Path, fleets: list[FedHafFleet]
) -> None:
    fleet = FedHafFleet(tmp_path)
    fleets.append(fleet)
    network = fleet.begin_on_features()
    assert network.backbone is not None
    fleet.until(lambda: len(fleet.right(1, *BARS)) == 3)
    assert min(fleet.right(1, *BARS)) > 0.9
    fleet.next_stage()
    fleet.until(lambda: len(fleet.right(2, "spot")) == 3)
    assert min(fleet.right(2, "spot")) > 0.8
    assert min(fleet.right(2, *BARS)) > 0.6, "exemplars keep what was learned"
    home = fleet.coordinator.home
    first, second = (joined_model(home, version).manifest for version in (1, 2))
    assert first.frozen.digest == second.frozen.digest == network.backbone.frozen.digest
    assert first.head.digest != second.head.digest
    assert {body.part.payload_kind for body in fleet.told(ContributionAccepted)} == {"adapter"}
    report = verify(fleet.coordinator.engine.ledger, fleet.coordinator.blobs)
    assert report.ok, str(report)
    assert network.backbone.frozen.digest not in report.pruned


@pytest.mark.nightly
def test_a_coordinator_that_is_killed_comes_to_the_same_adapter_and_head(
    tmp_path: Path, fleets: list[FedHafFleet]
) -> None:
    for name in ("calm", "stormy"):
        fleet = FedHafFleet(tmp_path / name)
        fleets.append(fleet)
        fleet.begin_on_features()
        if name == "stormy":
            fleet.until(lambda: len(fleets[-1].weights()) == 1)
            fleet.restart_coordinator()
        fleet.until(lambda: fleets[-1].told(StageClosed))
    calm, stormy = fleets
    assert calm.weights() == stormy.weights()
    assert [body.head for body in calm.told(ModelSolved)] == [
        body.head for body in stormy.told(ModelSolved)
    ]
