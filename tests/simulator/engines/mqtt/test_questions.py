"""What the engine waits for, with hand-made entries and words of agents."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from fleetledger.coordinator.topics.classes.entries import ClassNamed
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.stages.entries import StageOpened
from fleetledger.device_agent.home.status_file import Status
from fleetledger.schemas.contributions import Part, PartKey
from fleetledger.schemas.values import ClassName, DeviceId, Digest, FleetId
from fleetledger.simulator.engines.mqtt.stage_questions import (
    StageGoal,
    StageQuestions,
    evaluation_awaited,
)
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from tests.simulator.engines.hand_made import LINEAGE, HandMadeLedger, questions_of
from tests.simulator.engines.mqtt.small import Quiet

FIRST, SECOND = DeviceId("device-1"), DeviceId("device-2")
NAMES = tuple(ClassName(name) for name in ("ant", "bee", "cat"))


def stage_of(number: int, classes: tuple[int, ...], **indices: list[int]) -> StagePlan:
    devices = {
        DeviceId(name.replace("_", "-")): DeviceStage(np.array(which, np.int64))
        for name, which in indices.items()
    }
    return StagePlan(number, classes, devices)


PLAN = FleetPlan(
    seed=1,
    class_names=NAMES,
    stages=(
        stage_of(1, (0,), device_1=[0, 1], device_2=[2]),
        stage_of(2, (1, 2), device_1=[3, 4, 6], device_2=[]),
    ),
)


@dataclass
class SayingAnything:
    """Stands for the programs: what each agent says of itself."""

    said: dict[DeviceId, Status | None] = field(default_factory=dict)

    def status(self, device: DeviceId) -> Status | None:
        return self.said.get(device)

    def say(self, device: DeviceId, **values: object) -> None:
        self.said[device] = says(device, **values)


def says(device: DeviceId, **values: object) -> Status:
    usual = {
        "device": device,
        "fleet": FleetId("simulated"),
        "process": 1,
        "written_ns": 1,
        "connected": True,
        "coordinator": True,
        "stage": None,
        "provider": None,
        "wire": "1",
        "active_version": None,
        "active_manifest": None,
        "model_state": "",
        "parts": {},
        "counted_images": 0,
        "images_on_disk": 0,
        "settled": False,
        "outbox": 0,
        "dead_letters": 0,
        "refusals": (),
        "waiting_classes": {},
        "problems": (),
        "resident_mib": 1.0,
        "bytes_up": 0,
        "bytes_down": 0,
    }
    return Status.model_validate(usual | values)


@pytest.fixture
def ledger() -> HandMadeLedger:
    made = HandMadeLedger()
    made.begin()
    return made


@pytest.fixture
def agents() -> SayingAnything:
    return SayingAnything()


def questions(stage: StagePlan, agents: SayingAnything, *there: DeviceId) -> StageQuestions:
    goal = StageGoal(PLAN, stage, frozenset(PLAN.names(stage.classes)), there)
    return StageQuestions(goal, agents, Quiet())


def open_stage(ledger: HandMadeLedger, number: int, *names: ClassName) -> None:
    for name in names:
        index = ledger.state.classes.next_index
        ledger.add(ClassNamed(name=name, index=index))
    ledger.add(StageOpened(stage=number, class_names=names))


def contribute(
    ledger: HandMadeLedger, stage: int, device: DeviceId, samples: dict[ClassName, int]
) -> int:
    return ledger.add(
        ContributionAccepted(
            part=Part(
                key=PartKey(stage=stage, part=len(ledger.recorded)),
                revision=0,
                payload_kind="statistics",
                payload=Digest.of(str(len(ledger.recorded)).encode()),
                payload_bytes=1000,
                samples=samples,
                method="stsa",
                lineage=LINEAGE,
            ),
        ),
        device,
    )


def test_before_the_first_stage_agents_have_to_greet_and_no_more(ledger, agents):
    asked = questions(PLAN.stages[0], agents, FIRST, SECOND)
    agents.say(FIRST)
    agents.say(SECOND, coordinator=False)
    assert asked.rest_awaited(ledger.state, (FIRST, SECOND)) == "device-2 to be ready"
    agents.say(SECOND)
    assert asked.rest_awaited(ledger.state, (FIRST, SECOND)) is None


def test_each_step_of_a_stage_is_awaited_in_turn(ledger, agents):
    asked, state = questions(PLAN.stages[0], agents, FIRST, SECOND), ledger.state
    assert asked.opening_awaited(state) == "the opening of a stage with ant"
    open_stage(ledger, 1, NAMES[0])
    assert asked.opening_awaited(state) is None
    agents.say(FIRST, stage=1, settled=True)
    agents.say(SECOND, stage=1)
    contribute(ledger, 1, FIRST, {NAMES[0]: 2})
    assert asked.stage_awaited(state) == "the statistics of device-2"
    contribute(ledger, 1, SECOND, {NAMES[0]: 1})
    agents.say(SECOND, stage=1, settled=True)
    assert asked.learning_awaited(state) is None
    assert asked.stage_awaited(state) == "the end of the stage"
    ledger.close(1)
    assert asked.stage_awaited(state) == "a model solved from all contributions"
    ledger.solve(1)
    ledger.desire(1)
    assert asked.stage_awaited(state) == "model 1 on device-1, device-2"
    ledger.report(1, FIRST)
    ledger.report(1, SECOND)
    assert asked.stage_awaited(state) == "the status of device-1, device-2"
    for device in (FIRST, SECOND):
        agents.say(device, stage=1, settled=True, active_version=1)
    assert asked.stage_awaited(state) is None


def test_what_an_agent_said_of_an_earlier_stage_does_not_count(ledger, agents):
    open_stage(ledger, 1, NAMES[0])
    agents.say(FIRST, stage=1, settled=True)
    assert questions(PLAN.stages[0], agents, FIRST).learning_awaited(ledger.state) is None
    open_stage(ledger, 2, NAMES[1], NAMES[2])
    asked = questions(PLAN.stages[1], agents, FIRST)
    assert asked.learning_awaited(ledger.state) == "the statistics of device-1"


def test_a_contribution_after_the_model_makes_a_newer_one_awaited(ledger, agents):
    open_stage(ledger, 1, NAMES[0])
    contribute(ledger, 1, FIRST, {NAMES[0]: 2})
    ledger.close(1)
    ledger.solve(1)
    ledger.desire(1)
    ledger.report(1, FIRST)
    agents.say(FIRST, stage=1, settled=True, active_version=1)
    asked = questions(PLAN.stages[0], agents, FIRST)
    assert asked.stage_awaited(ledger.state) is None
    contribute(ledger, 1, FIRST, {NAMES[0]: 1})
    assert asked.stage_awaited(ledger.state) == "a model solved from all contributions"


def test_a_stage_of_which_nobody_has_images_is_an_error(ledger, agents):
    open_stage(ledger, 1, NAMES[0])
    agents.say(FIRST, stage=1, settled=True)
    ledger.close(1)
    with pytest.raises(EngineError, match="stage 1: no device that is there has images"):
        questions(PLAN.stages[0], agents, FIRST).stage_awaited(ledger.state)


def test_the_accuracy_of_the_model_that_runs_is_awaited_from_every_device(ledger):
    asked = dict.fromkeys((FIRST, SECOND), sum(questions_of(1).values()))
    ledger.open(1)
    ledger.solve(1)
    ledger.desire(1)
    assert evaluation_awaited(ledger.state, asked) == "accuracy of model 1 from device-1, device-2"
    ledger.evaluate(1, 1, FIRST, wrong=3)
    assert evaluation_awaited(ledger.state, asked) == "accuracy of model 1 from device-2"
    ledger.evaluate(1, 1, SECOND)
    assert evaluation_awaited(ledger.state, asked) is None


def test_an_accuracy_on_fewer_classes_than_were_seen_is_not_enough(ledger):
    ledger.learn(1)
    ledger.learn(2)
    asked = {FIRST: sum(questions_of(2).values())}
    assert evaluation_awaited(ledger.state, asked) is None
    ledger.evaluate(1, 2, FIRST)  # without the classes of stage 2
    assert evaluation_awaited(ledger.state, asked) == "accuracy of model 2 from device-1"
