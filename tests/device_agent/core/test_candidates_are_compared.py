"""A candidate is kept, compared once and told once, whatever comes in between."""

from pathlib import Path
from typing import Any

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.outbox import messages_due
from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.core.requests import (
    CleanFiles,
    Compare,
    FetchFile,
    ForgetCandidate,
    InstallModel,
    SendOutboxMessage,
    ShadowModel,
)
from fleetledger.device_agent.program.status import describe_candidate, is_settled
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.rollouts import ModelComparison
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

ONE, TWO, THREE = (ActiveModel(n, making.digest(f"manifest {n}")) for n in (1, 2, 3))
ROLLOUT: dict[str, Any] = {"rollout": 4, "group": 1}


@pytest.fixture
def agent(tmp_path: Path) -> Driven:
    """A device that runs model 1, in a fleet that learns nothing."""
    driven = Driven(tmp_path / "agent.db")
    driven.connect()
    run(driven, 5, 1)
    driven.requests.clear()
    return driven


def want(agent: Driven, action: int, version: int, **details: Any) -> None:
    desired = making.desired(action, version, **details)
    agent.give(inputs.DesiredArrived(making.COORDINATOR, desired))
    agent.fetch_all()


def run(agent: Driven, action: int, version: int, former: Any = None, **details: Any) -> None:
    want(agent, action, version, **details)
    (request,) = agent.take(InstallModel)
    active = ActiveModel(version, request.desired.manifest.digest)
    previous = former.version if former is not None else None
    agent.give(inputs.ModelInstalled(action, active, previous, former=former))


def shadow(agent: Driven, action: int, version: int) -> None:
    want(agent, action, version, mode="shadow", **ROLLOUT)
    (request,) = agent.take(ShadowModel)
    candidate = ActiveModel(version, request.desired.manifest.digest)
    agent.give(inputs.CandidateKept(action, candidate))


def finish(agent: Driven) -> None:
    """End the comparison that is under way."""
    (request,) = agent.take(Compare)
    pending = request.pending
    body = ModelComparison(
        number=0,
        rollout=pending.rollout,
        group=pending.group,
        mode=pending.mode,
        candidate=pending.candidate.manifest,
        candidate_version=pending.candidate.version,
        active=pending.beside.manifest,
        active_version=pending.beside.version,
    )
    agent.give(inputs.Compared(pending, body))


def told(agent: Driven) -> list[ModelComparison]:
    return [body for body in agent.sent(ModelComparison) if isinstance(body, ModelComparison)]


def statuses(agent: Driven) -> list[str]:
    return [body.state for body in agent.sent(ModelStatus) if isinstance(body, ModelStatus)]


def test_a_candidate_is_reported_compared_and_told_until_its_receipt(agent: Driven) -> None:
    shadow(agent, 6, 2)
    assert agent.state.models.active == ONE
    assert agent.state.models.candidate == TWO
    assert describe_candidate(agent.state) == (
        "version 2 is kept beside the model that runs; version 2 is being compared with version 1, "
        "for group 1 of rollout 4"
    )
    (status,) = agent.sent(ModelStatus)
    assert (status.state, status.version, status.previous_version) == ("shadowing", 2, 1)
    finish(agent)
    (body,) = told(agent)
    assert (body.candidate_version, body.active_version, body.mode) == (2, 1, "shadow")
    agent.wait(10)
    assert told(agent) == [body]
    agent.receipt(making.accepted("comparison", body.key))
    agent.wait(100)
    assert told(agent) == []
    assert not messages_due(agent.state, agent.now + 1000)


def test_a_run_of_the_same_manifest_fetches_and_compares_nothing(agent: Driven) -> None:
    shadow(agent, 6, 2)
    finish(agent)
    agent.requests.clear()
    agent.give(
        inputs.DesiredArrived(making.COORDINATOR, making.desired(7, 2, mode="run", **ROLLOUT))
    )
    assert agent.take(FetchFile) == []
    assert len(agent.take(InstallModel)) == 1
    agent.give(inputs.ModelInstalled(7, TWO, 1, former=ONE))
    assert statuses(agent) == ["active"]
    assert agent.take(Compare) == []
    assert agent.state.models.candidate is None
    assert agent.take(ForgetCandidate) == [], "switching has emptied the slot"


def test_without_a_shadow_the_new_model_is_compared_with_the_former_one(agent: Driven) -> None:
    run(agent, 6, 2, former=ONE, **ROLLOUT)
    finish(agent)
    (body,) = told(agent)
    assert (body.candidate_version, body.active_version, body.mode) == (2, 1, "run")
    run(agent, 7, 2, former=ONE, rollout=4, group=2)
    assert agent.take(Compare) == [], "the next group desires it again"


def test_nothing_is_compared_without_a_rollout_or_a_former_model(agent: Driven) -> None:
    run(agent, 6, 2, former=ONE)
    assert agent.take(Compare) == []
    run(agent, 7, 3, former=None, **ROLLOUT)
    assert agent.take(Compare) == []


def test_a_comparison_goes_on_after_a_kill_and_is_told_once(agent: Driven) -> None:
    shadow(agent, 6, 2)
    agent.take(Compare)
    agent.slots = (ONE, TWO)
    agent.kill()
    agent.connect()
    assert not is_settled(agent.state)
    finish(agent)
    assert [body.number for body in told(agent)] == [0]
    agent.slots = (ONE, TWO)
    agent.kill()
    agent.connect()
    assert agent.take(Compare) == []
    assert {body.number for body in told(agent)} == {0}
    assert agent.state.models.candidate == TWO


def test_a_comparison_is_done_in_pieces_and_ended_by_what_is_newer(agent: Driven) -> None:
    shadow(agent, 6, 2)
    (first,) = agent.take(Compare)
    agent.give(inputs.ComparisonGoesOn(first.pending))
    assert agent.take(Compare) == [first]
    want(agent, 7, 3)
    agent.give(inputs.ComparisonGoesOn(first.pending))
    assert agent.take(Compare) == []
    assert len(agent.take(InstallModel)) == 1


def test_what_was_compared_for_something_older_is_not_told(agent: Driven) -> None:
    shadow(agent, 6, 2)
    requests = list(agent.requests)
    want(agent, 7, 3)
    agent.requests = requests
    finish(agent)
    assert told(agent) == []


def test_a_candidate_goes_when_something_else_is_desired(agent: Driven) -> None:
    shadow(agent, 6, 2)
    finish(agent)
    want(agent, 7, 1)
    agent.give(inputs.ModelInstalled(7, ONE))
    agent.slots = (ONE, TWO)
    agent.kill()
    assert len(agent.take(ForgetCandidate)) == 1
    agent.take(CleanFiles)
    agent.give(inputs.CandidateForgotten())
    assert agent.state.models.candidate is None
    assert len(agent.take(CleanFiles)) == 1


def test_a_candidate_that_does_not_answer_fails_and_goes(agent: Driven) -> None:
    shadow(agent, 6, 2)
    agent.sent(ModelStatus)
    (request,) = agent.take(Compare)
    agent.give(inputs.ComparisonFailed(request.pending, "comparison: scores: NaN"))
    (status,) = agent.sent(ModelStatus)
    assert (status.state, status.version) == ("failed", 2)
    assert status.reason == "comparison: scores: NaN"
    assert len(agent.take(ForgetCandidate)) == 1
    assert told(agent) == []
    assert agent.state.models.active == ONE


def test_a_refused_candidate_is_reported_like_any_model(agent: Driven) -> None:
    want(agent, 6, 2, mode="shadow", **ROLLOUT)
    agent.give(inputs.ModelRefused(6, rolled_back=True, reason="scores stray"))
    assert statuses(agent) == ["rolled_back"]
    assert agent.take(Compare) == []


def test_the_model_that_runs_needs_no_place_beside_itself(agent: Driven) -> None:
    want(agent, 6, 1, mode="shadow", **ROLLOUT)
    assert agent.take(ShadowModel) == []
    assert len(agent.take(InstallModel)) == 1


def test_a_candidate_is_compared_with_the_model_that_runs_by_then(agent: Driven) -> None:
    run(agent, 6, 2, former=ONE)
    shadow(agent, 7, 3)
    agent.take(Compare)
    agent.slots = (TWO, THREE)
    agent.kill()
    agent.give(inputs.ModelFellBack(TWO, ONE, "does not load"))
    agent.connect()
    finish(agent)
    assert told(agent) == [], "it was compared with the model that failed"
    (request,) = agent.take(Compare)
    assert request.pending.beside == ONE


def test_without_a_model_that_runs_a_candidate_is_kept_and_not_compared(tmp_path: Path) -> None:
    agent = Driven(tmp_path / "agent.db")
    agent.connect()
    shadow(agent, 6, 2)
    (status,) = agent.sent(ModelStatus)
    assert (status.state, status.previous_version) == ("shadowing", None)
    assert agent.take(Compare) == []


def test_comparisons_are_numbered_on(agent: Driven) -> None:
    shadow(agent, 6, 2)
    finish(agent)
    shadow(agent, 7, 3)
    finish(agent)
    numbers = [
        request.body.number
        for request in agent.requests
        if isinstance(request, SendOutboxMessage) and isinstance(request.body, ModelComparison)
    ]
    assert sorted(set(numbers)) == [0, 1]
