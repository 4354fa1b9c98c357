"""A device without a fleet's distribution declines, says what to install, and learns after that."""

from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.core.standing_problems import standing_problems
from fleetledger.device_agent.program.status import describe_policy, describe_training
from fleetledger.methods import requirements
from fleetledger.runtime.registry import Origin
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.requirements import Requirement
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

ORIGIN = Origin("my-lab", "0.1", "ab" * 32)
LAB = Requirement.of("network", "lab_mlp", ORIGIN)
SAYS = (
    "network 'lab_mlp' is of my-lab 0.1, which is not installed here; install it (pip install "
    "my-lab==0.1) and restart the agent"
)


def requiring(assignment: Assignment) -> Assignment:
    return assignment.model_copy(update={"requires": (LAB,)})


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have the fleet's distribution."""
    monkeypatch.setattr(requirements, "_origin", lambda _needed: ORIGIN)


def counting(folder: Path) -> Driven:
    """A device that is asked for statistics with a distribution that it lacks."""
    agent = Driven(folder / "agent.db")
    agent.connect()
    agent.put(one="cat/one")
    given = requiring(making.assignment("cat"))
    agent.give(inputs.Assigned(making.COORDINATOR, given))
    agent.give(inputs.FetchFinished(making.digest("frozen")))
    agent.scan()
    return agent


def test_a_stage_is_declined_once_and_the_coordinator_is_told(tmp_path: Path) -> None:
    agent = counting(tmp_path)
    said = {type(body): body for body in agent.sent(Nothing, Problem)}
    assert said == {
        Nothing: Nothing(stage=1, reason=SAYS),
        Problem: Problem(about="distribution", text=SAYS),
    }
    assert agent.take(requests.ComputePart) == []
    assert [one.text for one in standing_problems(agent.state) if one.hinders] == [SAYS]
    assert describe_policy(agent.state) == SAYS
    agent.wait(1000)
    assert agent.sent(Problem) == []


def test_after_a_restart_with_it_the_same_stage_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = counting(tmp_path)
    install(monkeypatch)
    agent.kill()
    agent.connect()
    agent.give(inputs.FetchFinished(making.digest("frozen")))
    agent.scan()
    assert agent.contents_of_job() == {"cat/one": "cat"}
    assert not [one for one in standing_problems(agent.state) if one.about == "distribution"]


def test_a_round_is_declined_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Driven(tmp_path / "agent.db")
    agent.connect()
    ordered = requiring(making.training(making.round_order()))
    agent.give(inputs.Assigned(making.COORDINATOR, ordered))
    (said,) = agent.messages()
    assert isinstance(said, Nothing)
    assert (said.round, said.reason) == (1, SAYS)
    assert agent.take(requests.Train) == []
    assert describe_training(agent.state) == f"never asked: {SAYS}"
    install(monkeypatch)
    assert "never asked: torch" in describe_training(agent.state)
