"""The whole agent over the in-memory broker, in a fleet whose method has a proxy."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.cli.report import status_lines
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.home.status_file import Status, read_status
from fleetledger.device_agent.models.training import TrainingDone
from fleetledger.device_agent.settings import AgentTrainingSettings, PolicySettings
from fleetledger.methods.training.exchange import FitInstruction, LocalData, Observed
from fleetledger.schemas.contributions import Contribution, Nothing
from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.errors import BlockError
from fleetledger.transport.memory import InMemoryBroker
from tests.device_agent import making
from tests.device_agent import model_files as models
from tests.device_agent.models import watching_method
from tests.device_agent.scripted import (
    FAST,
    RunningAgent,
    ScriptedCoordinator,
    eventually,
    greet,
)
from tests.device_agent.scripted_proxy import Listener, ScriptedProxy, kind_of

WEIGHTS = b"the fleet's model"
OPEN = replace(FAST, policy=PolicySettings(publish_gradients=True))
SMALL = b"gradients of a perturbed prototype"
LARGE = np.random.default_rng(5).bytes(200_000)


@pytest.fixture
def proxy(broker: InMemoryBroker) -> Iterator[ScriptedProxy]:
    scripted = ScriptedProxy(broker)
    yield scripted
    scripted.stop()


@pytest.fixture
def method(monkeypatch: pytest.MonkeyPatch) -> watching_method.WatchingDevice:
    """The small method, carried out without torch, which it does not need."""
    side = watching_method.install(monkeypatch, SMALL)

    def train(
        request: Train,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        _: AgentTrainingSettings,
    ) -> TrainingDone:
        begun = side.begin(None, instruction, data, memory, None)
        return TrainingDone(side.measured(None, begun) if begun is not None else None, 0.1)

    def look(
        _assignment: object,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        _: object,
    ) -> Observed | None:
        return side.observe(None, instruction, data, memory, None)

    monkeypatch.setattr("fleetledger.device_agent.program.device_jobs.train", train)
    monkeypatch.setattr("fleetledger.device_agent.program.device_jobs.check_novelty", look)
    return side


class Fleet:
    """A coordinator and a proxy that follow a script, and the real agent of one device."""

    def __init__(
        self,
        broker: InMemoryBroker,
        coordinator: ScriptedCoordinator,
        proxy: ScriptedProxy,
        method: watching_method.WatchingDevice,
        home: Path,
    ) -> None:
        self.broker, self.coordinator, self.proxy = broker, coordinator, proxy
        self.method, self._folder = method, home
        self._started: list[RunningAgent] = []

    @property
    def running(self) -> RunningAgent:
        """The agent that was started last."""
        return self._started[-1]

    def start(self, rules: AgentRules = OPEN) -> None:
        """Start the agent."""
        self._started.append(RunningAgent(self.broker, self._folder, rules))

    def stop(self) -> None:
        """Stop the agent, if it was started."""
        for agent in self._started:
            agent.stop()

    def ask(self, number: int, **order: object) -> None:
        """Ask the device for a round."""
        self.coordinator.exchange.serve(WEIGHTS)
        offer = models.offer_of(WEIGHTS)
        asked = making.round_order(number, "dark", "light", weights=offer, **order)
        assignment = making.training(asked, number).model_copy(
            update={"method": watching_method.NAME, "class_names": models.CLASSES}
        )
        self.coordinator.send("assignment", assignment, retain=True)

    def begin(self, number: int = 1, rules: AgentRules = OPEN, **order: object) -> None:
        """Start the agent, greet it, and ask for a round."""
        self.start(rules)
        greet(self.coordinator)
        self.ask(number, **order)

    def outbox(self) -> set[str]:
        return {key.about for key in self.running.agent._parts.state.records.outbox}

    def status(self) -> Status:
        self.running.agent._status_due = 0.0
        found = read_status(self.running.home.status_file)
        assert found is not None
        return found


@pytest.fixture
def fleet(
    broker: InMemoryBroker,
    coordinator: ScriptedCoordinator,
    proxy: ScriptedProxy,
    method: watching_method.WatchingDevice,
    home: Path,
) -> Iterator[Fleet]:
    made = Fleet(broker, coordinator, proxy, method, home)
    yield made
    made.stop()


def test_gradients_go_to_the_proxy_and_the_answer_to_the_coordinator(fleet: Fleet) -> None:
    listener = Listener(fleet.broker)
    fleet.begin(4)
    answer, envelope = fleet.coordinator.wait_for(Contribution)
    assert answer.round is not None
    assert answer.round.observation is not None
    assert (answer.round.observation.images, answer.round.observation.transition) == (5, True)
    fleet.coordinator.accept(envelope)
    body, sent = fleet.proxy.wait_for_gradients()
    assert (body.key, body.method) == (making.part_key(1, 4), watching_method.NAME)
    assert sent.attachment == SMALL
    again, _ = fleet.proxy.wait_for_gradients()
    assert again == body, "it is sent until the receipt"
    fleet.proxy.accept(body.key)
    eventually(lambda: not fleet.outbox())
    fleet.stop()
    assert "bench-3.proxy" not in fleet.broker._sessions, "no third connection for what is attached"
    heard = listener.everything()
    assert Contribution.kind in {kind_of(message) for message in heard}
    assert PrototypeGradients.kind not in {kind_of(message) for message in heard}
    assert not any(SMALL in message.payload for message in heard)
    assert not any(body.payload.encode() in message.payload for message in heard)


def test_large_gradients_are_fetched_by_the_proxy_on_its_own_branch(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.method.gradients = LARGE
    listener = Listener(fleet.broker)
    fleet.begin()
    body, envelope = fleet.proxy.wait_for_gradients()
    assert envelope.attachment == b""
    assert fleet.proxy.fetch(body, tmp_path / "fetched") == LARGE
    traffic = fleet.running.agent.traffic()
    assert traffic.bytes_up > len(LARGE)
    fleet.proxy.accept(body.key)
    _, answer = fleet.coordinator.wait_for(Contribution)
    fleet.coordinator.accept(answer)
    eventually(lambda: body.payload not in fleet.running.agent._parts.blobs.digests())
    fleet.stop()
    heard = listener.everything()
    assert PrototypeGradients.kind not in {kind_of(message) for message in heard}
    pieces = [LARGE[at : at + 100] for at in range(0, len(LARGE) - 100, 5_000)]
    assert not any(piece in message.payload for piece in pieces for message in heard)


def test_the_coordinator_cannot_fetch_what_is_offered_to_the_proxy(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.method.gradients = LARGE
    fleet.begin()
    body, _ = fleet.proxy.wait_for_gradients()
    assert body.offer is not None
    asked = fleet.coordinator.exchange.fetch(
        body.offer, tmp_path / "stolen", fleet.running.home.settings.device, seconds=1.0
    )
    with pytest.raises(BlockError):
        asked.result()


def test_a_restart_with_a_full_outbox_sends_everything_again(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start()
    greet(fleet.coordinator)
    for number, gradients in ((1, SMALL), (2, LARGE)):
        fleet.method.gradients = gradients
        fleet.ask(number)
        fleet.coordinator.wait_for(Contribution, lambda body, n=number: body.key.part == n)
    fleet.stop()
    fleet.method.gradients = None
    fleet.coordinator.arrived.clear()
    fleet.proxy.forget()
    fleet.start()
    _, envelope = fleet.coordinator.wait_for(Birth)
    fleet.coordinator.welcome(envelope.header.boot)
    found: dict[int, PrototypeGradients] = {}
    while set(found) != {1, 2}:
        body, sealed = fleet.proxy.wait_for_gradients()
        if sealed.header.boot == envelope.header.boot:  # a word of the run before may come late
            found[body.key.part] = body
    assert fleet.proxy.fetch(found[2], tmp_path / "fetched") == LARGE
    for body in found.values():
        fleet.proxy.accept(body.key)
    eventually(lambda: "gradients" not in fleet.outbox())


def test_only_the_proxy_answers_for_gradients_and_only_for_them(fleet: Fleet) -> None:
    fleet.begin()
    body, _ = fleet.proxy.wait_for_gradients()
    fleet.coordinator.wait_for(Contribution)
    fleet.coordinator.send("rcpt", making.accepted("gradients", body.key))
    fleet.proxy.say(making.accepted("contribution", body.key))
    fleet.proxy.say(making.accepted("gradients", body.key), sender=DeviceId(COORDINATOR))
    book = fleet.running.agent._watch.book
    eventually(lambda: len(book.past) == 3)
    problems = sorted(problem.text for problem in book.past)
    assert problems[0].startswith("about: a receipt for contribution by the proxy, to whom none")
    assert problems[1].startswith("about: a receipt for gradients by the coordinator, to whom")
    assert "where only the proxy may" in problems[2]
    assert fleet.outbox() == {"contribution", "gradients"}
    fleet.proxy.accept(body.key)
    eventually(lambda: fleet.outbox() == {"contribution"})


def test_refused_gradients_are_shown_to_the_owner(fleet: Fleet) -> None:
    fleet.begin()
    body, _ = fleet.proxy.wait_for_gradients()
    eventually(lambda: fleet.status().gradients == 1)
    lines = list(status_lines(fleet.status(), 0.0, running=True))
    assert "proxy        1 set of gradients without a receipt" in lines
    fleet.proxy.say(making.refused("gradients", body.key, reason="traces: 2, expected 1"))
    eventually(lambda: fleet.status().refusals == ("traces: 2, expected 1",))
    assert fleet.status().gradients == 0


def test_a_device_whose_owner_forbids_them_takes_part_without(fleet: Fleet) -> None:
    fleet.method.gradients = LARGE
    fleet.begin(rules=FAST)
    _, envelope = fleet.coordinator.wait_for(Contribution)
    told, _ = fleet.coordinator.wait_for(Problem)
    assert told.text.startswith("policy.publish_gradients = false: this device sends the proxy")
    fleet.coordinator.accept(envelope)
    eventually(lambda: not fleet.outbox())
    assert not fleet.proxy._look()
    eventually(lambda: fleet.status().policy == told.text)
    stored = {path.stat().st_size for path in fleet.running.agent._parts.blobs.folder.iterdir()}
    assert len(LARGE) not in stored, "they were never written to the disk"


def test_a_device_outside_the_cohort_looks_and_says_what_it_saw(fleet: Fleet) -> None:
    fleet.begin(observes=True)
    said, _ = fleet.coordinator.wait_for(Nothing)
    assert (said.round, said.reason) == (1, "")
    assert said.observation is not None
    assert said.observation.images == 5
    fleet.coordinator.send("rcpt", making.accepted("nothing", making.part_key(1, 1)))
    eventually(lambda: not fleet.outbox())
    fleet.ask(2)
    fleet.coordinator.wait_for(Contribution)
    assert fleet.method.given == [(1, None), (2, b"rounds 1")]
    eventually(lambda: fleet.status().novelty_check.startswith("round 2: mean entropy 0."))
    assert fleet.status().novelty_check.endswith(" nats of 5 images, taken for a new task")
