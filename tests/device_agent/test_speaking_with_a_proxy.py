"""The whole agent over the in-memory broker, in a fleet whose method has a proxy."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from device_agent.core.requests import Train
from device_agent.report import status_lines
from device_agent.status import Status, read_status
from device_agent.training import TrainingDone
from methods.training_half import LocalData, Observed, Order
from schemas.contributions import Contribution, Nothing
from schemas.envelope import COORDINATOR
from schemas.presence import Birth
from schemas.proxy import PrototypeGradients
from schemas.reports import Problem
from schemas.values import DeviceId
from tests.device_agent import making, models, watching_method
from tests.device_agent.scripted import (
    FAST,
    RunningAgent,
    ScriptedCoordinator,
    eventually,
    greet,
)
from tests.device_agent.scripted_proxy import Listener, ScriptedProxy, kind_of
from transport.errors import BlockError
from transport.memory import InMemoryBroker

WEIGHTS = b"the fleet's model"
OPEN = replace(FAST, publish_gradients=True)
SMALL = b"gradients of a perturbed prototype"
LARGE = np.random.default_rng(5).bytes(200_000)


@pytest.fixture
def proxy(broker: InMemoryBroker) -> Iterator[ScriptedProxy]:
    scripted = ScriptedProxy(broker)
    yield scripted
    scripted.stop()


@pytest.fixture
def method(monkeypatch: pytest.MonkeyPatch) -> watching_method.WatchingHalf:
    """The small method, carried out without torch, which it does not need."""
    half = watching_method.install(monkeypatch, SMALL)

    def train(request: Train, order: Order, data: LocalData, memory: bytes | None) -> TrainingDone:
        begun = half.begin(None, order, data, memory, None)
        return TrainingDone(half.finish(None, begun, None) if begun is not None else None, 0.1)

    def look(
        request: Train, order: Order, data: LocalData, memory: bytes | None
    ) -> Observed | None:
        return half.observe(None, order, data, memory, None)

    monkeypatch.setattr("device_agent.bench.train", train)
    monkeypatch.setattr("device_agent.bench.look", look)
    return half


def ask(coordinator: ScriptedCoordinator, number: int, action: int = 0, **order: object) -> None:
    """Ask the device for a round."""
    coordinator.exchange.serve(WEIGHTS)
    asked = making.round_order(number, "dark", "light", weights=models.offer_of(WEIGHTS), **order)
    assignment = making.training(asked, action or number).model_copy(
        update={"method": watching_method.NAME, "class_names": models.CLASSES}
    )
    coordinator.send("assignment", assignment, retain=True)


def outbox(running: RunningAgent) -> set[str]:
    return {key.about for key in running.agent._parts.state.records.outbox}


def status(running: RunningAgent) -> Status:
    running.agent._status_due = 0.0
    found = read_status(running.home.status_file)
    assert found is not None
    return found


def test_gradients_go_to_the_proxy_and_the_answer_to_the_coordinator(
    coordinator: ScriptedCoordinator,
    proxy: ScriptedProxy,
    method: watching_method.WatchingHalf,
    broker: InMemoryBroker,
    home: Path,
) -> None:
    listener = Listener(broker)
    running = RunningAgent(broker, home, OPEN)
    greet(coordinator)
    ask(coordinator, 4)
    answer, envelope = coordinator.wait_for(Contribution)
    assert answer.round is not None
    assert answer.round.observation is not None
    assert (answer.round.observation.images, answer.round.observation.transition) == (5, True)
    coordinator.accept(envelope)
    body, sent = proxy.wait_for_gradients()
    assert (body.key, body.method) == (making.part_key(1, 4), watching_method.NAME)
    assert sent.attachment == SMALL
    again, _ = proxy.wait_for_gradients()
    assert again == body, "it is sent until the receipt"
    proxy.accept(body.key)
    eventually(lambda: not outbox(running))
    running.stop()
    assert "bench-3.proxy" not in broker._sessions, "no third connection for what is attached"
    heard = listener.everything()
    assert Contribution.kind in {kind_of(message) for message in heard}
    assert PrototypeGradients.kind not in {kind_of(message) for message in heard}
    assert not any(SMALL in message.payload for message in heard)
    assert not any(body.payload.encode() in message.payload for message in heard)


def test_large_gradients_are_fetched_by_the_proxy_on_its_own_branch(
    coordinator: ScriptedCoordinator,
    proxy: ScriptedProxy,
    method: watching_method.WatchingHalf,
    broker: InMemoryBroker,
    home: Path,
    tmp_path: Path,
) -> None:
    method.gradients = LARGE
    listener = Listener(broker)
    running = RunningAgent(broker, home, OPEN)
    greet(coordinator)
    ask(coordinator, 1)
    body, envelope = proxy.wait_for_gradients()
    assert envelope.attachment == b""
    assert proxy.fetch(body, tmp_path / "fetched") == LARGE
    traffic = running.agent.traffic()
    assert traffic.bytes_up > len(LARGE)
    proxy.accept(body.key)
    _, answer = coordinator.wait_for(Contribution)
    coordinator.accept(answer)
    eventually(lambda: body.payload not in running.agent._parts.blobs.digests())
    running.stop()
    heard = listener.everything()
    assert PrototypeGradients.kind not in {kind_of(message) for message in heard}
    pieces = [LARGE[at : at + 100] for at in range(0, len(LARGE) - 100, 5_000)]
    assert not any(piece in message.payload for piece in pieces for message in heard)


def test_the_coordinator_cannot_fetch_what_is_offered_to_the_proxy(
    coordinator: ScriptedCoordinator,
    proxy: ScriptedProxy,
    method: watching_method.WatchingHalf,
    broker: InMemoryBroker,
    home: Path,
    tmp_path: Path,
) -> None:
    method.gradients = LARGE
    running = RunningAgent(broker, home, OPEN)
    greet(coordinator)
    ask(coordinator, 1)
    body, _ = proxy.wait_for_gradients()
    assert body.offer is not None
    asked = coordinator.exchange.fetch(
        body.offer, tmp_path / "stolen", running.home.settings.device, seconds=1.0
    )
    with pytest.raises(BlockError):
        asked.result()
    running.stop()


def test_a_restart_with_a_full_outbox_sends_everything_again(
    coordinator: ScriptedCoordinator,
    proxy: ScriptedProxy,
    method: watching_method.WatchingHalf,
    broker: InMemoryBroker,
    home: Path,
    tmp_path: Path,
) -> None:
    running = RunningAgent(broker, home, OPEN)
    greet(coordinator)
    for number, gradients in ((1, SMALL), (2, LARGE)):
        method.gradients = gradients
        ask(coordinator, number)
        coordinator.wait_for(Contribution, lambda body, n=number: body.key.part == n)
    running.stop()
    method.gradients = None
    coordinator.arrived.clear()
    proxy.arrived.clear()
    running = RunningAgent(broker, home, OPEN)
    _, envelope = coordinator.wait_for(Birth)
    coordinator.welcome(envelope.header.boot)
    found: dict[int, PrototypeGradients] = {}
    while set(found) != {1, 2}:
        body, _ = proxy.wait_for_gradients()
        found[body.key.part] = body
    assert proxy.fetch(found[2], tmp_path / "fetched") == LARGE
    for body in found.values():
        proxy.accept(body.key)
    eventually(lambda: "gradients" not in outbox(running))
    running.stop()


def test_only_the_proxy_answers_for_gradients_and_only_for_them(
    coordinator: ScriptedCoordinator,
    proxy: ScriptedProxy,
    method: watching_method.WatchingHalf,
    broker: InMemoryBroker,
    home: Path,
) -> None:
    running = RunningAgent(broker, home, OPEN)
    greet(coordinator)
    ask(coordinator, 1)
    body, _ = proxy.wait_for_gradients()
    coordinator.wait_for(Contribution)
    coordinator.send("rcpt", making.accepted("gradients", body.key))
    proxy.say(making.accepted("contribution", body.key))
    proxy.say(making.accepted("gradients", body.key), sender=DeviceId(COORDINATOR))
    eventually(lambda: len(running.agent._problems) == 3)
    problems = sorted(running.agent._problems)
    assert problems[0].startswith("about: a receipt for contribution by the proxy, to whom none")
    assert problems[1].startswith("about: a receipt for gradients by the coordinator, to whom")
    assert "where only the proxy may" in problems[2]
    assert outbox(running) == {"contribution", "gradients"}
    proxy.accept(body.key)
    eventually(lambda: outbox(running) == {"contribution"})
    running.stop()


def test_refused_gradients_are_shown_to_the_owner(
    coordinator: ScriptedCoordinator,
    proxy: ScriptedProxy,
    method: watching_method.WatchingHalf,
    broker: InMemoryBroker,
    home: Path,
) -> None:
    running = RunningAgent(broker, home, OPEN)
    greet(coordinator)
    ask(coordinator, 1)
    body, _ = proxy.wait_for_gradients()
    eventually(lambda: status(running).gradients == 1)
    lines = list(status_lines(status(running), 0.0, running=True))
    assert "proxy        1 sets of gradients without a receipt" in lines
    proxy.say(making.refused("gradients", body.key, reason="traces: 2, expected 1"))
    eventually(lambda: status(running).refusals == ("traces: 2, expected 1",))
    assert status(running).gradients == 0
    running.stop()


def test_a_device_whose_owner_forbids_them_takes_part_without(
    coordinator: ScriptedCoordinator,
    proxy: ScriptedProxy,
    method: watching_method.WatchingHalf,
    broker: InMemoryBroker,
    home: Path,
) -> None:
    method.gradients = LARGE
    running = RunningAgent(broker, home, FAST)
    greet(coordinator)
    ask(coordinator, 1)
    _, envelope = coordinator.wait_for(Contribution)
    told, _ = coordinator.wait_for(Problem)
    assert told.text.startswith("policy.publish_gradients = false: this device sends the proxy")
    coordinator.accept(envelope)
    eventually(lambda: not outbox(running))
    assert not proxy._look()
    eventually(lambda: status(running).policy == told.text)
    stored = {path.stat().st_size for path in running.agent._parts.blobs.folder.iterdir()}
    assert len(LARGE) not in stored, "they were never written to the disk"
    running.stop()


def test_a_device_outside_the_cohort_looks_and_says_what_it_saw(
    coordinator: ScriptedCoordinator,
    method: watching_method.WatchingHalf,
    broker: InMemoryBroker,
    home: Path,
) -> None:
    running = RunningAgent(broker, home, OPEN)
    greet(coordinator)
    ask(coordinator, 1, observes=True)
    said, _ = coordinator.wait_for(Nothing)
    assert (said.round, said.reason) == (1, "")
    assert said.observation is not None
    assert said.observation.images == 5
    coordinator.send("rcpt", making.accepted("nothing", making.part_key(1, 1)))
    eventually(lambda: not outbox(running))
    ask(coordinator, 2)
    coordinator.wait_for(Contribution)
    assert method.given == [(1, None), (2, b"rounds 1")]
    eventually(lambda: status(running).look.startswith("round 2: mean entropy 0."))
    assert status(running).look.endswith(" nats of 5 images, taken for a new task")
    running.stop()
