"""A coordinator in memory: contributions in, an ONNX model out, receipts only after the commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fleetledger.coordinator.core.state import ENTRY_KINDS, read_entry
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.topics.models.entries import ModelExported, ModelSolved
from fleetledger.export.head import head_scores
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.models import DesiredModel, Manifest
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Accepted, Later, Receipt, Refused
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import Digest
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import (
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

CLASSES = ("circle", "square")


def samples(seed: int, count: int, width: int) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Integer features in which the two classes differ, with their labels."""
    generator = np.random.default_rng(seed)
    labels = [CLASSES[i % 2] for i in range(count)]
    features = generator.integers(0, 60, (count, width)).astype(np.float32)
    features[1::2, : width // 2] += 60
    return features, labels


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


@pytest.fixture
def coordinator(tmp_path: Path, broker: InMemoryBroker) -> Iterator[MemoryCoordinator]:
    write_home(tmp_path, map_width=40, form="exact")
    made = MemoryCoordinator(tmp_path, broker)
    yield made
    made.close()


@pytest.fixture
def device(broker: InMemoryBroker, coordinator: MemoryCoordinator) -> Iterator[ScriptedDevice]:
    coordinator.begin("dev-1", classes=CLASSES)
    made = ScriptedDevice("dev-1", broker, coordinator)
    made.born()
    made.wait_for(Welcome)
    yield made
    made.close()


def test_a_contribution_becomes_a_model_that_the_device_can_fetch_and_run(
    coordinator: MemoryCoordinator, device: ScriptedDevice, tmp_path: Path
) -> None:
    features, labels = samples(1, 60, 40)
    device.give(*contribution_of(coordinator, features, labels))
    assert isinstance(device.wait_for(Receipt).answer, Accepted)
    desired = device.wait_for(DesiredModel)
    folder = tmp_path / "device"
    folder.mkdir()
    manifest = Manifest.read(device.fetch(desired.manifest, folder))
    assert manifest.class_names == CLASSES
    assert manifest.ledger_index == coordinator.kinds().index("model.solved")
    files = {offer.digest: device.fetch(offer, folder) for offer in desired.files}
    assert set(files) == {reference.digest for reference in manifest.files}
    scores = head_scores(files[manifest.head.digest], features)
    predicted = [manifest.class_names[i] for i in scores.argmax(axis=1)]
    assert predicted == labels
    report = verify(coordinator.engine.ledger, coordinator.blobs)
    assert report.ok, report


def test_a_large_payload_is_fetched_in_blocks(
    coordinator: MemoryCoordinator, broker: InMemoryBroker, tmp_path: Path
) -> None:
    write_home(tmp_path / "wide", map_width=400, form="exact")
    wide = MemoryCoordinator(tmp_path / "wide", broker)
    wide.begin("dev-1", classes=CLASSES)
    device = ScriptedDevice("dev-1", broker, wide)
    try:
        device.born()
        device.wait_for(Welcome)
        body, payload = contribution_of(wide, *samples(2, 200, 400), exchange=device.exchange)
        assert body.offer is not None
        device.give(body, payload)
        assert isinstance(device.wait_for(Receipt).answer, Accepted)
        assert wide.blobs.get(body.payload) == payload
        assert list((tmp_path / "wide" / "incoming").iterdir()) == []
    finally:
        device.close()
        wide.close()


def solved_from(home: Path, order: tuple[int, ...]) -> tuple[Digest, Digest]:
    """Give parts in an order, each twice; return digests of the sum of all and of its head."""
    write_home(home, map_width=40, form="exact")
    broker = InMemoryBroker()
    coordinator = MemoryCoordinator(home, broker)
    coordinator.begin("dev-1", classes=CLASSES)
    device = ScriptedDevice("dev-1", broker, coordinator)
    for turn in (1, 2):
        for number in order:
            device.give(*contribution_of(coordinator, *samples(number, 20, 40), part=number))
        device.wait_for(Receipt, count=turn * len(order))

    def of_all() -> ModelSolved | None:
        for entry in coordinator.engine.ledger.find(ENTRY_KINDS["model.solved"]):
            body = ModelSolved.model_validate(entry.body)
            if body.contributions == len(order):
                return body
        return None

    solved = coordinator.until(of_all)
    device.close()
    coordinator.close()
    assert isinstance(solved, ModelSolved)
    return solved.aggregate, solved.head


def test_every_order_and_repetition_of_parts_gives_the_same_sum_and_head(tmp_path: Path) -> None:
    orders = ((0, 1, 2), (2, 0, 1), (1, 2, 0))
    assert len({solved_from(tmp_path / str(order), order) for order in orders}) == 1


def test_a_payload_with_numbers_that_no_images_can_give_is_refused_in_words(
    coordinator: MemoryCoordinator, device: ScriptedDevice
) -> None:
    body, payload = contribution_of(coordinator, *samples(3, 10, 40))
    wrong = body.model_copy(update={"samples": dict.fromkeys(body.samples, 1)})
    device.give(wrong, payload)
    answer = device.wait_for(Receipt).answer
    assert isinstance(answer, Refused)
    assert "samples" in answer.reason
    torn = payload[:-1]
    device.give(body, torn)
    answer = device.wait_for(Receipt, count=2).answer
    assert isinstance(answer, Refused)
    assert "payload_bytes" in answer.reason
    assert "contribution.accepted" not in coordinator.kinds()


def test_bytes_that_are_no_envelope_are_answered_with_what_is_wrong(
    coordinator: MemoryCoordinator, device: ScriptedDevice
) -> None:
    device.send_bytes(b"\x00\x01")
    assert "header" in device.wait_for(Problem).text
    data = device.send(Nothing(stage=1))
    device.send_bytes(data.replace(b'"version":1', b'"version":9'))
    problem = device.wait_for(Problem, count=2)
    assert "version: 9 of 'nothing' is unknown" in problem.text
    assert "update the older side" in problem.text
    assert coordinator.kinds().count("nothing.reported") == 1


def test_a_payload_that_never_comes_is_asked_for_later(
    coordinator: MemoryCoordinator, device: ScriptedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetledger.coordinator.program.payload_intake.FETCH_SECONDS", 0.3)
    body, _ = contribution_of(coordinator, *samples(4, 10, 40))
    missing = b"x" * 70_000
    offered = body.model_copy(
        update={
            "offer": offer_of(missing),
            "payload": offer_of(missing).digest,
            "payload_bytes": len(missing),
        }
    )
    device.send(offered)
    assert isinstance(device.wait_for(Receipt).answer, Later)


def test_a_coordinator_that_died_after_the_solve_exports_after_its_restart(
    tmp_path: Path, broker: InMemoryBroker
) -> None:
    write_home(tmp_path, map_width=40, form="exact")
    first = MemoryCoordinator(tmp_path, broker)
    first.begin("dev-1", classes=CLASSES)
    device = ScriptedDevice("dev-1", broker, first)
    device.born()
    body, payload = contribution_of(first, *samples(5, 20, 40))
    device.give(body, payload)
    device.wait_for(Receipt)
    first.until(lambda: "model.solved" in first.kinds())
    first.close()
    device.close()
    second = MemoryCoordinator(tmp_path, broker)
    try:
        second.until(lambda: "model.exported" in second.kinds())
        exported = list(second.engine.ledger.find(ENTRY_KINDS["model.exported"]))
        assert len(exported) == 1
        body_read = read_entry(exported[0].kind, exported[0].body)
        assert isinstance(body_read, ModelExported)
        assert body_read.version == 1
    finally:
        second.close()
