"""A fleet trains the adapters of a vision transformer whose other tensors come from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.numpy
import torch

from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.models.joined import joined_model
from fleetledger.coordinator.topics.lineages.entries import BackboneImported, NetworkImported
from fleetledger.coordinator.topics.models.entries import (
    ModelExported,
    ModelSolved,
)
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.registry import NETWORKS, KnownNetwork
from fleetledger.learning.networks.vision_transformer import VisionTransformer
from fleetledger.schemas.models import Preprocessing
from fleetledger.transport.memory import InMemoryBroker
from tests.end_to_end.memory_fleet import MemoryFleet
from tests.end_to_end.round_fleet import BARS, RoundFleet, rules

pytestmark = pytest.mark.torch

NAMES = ("one", "three", "two")
TINY = VisionTransformer(4, 2, width=24, blocks=1, heads=3, hidden=32, adapter=16, scale=1.0)
COLOUR = Preprocessing(
    mode="RGB", size=(4, 4), mean=(0.5,) * 3, deviation=(0.25,) * 3, input_name="image"
)
SETTINGS: dict[str, object] = {"network": "tiny", "epochs": 6, "batch": 8, "rate": 0.1}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS._own, "tiny", KnownNetwork(lambda _shape: TINY))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def base_file(folder: Path) -> Path:
    file = folder / "base.safetensors"
    safetensors.numpy.save_file(initial_arrays(TINY.base_plan(), 3), file)
    return file


def in_colour(fleet: RoundFleet) -> RoundFleet:
    """Three devices with bars, at a coordinator whose pictures have three channels."""
    file = fleet.coordinator.home / "pixels.json"
    file.write_text(COLOUR.model_dump_json(), encoding="utf-8")
    for number, name in enumerate(NAMES):
        fleet.add_with_bars(name, number)
    return fleet


def test_adapters_are_trained_exported_and_run_and_the_base_moves_once(tmp_path: Path) -> None:
    fleet = in_colour(RoundFleet(tmp_path, rounds=rules(per_stage=3), **SETTINGS))
    try:
        fleet.begin(*BARS, weights_file=base_file(tmp_path))
        fleet.until(lambda: len(fleet.right(1, *BARS)) == 3)
        assert min(fleet.right(1, *BARS)) > 0.8
        (network,) = fleet.told(NetworkImported)
        assert network.base is not None
        base = network.base.digest
        assert all(base not in str(body.extras) for body in fleet.told(RoundOpened))
        assert all(base in device.files() for device in fleet.devices.values())
        assert network.weights.size < network.base.size
        report = verify(fleet.coordinator.engine.ledger, fleet.coordinator.blobs)
        assert report.ok, str(report)
        assert base not in report.pruned
        assert joined_model(fleet.coordinator.home, 1).difference < 1e-4
        assert len(fleet.told(ModelExported)) == 1
    finally:
        fleet.close()


@pytest.mark.nightly
def test_a_first_stage_of_adapters_freezes_with_its_base_for_statistics(tmp_path: Path) -> None:
    fleet = RoundFleet.__new__(RoundFleet)
    MemoryFleet.__init__(
        fleet, tmp_path, InMemoryBroker(), rules(per_stage=2), map_width=60, form="exact"
    )
    in_colour(fleet)
    lines = [f"{name} = {value!r}" for name, value in SETTINGS.items()]
    with (fleet.coordinator.home / "coordinator.toml").open("a", encoding="utf-8") as file:
        file.write("\n".join(["\n[first_stage.settings]", *lines, ""]))
    try:
        fleet.begin(*BARS, weights_file=base_file(tmp_path))
        fleet.until(lambda: fleet.told(StageClosed) and fleet.told(ModelSolved))
        (frozen,) = fleet.told(BackboneImported)
        assert (frozen.method, frozen.backbone_width) == ("stsa", TINY.width)
        version = fleet.told(ModelSolved)[-1].version
        fleet.until(lambda: len(fleet.right(version, *BARS)) == 3)
        assert min(fleet.right(version, *BARS)) > 0.8
    finally:
        fleet.close()
