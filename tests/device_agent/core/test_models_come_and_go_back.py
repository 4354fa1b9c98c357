"""Fetching, installing and evaluating models, through the real rules and store."""

from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.core.requests import (
    CancelFetch,
    CheckActiveModel,
    CleanFiles,
    Evaluate,
    FetchFile,
    InstallModel,
    Send,
)
from fleetledger.device_agent.core.standing_problems import standing_problems
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.reports import Evaluation, Problem
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

ONE = ActiveModel(1, making.digest("manifest 1"))
TWO = ActiveModel(2, making.digest("manifest 2"))


@pytest.fixture
def agent(tmp_path: Path) -> Driven:
    driven = Driven(tmp_path / "agent.db", evaluates=True)
    driven.connect()
    driven.assign("cat")
    driven.receipt_for_nothing()
    driven.take(FetchFile)
    return driven


def want(agent: Driven, action: int, version: int) -> None:
    agent.give(inputs.DesiredArrived(making.COORDINATOR, making.desired(action, version)))


def install(agent: Driven, action: int, version: int) -> None:
    want(agent, action, version)
    agent.fetch_all()
    assert len(agent.take(InstallModel)) == 1
    active = ActiveModel(version, making.digest(f"manifest {version}"))
    agent.give(inputs.ModelInstalled(action, active))


def evaluation(version: int) -> Evaluation:
    return Evaluation(
        version=version,
        manifest=making.digest(f"manifest {version}"),
        results={},
        provider="CPUExecutionProvider",
        seconds=0.1,
        bytes_up=1,
        bytes_down=2,
    )


def test_only_files_that_are_not_here_are_fetched_one_after_another(agent: Driven) -> None:
    want(agent, 5, 1)
    assert agent.fetch_all() == [making.digest("manifest 1"), making.digest("head 1")]
    (request,) = agent.take(InstallModel)
    assert request.desired.version == 1


def test_an_installed_model_is_reported_and_evaluated(agent: Driven) -> None:
    install(agent, 5, 1)
    (status,) = agent.sent(ModelStatus)
    assert (status.version, status.state) == (1, "active")
    (request,) = agent.take(Evaluate)
    assert request.active == ONE
    agent.give(inputs.Evaluated(evaluation(1)))
    assert agent.sent(Evaluation) == [evaluation(1)]


def test_reports_are_told_again_after_every_welcome(agent: Driven) -> None:
    install(agent, 5, 1)
    agent.give(inputs.Evaluated(evaluation(1)))
    agent.requests.clear()
    agent.connect()
    assert [type(request.body) for request in agent.take(Send)] == [Birth, ModelStatus, Evaluation]


def test_a_lower_or_repeated_action_is_ignored(agent: Driven) -> None:
    install(agent, 5, 2)
    want(agent, 5, 1)
    want(agent, 4, 1)
    assert agent.take(FetchFile) == []
    assert agent.state.models.active == TWO


def test_going_back_is_a_higher_action_with_an_older_version(agent: Driven) -> None:
    install(agent, 5, 1)
    agent.give(inputs.Evaluated(evaluation(1)))
    install(agent, 6, 2)
    agent.give(inputs.Evaluated(evaluation(2)))
    want(agent, 7, 1)
    assert agent.fetch_all() == []
    assert len(agent.take(InstallModel)) == 1


def test_a_newer_action_overtakes_one_that_is_being_fetched(agent: Driven) -> None:
    want(agent, 5, 1)
    (former,) = agent.take(FetchFile)
    want(agent, 6, 2)
    assert agent.take(CancelFetch) == [CancelFetch(former.offer.digest)]
    agent.give(inputs.FetchFailed(former.offer.digest, "it is not needed any more"))
    assert agent.state.files.tries == {}
    agent.fetch_all()
    (request,) = agent.take(InstallModel)
    assert request.desired.action == 6


def test_a_file_that_the_newer_model_needs_too_is_fetched_on(agent: Driven) -> None:
    agent.give(inputs.DesiredArrived(making.COORDINATOR, making.desired(5, 1, "shared")))
    (manifest,) = agent.take(FetchFile)
    agent.give(inputs.FetchFinished(manifest.offer.digest))
    (shared,) = agent.take(FetchFile)
    agent.give(inputs.DesiredArrived(making.COORDINATOR, making.desired(6, 2, "shared")))
    assert agent.take(CancelFetch) == []
    assert agent.state.files.fetching == shared.offer


def test_a_file_that_comes_although_it_was_called_off_leaves_the_next_fetch_alone(
    agent: Driven,
) -> None:
    want(agent, 5, 1)
    (former,) = agent.take(FetchFile)
    want(agent, 6, 2)
    (following,) = agent.take(FetchFile)
    agent.give(inputs.FetchFinished(former.offer.digest))
    assert agent.state.files.fetching == following.offer


def test_a_newer_action_that_comes_during_an_installation_is_next(agent: Driven) -> None:
    want(agent, 5, 1)
    agent.fetch_all()
    want(agent, 6, 2)
    agent.give(inputs.ModelInstalled(5, ONE))
    agent.give(inputs.Evaluated(evaluation(1)))
    agent.fetch_all()
    assert [request.desired.action for request in agent.take(InstallModel)] == [5, 6]


def test_a_refused_model_is_reported_with_the_reason_and_not_tried_again(agent: Driven) -> None:
    install(agent, 5, 1)
    agent.give(inputs.Evaluated(evaluation(1)))
    agent.requests.clear()
    want(agent, 6, 2)
    agent.fetch_all()
    agent.give(inputs.ModelRefused(6, rolled_back=True, reason="scores stray by 3"))
    (status,) = agent.sent(ModelStatus)
    assert (status.version, status.state, status.reason) == (2, "rolled_back", "scores stray by 3")
    assert agent.state.models.active == ONE
    agent.kill()
    agent.connect()
    agent.wait(100)
    assert len(agent.take(InstallModel)) == 1, "the one before the kill"


def test_an_action_cut_short_by_a_kill_is_begun_again(agent: Driven) -> None:
    want(agent, 5, 1)
    agent.fetch_all()
    agent.take(InstallModel)
    agent.kill()
    agent.connect()
    agent.fetch_all()
    assert len(agent.take(InstallModel)) == 1


def test_a_failed_fetch_is_tried_again_with_growing_waits(agent: Driven) -> None:
    want(agent, 5, 1)
    agent.give(inputs.FetchFinished(making.digest("manifest 1")))
    agent.requests = agent.requests[-1:]
    for _ in range(3):
        (request,) = agent.take(FetchFile)
        agent.give(inputs.FetchFailed(request.offer.digest, "deadline"))
        assert agent.take(FetchFile) == []
        agent.wait(60)
    assert [told.about for told in agent.sent(Problem)] == ["model"]


def test_a_file_that_never_comes_fails_the_model_in_the_end(agent: Driven) -> None:
    want(agent, 5, 1)
    agent.give(inputs.FetchFinished(making.digest("manifest 1")))
    agent.requests = agent.requests[-1:]
    for _ in range(agent.rules.fetch_tries):
        (request,) = agent.take(FetchFile)
        agent.give(inputs.FetchFailed(request.offer.digest, "deadline"))
        agent.wait(60)
    (status,) = agent.sent(ModelStatus)
    assert status.state == "failed"
    assert "deadline" in status.reason
    agent.wait(100)
    assert agent.take(FetchFile) == []


def test_a_file_that_a_full_disk_refuses_is_waited_for_and_told_as_long_as_it_does(
    agent: Driven,
) -> None:
    want(agent, 5, 1)
    for _ in range(3 * agent.rules.fetch_tries):
        (request,) = agent.take(FetchFile)
        agent.give(inputs.FetchFailed(request.offer.digest, "no space left", full_disk=True))
        assert agent.take(FetchFile) == []
        assert "no space left" in next(standing_problems(agent.state)).text
        agent.wait(15)
    assert [told.about for told in agent.sent(Problem)] == ["model"]
    assert agent.sent(ModelStatus) == []
    agent.fetch_all()
    assert not any(item.about == "files" for item in standing_problems(agent.state))
    assert len(agent.take(InstallModel)) == 1


def test_a_full_disk_takes_no_try_from_a_file(agent: Driven) -> None:
    want(agent, 5, 1)
    for full_disk in [True] * agent.rules.fetch_tries + [False]:
        (request,) = agent.take(FetchFile)
        agent.give(inputs.FetchFailed(request.offer.digest, "away", full_disk=full_disk))
        agent.wait(60)
    assert agent.sent(ModelStatus) == []
    assert len(agent.take(FetchFile)) == 1


def test_a_damaged_file_is_fetched_again(agent: Driven) -> None:
    want(agent, 5, 1)
    agent.fetch_all()
    agent.take(InstallModel)
    agent.give(inputs.FileDamaged(making.digest("head 1")))
    agent.wait(5)
    assert agent.fetch_all() == [making.digest("head 1")]
    assert len(agent.take(InstallModel)) == 1


def test_nothing_is_fetched_while_the_coordinator_is_away(agent: Driven) -> None:
    agent.give(inputs.CoordinatorDied(making.COORDINATOR))
    want(agent, 5, 1)
    assert agent.take(FetchFile) == []


def test_the_active_model_is_tested_at_start_and_a_fall_back_is_reported(agent: Driven) -> None:
    install(agent, 6, 2)
    agent.requests.clear()
    agent.kill()
    agent.give(inputs.Started(active=TWO))
    assert [request.active for request in agent.take(CheckActiveModel)] == [TWO]
    agent.give(inputs.ModelFellBack(TWO, ONE, "does not load"))
    agent.connect()
    (status,) = agent.sent(ModelStatus)
    assert (status.version, status.state, status.reason) == (2, "rolled_back", "does not load")
    assert agent.state.models.active == ONE


def test_a_birth_names_what_runs(agent: Driven) -> None:
    install(agent, 5, 1)
    agent.requests.clear()
    agent.connect()
    births = [request.body for request in agent.take(Send) if isinstance(request.body, Birth)]
    assert {(birth.active_version, birth.active_manifest) for birth in births} == {
        (1, making.digest("manifest 1"))
    }


def test_files_are_cleaned_away_when_nothing_needs_them_and_nobody_writes(agent: Driven) -> None:
    agent.take(CleanFiles)
    want(agent, 5, 1)
    agent.fetch_all()
    assert agent.take(CleanFiles) == []
    agent.give(inputs.ModelInstalled(5, ONE))
    assert agent.take(CleanFiles) == [], "the evaluation reads files"
    agent.give(inputs.Evaluated(evaluation(1)))
    assert agent.take(CleanFiles) == [CleanFiles(frozenset({making.digest("frozen")}))]
    left = frozenset({making.digest("frozen"), making.digest("head 1")})
    agent.give(inputs.FilesListed(left))
    assert agent.state.files.here == left


def test_an_evaluation_without_images_is_a_problem(agent: Driven) -> None:
    install(agent, 5, 1)
    agent.give(inputs.Evaluated(None, "evaluation_folder: no images"))
    assert [told.text for told in agent.sent(Problem)] == ["evaluation_folder: no images"]


def test_an_evaluation_can_be_asked_for(agent: Driven) -> None:
    install(agent, 5, 1)
    agent.give(inputs.Evaluated(evaluation(1)))
    agent.take(Evaluate)
    agent.give(inputs.EvaluationAsked())
    assert len(agent.take(Evaluate)) == 1
