"""A network on a backbone's features, from the import to a pair that a device installs.

The coordinator is whole; the device answers its rounds by hand, so that no torch is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import ModelRules, RoundRules, Rules, StageRules
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.models.joined import joined_model
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.reports.history import sentence_of
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone, ImportNetwork
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.models.commands import PushModel
from fleetledger.coordinator.topics.models.entries import ModelExported, ModelSolved
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.device_agent.models.inference.installed_model import (
    Frozen,
    InferenceSession,
    InstalledModel,
    SessionSettings,
)
from fleetledger.device_agent.models.self_test import self_test
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.models import DesiredModel, Manifest
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.round_bench import ABLE
from tests.coordinator.round_answers import answer, asked, weights
from tests.coordinator.shell_harness import (
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

Body = TypeVar("Body", bound=EntryBody)
RULES = Rules(
    stages=StageRules(quiet_seconds=0.2),
    models=ModelRules(solve_every_seconds=0.2),
    rounds=RoundRules(per_stage=2),
)


class Bench:
    """A coordinator, and one device that answers with weights moved by chance."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = InMemoryBroker()
        write_home(folder, "rounds", network="fam", head="hidden")
        self.coordinator = MemoryCoordinator(folder, self.broker, RULES)
        self.coordinator.command(AdmitDevice(device=DeviceId("dev-1")))
        self.device = ScriptedDevice("dev-1", self.broker, self.coordinator)
        self.device.born(ABLE)
        self.device.wait_for(Welcome)

    def import_network(self) -> NetworkImported:
        files = (self.folder / "pixels.json", self.folder / "pixels.onnx")
        network = prepare_network(self.folder, *files)
        self.coordinator.command(ImportNetwork(network=network))
        return network

    def answer_round(self, number: int) -> Assignment:
        assignment = asked(self.device, number)
        sent = weights(self.device, assignment, self.folder)
        random = np.random.default_rng(number)
        moved = {
            name: array + random.uniform(-0.02, 0.02, array.shape).astype(np.float32)
            for name, array in sent.items()
        }
        payload = encode_tensors(WeightGrid.around(sent).encode(moved))
        offer = self.device.exchange.serve(payload)
        self.device.send(answer(assignment, payload, offer=offer))
        self.until_told(WeightsAveraged, number)
        return assignment

    def stage(self, *classes: str, first: int) -> list[Assignment]:
        self.coordinator.open(*classes)
        assignments = [self.answer_round(number) for number in (first, first + 1)]
        self.until_told(StageClosed, (first + 1) // 2)
        return assignments

    def installed(self, version: int) -> tuple[Manifest, set[Digest]]:
        """Fetch a desired version and test it as a device does; its manifest and its files."""
        desired = self.desired(version)
        manifest = Manifest.read(self.device.fetch(desired.manifest, self.folder))
        files = {offer.digest: self.device.fetch(offer, self.folder) for offer in desired.files}
        settings = SessionSettings(("CPUExecutionProvider",), 1)
        frozen, head = (
            InferenceSession(self.folder / reference.digest, settings)
            for reference in (manifest.frozen, manifest.head)
        )
        model = InstalledModel(manifest, Frozen(frozen, 4), head)
        self_test(model, files[manifest.golden.digest], files[manifest.golden_scores.digest])
        return manifest, set(files)

    def desired(self, version: int) -> DesiredModel:
        """Wait until the device was told to run a version."""
        count = 1
        while True:
            self.device.wait_for(DesiredModel, count)
            told = [item for item in self.device.received if item.header.kind == DesiredModel.kind]
            for item in told:
                if (body := item.read(DesiredModel)).version == version:
                    return body
            count = len(told) + 1

    def told(self, kind: type[Body]) -> list[Body]:
        found = self.coordinator.engine.ledger.find(kind)
        bodies = (read_entry(entry.kind, entry.body) for entry in found)
        return [body for body in bodies if isinstance(body, kind)]

    def until_told(self, kind: type[EntryBody], count: int = 1) -> None:
        self.until(lambda: len(self.told(kind)) == count)

    def until(self, found: Callable[[], object]) -> None:
        self.coordinator.until(found)

    def restart_coordinator(self) -> None:
        self.coordinator.kill()
        self.coordinator = MemoryCoordinator(self.folder, self.broker, RULES)
        self.device._coordinator = self.coordinator
        self.device.born(ABLE)

    def close(self) -> None:
        self.device.close()
        self.coordinator.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def test_a_trained_network_is_installed_behind_the_backbone_which_moves_once(bench: Bench) -> None:
    network = bench.import_network()
    assert network.backbone is not None
    backbone = network.backbone.frozen
    assignments = bench.stage("circle", "square", first=1)
    first, files = bench.installed(1)
    assignments += bench.stage("spot", first=3)
    second, more = bench.installed(2)
    assert {item.backbone for item in assignments} == {backbone}
    assert {item.frozen for item in assignments} == {None}
    assert first.frozen.digest == second.frozen.digest == backbone.digest
    assert first.feature_width == network.backbone.feature_width == 16
    assert (first.class_names, second.class_names) == (
        ("circle", "square"),
        ("circle", "square", "spot"),
    )
    assert more - files == {second.head.digest, second.golden_scores.digest}
    assert first.parity.samples == 8
    assert first.parity.max_absolute_difference < 1e-3
    joined = joined_model(bench.folder, 2)
    assert joined.manifest == second
    assert joined.difference < 1e-3


def test_the_ledger_of_such_a_fleet_verifies_and_says_what_happened(bench: Bench) -> None:
    network = bench.import_network()
    assert network.backbone is not None
    bench.stage("circle", "square", first=1)
    bench.until_told(ModelExported)
    ledger = bench.coordinator.engine.ledger
    report = verify(ledger, bench.coordinator.blobs)
    assert report.ok, str(report)
    assert network.backbone.frozen.digest not in report.pruned
    told = list(map(sentence_of, ledger.entries()))
    short = network.backbone.frozen.digest.short
    assert any(f"on the 16 features of frozen model {short} (pixels)" in text for text in told)


def test_a_backbone_that_is_gone_is_named_by_verify(bench: Bench) -> None:
    network = bench.import_network()
    assert network.backbone is not None
    bench.coordinator.blobs.store.delete(network.backbone.frozen.digest)
    report = verify(bench.coordinator.engine.ledger, bench.coordinator.blobs)
    assert network.backbone.frozen.digest in str(report)
    assert not report.ok


def test_a_coordinator_that_is_killed_comes_to_the_same_model(tmp_path: Path) -> None:
    digests = []
    for name in ("calm", "stormy"):
        bench = Bench(tmp_path / name)
        bench.import_network()
        bench.coordinator.open("circle", "square")
        bench.answer_round(1)
        if name == "stormy":
            bench.restart_coordinator()
        bench.answer_round(2)
        bench.until_told(ModelSolved)
        if name == "stormy":
            bench.restart_coordinator()
        bench.until_told(ModelExported)
        averaged = [body.aggregate for body in bench.told(WeightsAveraged)]
        (exported,) = bench.told(ModelExported)
        heads = [offer.digest for offer in exported.files]
        digests.append((averaged, heads))
        bench.close()
    assert digests[0] == digests[1]


def test_a_fleet_goes_from_statistics_to_a_network_on_features_and_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    of_network = (tmp_path / "coordinator.toml").read_text(encoding="utf-8")
    before_the_method = of_network[: of_network.index("[method]")]
    of_statistics = f'{before_the_method}[method]\nname = "fed3r"\n'

    def statistics() -> None:
        (tmp_path / "coordinator.toml").write_text(of_statistics, encoding="utf-8")
        frozen = prepare_backbone(
            tmp_path, tmp_path / "pixels.onnx", tmp_path / "pixels.json", trusted=True
        )
        bench.coordinator.command(ImportBackbone(backbone=frozen))

    statistics()
    bench.coordinator.open("circle", "square")
    random = np.random.default_rng(0)
    features = random.integers(-127, 128, (12, 16)).astype(np.float32)
    labels = ["circle", "square"] * 6
    bench.device.give(*contribution_of(bench.coordinator, features, labels))
    bench.until_told(ModelExported, 1)
    (tmp_path / "coordinator.toml").write_text(of_network, encoding="utf-8")
    bench.import_network()
    bench.coordinator.open("spot")
    for number in (1, 2):
        bench.answer_round(number)
    bench.until_told(ModelExported, 2)
    statistics()
    bench.until_told(ModelExported, 3)
    solved = bench.told(ModelSolved)
    methods = [body.method for body in solved]
    assert methods == ["fed3r", "rounds", "fed3r"]
    first, _, last = solved
    assert first.head == last.head
    # It knows "spot" no more, so it goes out when a person says so.
    bench.coordinator.command(PushModel(version=3))
    manifests = [bench.installed(version)[0] for version in (1, 2, 3)]
    assert manifests[0].frozen == manifests[2].frozen != manifests[1].frozen
    bench.close()
