"""What the demo waits for, with hand-made ledger entries."""

import pytest

from coordinator.topics.contributions.entries import ContributionWithdrawn
from coordinator.topics.devices.entries import DeviceAdmitted
from coordinator.topics.models.entries import ModelFailed
from coordinator.topics.stages.entries import StageOpened
from schemas.contributions import PartKey
from schemas.values import ClassName
from simulator.demo.watch import stage_awaited
from simulator.engines.mqtt.questions import birth_awaited
from simulator.errors import EngineError
from tests.simulator.demo.hand_made import HandMadeLedger, names


@pytest.fixture
def ledger() -> HandMadeLedger:
    made = HandMadeLedger()
    made.begin()
    return made


def awaited(ledger: HandMadeLedger, stage: int = 1) -> str:
    answer = stage_awaited(ledger.view, ledger.plan, stage)
    assert answer is not None
    return answer


def test_agents_that_have_not_connected_are_named():
    ledger = HandMadeLedger()
    for device in ledger.plan.devices:
        ledger.add(DeviceAdmitted(device=device))
    assert birth_awaited(ledger.view, ledger.plan.devices) == "the first word of device-1, device-2"
    ledger.bear(ledger.plan.devices[0])
    assert birth_awaited(ledger.view, ledger.plan.devices) == "the first word of device-2"
    ledger.bear(ledger.plan.devices[1])
    assert birth_awaited(ledger.view, ledger.plan.devices) is None


def test_each_step_of_a_stage_is_awaited_in_turn(ledger: HandMadeLedger):
    first, second = ledger.plan.devices
    assert awaited(ledger) == "the opening of stage 1"
    ledger.open(1)
    assert awaited(ledger).startswith("statistics: 0 of ")
    ledger.contribute(1, first)
    assert awaited(ledger).endswith("images in 1 contributions of 1 agents")
    ledger.contribute(1, second)
    assert awaited(ledger) == "the stage's quiet time"
    ledger.close(1)
    assert awaited(ledger) == "a model solved from all contributions"
    ledger.solve(1)
    assert awaited(ledger) == "a model solved from all contributions"
    ledger.desire(1)
    assert awaited(ledger) == "model 1 on device-1, device-2"
    ledger.report(1, second)
    assert awaited(ledger) == "model 1 on device-1"
    ledger.report(1, first)
    assert awaited(ledger) == "accuracy of model 1 from device-1, device-2"
    ledger.evaluate(1, 1, first)
    assert awaited(ledger) == "accuracy of model 1 from device-2"
    ledger.evaluate(1, 1, second)
    assert stage_awaited(ledger.view, ledger.plan, 1) is None


def test_a_late_contribution_makes_the_demo_wait_for_the_newer_model(ledger: HandMadeLedger):
    first, second = ledger.plan.devices
    ledger.open(1)
    ledger.contribute(1, first)
    ledger.close(1)
    ledger.solve(1)
    ledger.desire(1)
    for device in (first, second):
        ledger.report(1, device)
        ledger.evaluate(1, 1, device)
    assert awaited(ledger).startswith("statistics")
    ledger.contribute(1, second)
    assert awaited(ledger) == "a model solved from all contributions"
    ledger.solve(2)
    ledger.desire(2)
    assert awaited(ledger) == "model 2 on device-1, device-2"
    for device in (first, second):
        ledger.report(2, device)
        ledger.evaluate(1, 2, device)
    assert stage_awaited(ledger.view, ledger.plan, 1) is None


def test_a_withdrawn_contribution_is_awaited_again(ledger: HandMadeLedger):
    first, second = ledger.plan.devices
    ledger.open(1)
    index = ledger.contribute(1, first)
    ledger.contribute(1, second)
    key = PartKey(stage=1, part=index)
    ledger.add(ContributionWithdrawn(key=key, revision=1, reason="moved", replaces=index), first)
    assert awaited(ledger).startswith("statistics")


def test_the_second_stage_asks_about_the_classes_of_both(ledger: HandMadeLedger):
    ledger.learn(1)
    ledger.learn(2)
    assert stage_awaited(ledger.view, ledger.plan, 2) is None
    ledger.evaluate(1, 2, ledger.plan.devices[0])  # forgets the classes of stage 2
    assert awaited(ledger, 2) == "accuracy of model 2 from device-1"


def test_images_that_are_counted_twice_are_an_error(ledger: HandMadeLedger):
    ledger.open(1)
    ledger.contribute(1, ledger.plan.devices[0], {ClassName("0"): 1000})
    with pytest.raises(EngineError, match="counted twice"):
        awaited(ledger)


def test_a_class_of_somebody_else_is_an_error(ledger: HandMadeLedger):
    ledger.open(1)
    ledger.contribute(1, ledger.plan.devices[0], {ClassName("cat"): 1})
    with pytest.raises(EngineError, match="class cat"):
        awaited(ledger)


def test_a_stage_with_other_classes_is_an_error(ledger: HandMadeLedger):
    ledger.add(StageOpened(stage=1, class_names=names("7", "8")))
    with pytest.raises(EngineError, match="7, 8"):
        awaited(ledger)


@pytest.mark.parametrize("state", ["failed", "rolled_back"])
def test_a_model_that_fails_on_a_device_is_an_error_with_its_reason(
    ledger: HandMadeLedger, state: str
):
    ledger.learn(1)
    ledger.report(1, ledger.plan.devices[1], state)
    with pytest.raises(EngineError, match=f"device-2: model 1 {state}: because"):
        stage_awaited(ledger.view, ledger.plan, 1)


def test_a_model_that_cannot_be_solved_is_an_error_with_its_reason(ledger: HandMadeLedger):
    ledger.open(1)
    index = ledger.contribute(1, ledger.plan.devices[0])
    ledger.add(ModelFailed(inputs=(index,), class_names=names("0"), reason="singular"))
    with pytest.raises(EngineError, match="singular"):
        awaited(ledger)


def test_a_failure_before_further_contributions_is_waited_out(ledger: HandMadeLedger):
    ledger.open(1)
    index = ledger.contribute(1, ledger.plan.devices[0])
    ledger.add(ModelFailed(inputs=(index,), class_names=names("0"), reason="singular"))
    ledger.contribute(1, ledger.plan.devices[1])
    assert awaited(ledger) == "the stage's quiet time"
