"""Problems that stand: each is there for as long as it is so, and bad samples are left out."""

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.notices import problem
from fleetledger.device_agent.core.requests import ComputePart
from fleetledger.device_agent.core.standing_problems import standing_problems
from fleetledger.schemas.reports import Problem
from tests.device_agent import making
from tests.device_agent.core.driving import Driven


def hindering(agent: Driven) -> list[str]:
    return [item.about for item in standing_problems(agent.state) if item.hinders]


def texts(agent: Driven) -> list[str]:
    return [item.text for item in standing_problems(agent.state)]


def test_what_a_scan_found_stands_until_a_scan_does_not_find_it(ready: Driven) -> None:
    torn = problem("sample", "cat/1.png: cannot be read: a named pipe")
    ready.scan(problems=(torn,))
    assert texts(ready) == [torn.text]
    ready.scan()
    assert texts(ready) == []
    ready.scan(problems=(torn,))
    told = [item for item in ready.sent(Problem) if item.text == torn.text]
    assert len(told) == 2, "what comes back is told again"


def test_a_part_that_cannot_be_computed_hinders_until_one_can(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.give(inputs.PartFailed(ready.job(), "memory: 1 image does not fit"))
    assert hindering(ready) == ["work"]
    ready.wait(60)
    ready.compute()
    assert hindering(ready) == []


def test_a_coordinator_that_is_away_hinders_and_one_that_welcomes_does_not(agent: Driven) -> None:
    agent.give(inputs.AgentConnected())
    (away,) = (item for item in standing_problems(agent.state) if item.hinders)
    assert (away.about, away.patience) == ("coordinator", 60.0)
    agent.connect()
    assert hindering(agent) == []


def test_a_message_that_is_sent_again_without_a_receipt_hinders_unless_blocks_cross(
    ready: Driven,
) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute()
    assert hindering(ready) == []
    for _ in range(3):
        ready.wait(60)
    assert "outbox" in hindering(ready)
    moving = [item.about for item in standing_problems(ready.state, moving=True) if item.hinders]
    assert "outbox" not in moving


def test_a_sample_without_finite_features_is_left_out_told_by_path_and_not_tried_again(
    ready: Driven,
) -> None:
    ready.put(a="cat/1", black="cat/0")
    ready.scan()
    frozen = ready.state.records.assignment.frozen.digest
    black = making.digest("0")
    ready.give(inputs.SamplesUnanswered(frozen, (black,)))
    assert texts(ready) == [
        "cat/black: the model gives NaN or infinity for it; left out until it or the model changes"
    ]
    ready.give(inputs.PartEmpty(ready.job()))
    ready.take(ComputePart)
    ready.scan()
    assert set(ready.contents_of_job()) == {"cat/a"}


def test_another_frozen_model_has_the_sample_tried_again(ready: Driven) -> None:
    ready.put(black="cat/0")
    ready.scan()
    frozen = ready.state.records.assignment.frozen.digest
    ready.give(inputs.SamplesUnanswered(frozen, (making.digest("0"),)))
    ready.give(inputs.PartEmpty(ready.job()))
    assert ready.job() is None
    ready.assign("cat", "dog", action=9, frozen="other")
    assert set(ready.contents_of_job()) == {"cat/black"}
    assert texts(ready) == []


def test_a_folder_that_takes_long_to_look_at_is_looked_at_less_often(ready: Driven) -> None:
    due = []
    for seconds in (0.01, 3.4, 1000.0):
        ready.scan(seconds=seconds)
        due.append(round(ready.state.scanning.due - ready.now))
    assert due == [round(ready.rules.scan_seconds), 68, 300]
