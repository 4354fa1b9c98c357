"""Weights of older rounds leave a coordinator's disk, and its ledger is still whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fleetledger.coordinator.core.rules import ModelRules, RoundRules, Rules, StageRules
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.round_bench import ABLE
from tests.coordinator.round_answers import answer, asked, weights
from tests.coordinator.shell_harness import MemoryCoordinator, ScriptedDevice, write_home

RULES = Rules(
    stages=StageRules(quiet_seconds=0.2),
    models=ModelRules(solve_every_seconds=0.2),
    rounds=RoundRules(per_stage=4, gather_seconds=0, keep_weights=2),
)


def test_the_bytes_go_and_the_ledger_says_which_were_deleted(tmp_path: Path) -> None:
    write_home(tmp_path, "rounds", network="mlp")
    broker = InMemoryBroker()
    coordinator = MemoryCoordinator(tmp_path, broker, RULES)
    coordinator.command(AdmitDevice(device=DeviceId("dev-1")))
    device = ScriptedDevice("dev-1", broker, coordinator)
    device.born(ABLE)
    device.wait_for(Welcome)
    network = prepare_network(tmp_path, tmp_path / "pixels.json")
    coordinator.command(ImportNetwork(network=network))
    coordinator.open("circle", "square")
    for number in range(1, 5):
        order = asked(device, number)
        sent = weights(device, order, tmp_path / "fetched")
        moved = {name: array + np.float32(0.01) for name, array in sent.items()}
        payload = encode_tensors(WeightGrid.around(sent).encode(moved))
        device.send(answer(order, payload), payload)
    coordinator.until(lambda: ModelExported.kind in coordinator.kinds())
    ledger = coordinator.engine.ledger
    made = [
        WeightsAveraged.model_validate(entry.body).weights.digest
        for entry in ledger.find(WeightsAveraged)
    ]
    assert [coordinator.blobs.has(digest) for digest in made] == [False, True, True, True]
    assert coordinator.blobs.has(network.weights.digest)
    device.close()
    coordinator.close()
    with LedgerReader.open_read_only(ledger_path(tmp_path)) as reader:
        report = verify(
            reader, Blobs(reader, BlobStore(blob_folder(tmp_path))), prunings=Prunings()
        )
    assert report.ok, str(report)
    assert made[0] in report.pruned
    assert not set(made[1:]) & set(report.pruned)
