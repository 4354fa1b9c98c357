"""A pooled head from contributions over a broker in memory to head.onnx, replaced and withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.export.head import head_scores
from fleetledger.methods.pooled.aggregate import PooledAggregate
from fleetledger.methods.pooled.coordinator import COORDINATOR
from fleetledger.methods.pooled.device import DEVICE
from fleetledger.schemas.contributions import PartKey, Withdrawal
from fleetledger.schemas.models import DesiredModel, Manifest
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Accepted, Receipt, Refused
from fleetledger.schemas.values import Digest
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import (
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

CLASSES = ("circle", "square")
WIDTH = 16
"""Of the harness's pictures, whose pixels are the features."""
Part = tuple[np.ndarray, list[str]]


def samples(seed: int, count: int = 30) -> Part:
    random = np.random.default_rng(seed)
    features = random.integers(-60, 60, (count, WIDTH)).astype(np.float32)
    features[1::2, : WIDTH // 2] += 60
    return features, [CLASSES[i % 2] for i in range(count)]


def by_hand(publish: str, *parts: Part) -> tuple[Digest, np.ndarray]:
    """Return the digest of some parts together, and their head, from the halves alone."""
    told = COORDINATOR.assign({"publish": publish}, WIDTH)
    total = PooledAggregate.empty(told)
    for features, labels in parts:
        payload = DEVICE.finish(told, features, labels).payload
        total = total + PooledAggregate.of(told, COORDINATOR.check(told, payload), stage=1)
    return total.digest, COORDINATOR.solve(told, total, CLASSES).weights


class Fleet:
    """A coordinator with one scripted device."""

    def __init__(self, home: Path, publish: str) -> None:
        broker = InMemoryBroker()
        write_home(home, "pooled", publish=publish)
        self.coordinator = MemoryCoordinator(home, broker)
        self.coordinator.begin("dev-1", classes=CLASSES)
        self.device = ScriptedDevice("dev-1", broker, self.coordinator)
        self.device.born()
        self.device.wait_for(Welcome)
        self._receipts = 0

    def give(self, given: Part, part: int = 0, revision: int = 0) -> object:
        """Send a part and return the answer."""
        body, payload = contribution_of(
            self.coordinator, *given, part=part, revision=revision, exchange=self.device.exchange
        )
        self.device.give(body.model_copy(update={"payload_kind": "features"}), payload)
        return self.answer()

    def answer(self) -> object:
        """Return the next receipt's answer."""
        self._receipts += 1
        return self.device.wait_for(Receipt, count=self._receipts).answer

    def until_solved(self, aggregate: Digest) -> ModelSolved:
        """Step until a model was made of these data."""

        def found() -> ModelSolved | None:
            for entry in self.coordinator.engine.ledger.find(ENTRY_KINDS["model.solved"]):
                body = ModelSolved.model_validate(entry.body)
                if body.aggregate == aggregate:
                    return body
            return None

        solved = self.coordinator.until(found)
        assert isinstance(solved, ModelSolved)
        return solved

    def close(self) -> None:
        self.device.close()
        self.coordinator.close()


@pytest.fixture(params=["features", "moments"])
def publish(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fleet(tmp_path: Path, publish: str) -> Iterator[Fleet]:
    made = Fleet(tmp_path / "home", publish)
    yield made
    made.close()


def test_what_a_device_publishes_becomes_a_head_that_runs_there(
    fleet: Fleet, publish: str, tmp_path: Path
):
    features, labels = samples(1)
    assert isinstance(fleet.give((features, labels)), Accepted)
    desired = fleet.device.wait_for(DesiredModel)
    manifest = Manifest.read(fleet.device.fetch(desired.manifest, tmp_path))
    files = {offer.digest: fleet.device.fetch(offer, tmp_path) for offer in desired.files}
    scores = head_scores(files[manifest.head.digest], features)
    assert manifest.class_names == CLASSES
    assert manifest.parity.agreement == 1.0
    assert np.allclose(scores, features @ by_hand(publish, (features, labels))[1].T, atol=1e-4)
    assert np.mean([CLASSES[i] for i in scores.argmax(axis=1)] == np.array(labels)) > 0.9
    assert verify(fleet.coordinator.engine.ledger, fleet.coordinator.blobs).ok


def test_a_replaced_and_a_withdrawn_part_leave_the_model_of_what_is_held(
    fleet: Fleet, publish: str
):
    first, second, corrected = samples(1), samples(2), samples(3, 24)
    fleet.give(first, part=0)
    fleet.give(second, part=1)
    both = fleet.until_solved(by_hand(publish, second, first)[0])
    assert both.remarks == ()
    assert isinstance(fleet.give(corrected, part=0, revision=1), Accepted)
    replaced = fleet.until_solved(by_hand(publish, second, corrected)[0])
    gone = Withdrawal(key=PartKey(stage=1, part=1), revision=1, reason="taken out")
    fleet.device.send(gone)
    assert isinstance(fleet.answer(), Accepted)
    left = fleet.until_solved(by_hand(publish, corrected)[0])
    assert len({both.head, replaced.head, left.head}) == 3


def test_a_payload_that_no_samples_give_is_refused_in_words(fleet: Fleet, publish: str):
    features, labels = samples(1)
    body, payload = contribution_of(fleet.coordinator, features, labels)
    fleet.device.give(body.model_copy(update={"samples": {"circle": 30}}), payload)
    answer = fleet.answer()
    assert isinstance(answer, Refused)
    assert "samples" in answer.reason
