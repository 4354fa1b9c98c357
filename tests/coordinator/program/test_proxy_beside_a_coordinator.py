"""A scripted proxy beside a whole coordinator: real ledger, blocks and averages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import ModelRules, RoundRules, Rules, StageRules
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen
from fleetledger.coordinator.topics.proxy.state import OldModel
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.schemas.envelope import PROXY
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.proxy import Scored, ScoredModel, ScoringOrder
from fleetledger.schemas.receipts import Accepted, Receipt, Refused
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.interface import Connected
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.round_bench import ABLE
from tests.coordinator.round_answers import answer, asked, weights
from tests.coordinator.shell_harness import TOPICS, MemoryCoordinator, ScriptedDevice, write_home

RULES = Rules(
    stages=StageRules(quiet_seconds=0.2),
    models=ModelRules(solve_every_seconds=0.2),
    rounds=RoundRules(per_stage=3, gather_seconds=0),
)


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


@pytest.fixture
def coordinator(tmp_path: Path, broker: InMemoryBroker) -> Iterator[MemoryCoordinator]:
    write_home(tmp_path, "rounds", network="mlp")
    made = MemoryCoordinator(tmp_path, broker, RULES)
    yield made
    made.close()


def begin(coordinator: MemoryCoordinator, broker: InMemoryBroker) -> ScriptedDevice:
    """Let one device be there, and open a stage of a network with a proxy."""
    coordinator.command(AdmitDevice(device=DeviceId("dev-1")))
    device = ScriptedDevice("dev-1", broker, coordinator)
    device.born(ABLE)
    device.wait_for(Welcome)
    network = prepare_network(coordinator.home, coordinator.home / "pixels.json")
    coordinator.command(ImportNetwork(network=network.model_copy(update={"proxy": True})))
    coordinator.open("circle", "square")
    return device


def train(device: ScriptedDevice, number: int, folder: Path) -> None:
    """Answer a round with the weights that came."""
    assignment = asked(device, number)
    sent = weights(device, assignment, folder)
    payload = encode_tensors(WeightGrid.around(sent).encode(sent))
    device.send(answer(assignment, payload), payload)


def scored(order: ScoringOrder, found: float) -> Scored:
    newest = ScoredModel(round=order.round, weights=order.weights.digest, score=found)
    return Scored(
        action=order.action,
        newest=newest,
        scored=(newest,),
        current=order.weights.digest,
        gradients=1,
        images=1,
        seconds=0.5,
    )


def told(coordinator: MemoryCoordinator, kind: type[EntryBody]) -> list[EntryBody]:
    ledger = coordinator.engine.ledger
    return [read_entry(e.kind, e.body) for e in ledger.find(kind)]


def test_the_proxy_fetches_what_it_scores_and_the_next_round_carries_its_choice(
    coordinator: MemoryCoordinator, broker: InMemoryBroker, tmp_path: Path
) -> None:
    device = begin(coordinator, broker)
    proxy = ScriptedDevice("proxy", broker, coordinator)
    proxy.born(ABLE)
    train(device, 1, tmp_path)
    order = proxy.wait_for(ScoringOrder)
    assert Digest.of(proxy.fetch(order.weights, tmp_path)) == order.weights.digest
    assert coordinator.kinds().count(DeviceBorn.kind) == 1, "that of the device"
    assert len(told(coordinator, RoundOpened)) == 1
    proxy.send(scored(order, 0.5))
    receipt = proxy.wait_for(Receipt)
    assert receipt.about == "scored"
    assert isinstance(receipt.answer, Accepted)
    following = asked(device, 2)
    assert following.round is not None
    assert following.round.extras == {"new-model": order.weights}
    old = device.fetch(following.round.extras["new-model"], tmp_path / "old")
    assert Digest.of(old) == order.weights.digest
    for one in (device, proxy):
        one.close()


def test_with_another_network_the_broker_forgets_the_order(
    coordinator: MemoryCoordinator, broker: InMemoryBroker, tmp_path: Path
) -> None:
    device = begin(coordinator, broker)
    train(device, 1, tmp_path)
    proxy = ScriptedDevice("proxy", broker, coordinator)
    proxy.wait_for(ScoringOrder)
    proxy.close()
    network = prepare_network(coordinator.home, coordinator.home / "pixels.json")
    coordinator.command(ImportNetwork(network=network))
    late = broker.connection("proxy.late")
    late.subscribe(TOPICS.down(PROXY, "assignment"))
    late.start()
    coordinator.until(lambda: isinstance(late.next_event(0), Connected))
    for _ in range(20):
        coordinator.shell.step(0.02)
    assert late.next_event(0) is None
    late.stop()
    device.close()


def test_a_coordinator_that_dies_between_weights_and_score_asks_again(
    tmp_path: Path, broker: InMemoryBroker
) -> None:
    write_home(tmp_path, "rounds", network="mlp")
    first = MemoryCoordinator(tmp_path, broker, RULES)
    device = begin(first, broker)
    proxy = ScriptedDevice("proxy", broker, first)
    train(device, 1, tmp_path)
    order = proxy.wait_for(ScoringOrder)
    device.close()
    first.kill()
    proxy.send(scored(order, 0.75))  # nobody hears it
    proxy.close()

    second = MemoryCoordinator(tmp_path, broker, RULES)
    proxy = ScriptedDevice("proxy", broker, second)
    assert proxy.wait_for(ScoringOrder) == order
    assert Digest.of(proxy.fetch(order.weights, tmp_path / "again")) == order.weights.digest
    for _ in range(2):
        proxy.send(scored(order, 0.75))
    receipt = proxy.wait_for(Receipt, 2)
    assert isinstance(receipt.answer, Accepted)
    proxy.send(scored(order, 0.5))
    assert isinstance(proxy.wait_for(Receipt, 3).answer, Refused)
    (chosen,) = told(second, OldModelChosen)
    assert isinstance(chosen, OldModelChosen)
    assert chosen.current == OldModel(round=1, weights=order.weights)
    (entry,) = second.engine.ledger.find(chosen)
    assert (entry.actor, entry.device) == (PROXY, None)
    proxy.close()
    second.close()
