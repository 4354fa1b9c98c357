"""What one device that lies costs: its false statistics in 1, 5 and 20 parts, beside four others.

Measured with the bound on its share and without; the figures are those of `docs/promises.md`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fleetledger.coordinator.core.rules import BoundRules
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.export.head import head_scores
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Receipt
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import (
    RULES,
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

CLASSES = tuple(f"class-{number}" for number in range(10))
WIDTH, PER_PART = 40, 100
HONEST = ("dev-1", "dev-2", "dev-3", "dev-4")
Samples = tuple[npt.NDArray[np.float32], list[str]]


def samples(seed: int, count: int, lies: int = 0) -> Samples:
    """Noisy features of ten classes; with `lies` each is said to be of another class."""
    centres = np.random.default_rng(7).normal(0, 1, (10, WIDTH))
    generator = np.random.default_rng(seed)
    numbers = np.arange(count) % 10
    features = centres[numbers] + generator.normal(0, 1.1, (count, WIDTH))
    labels = [CLASSES[(number + lies) % 10] for number in numbers]
    return np.clip(64 + 16 * features, 0, 127).round().astype(np.float32), labels


def accuracy(home: Path, parts: int, bounds: BoundRules, *, alike: bool) -> float:
    """Return the accuracy of the model of four honest devices and one that gives so many parts."""
    write_home(home, map_width=WIDTH, form="exact")
    rules = RULES.model_copy(update={"bounds": bounds})
    broker = InMemoryBroker()
    coordinator = MemoryCoordinator(home, broker, rules)
    liar = "dev-5"
    coordinator.begin(*HONEST, liar, classes=CLASSES)
    devices = {n: ScriptedDevice(n, broker, coordinator) for n in (*HONEST, liar)}
    try:
        for device in devices.values():
            device.born()
            device.wait_for(Welcome)
        for part in range(parts):
            seed = 99 if alike else 99 + part
            given = contribution_of(coordinator, *samples(seed, PER_PART, lies=1), part=part)
            devices[liar].give(*given)
            devices[liar].wait_for(Receipt, count=part + 1)
        for number, name in enumerate(HONEST):
            devices[name].give(*contribution_of(coordinator, *samples(number, PER_PART)))
            devices[name].wait_for(Receipt)
        core = coordinator.engine.core

        def settled() -> ModelExported | None:
            newest = core.state.models.newest
            given = core.state.contributions
            idle = newest is not None and given.unchanged_since(newest.solved.ledger_size)
            heard = len({item.device for item in given.counted.values()}) == 5
            closed = core.state.stages.open is None
            return newest.exported if newest is not None and idle and heard and closed else None

        exported = coordinator.until(settled)
        assert isinstance(exported, ModelExported)
        head = next(
            coordinator.blobs.get(offer.digest)
            for offer in exported.files
            if offer.digest != core.state.lineages.current.frozen.digest
        )
        features, labels = samples(1000, 1000)
        scores = head_scores(head, features)
        predicted = [CLASSES[i] for i in scores.argmax(axis=1)]
        return float(np.mean([one == other for one, other in zip(predicted, labels, strict=True)]))
    finally:
        for device in devices.values():
            device.close()
        coordinator.close()


@pytest.mark.parametrize("parts", [1, 5, 20])
def test_the_same_false_payload_costs_no_more_in_many_parts_than_in_one(
    tmp_path: Path, parts: int
) -> None:
    found = accuracy(tmp_path, parts, BoundRules(), alike=True)
    assert found > 0.9


@pytest.mark.parametrize("parts", [1, 5, 20])
def test_false_payloads_that_differ_weigh_no_more_than_all_others_together(
    tmp_path: Path, parts: int
) -> None:
    unbounded = BoundRules(max_share=1.0)
    before = accuracy(tmp_path / "before", parts, unbounded, alike=False)
    after = accuracy(tmp_path / "after", parts, BoundRules(), alike=False)
    assert after >= before
    if parts == 20:
        assert before < 0.1
        assert after > 0.9
