"""A fleet with a proxy: gradients reach it, and the old model that it chooses is distilled from."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.topics.contributions.entries import NothingReported
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen, OldModelMissed
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.progress import Budget
from fleetledger.simulator.run.runs import RunOptions, resume_run, run_scenario
from tests.simulator.rounds.small import learn, prepared, with_proxy
from tests.simulator.rounds.whole_runs import quiet

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> list[EntryBody]:
    """What a run came to."""
    return learn(prepared(with_proxy()), tmp_path_factory.mktemp("run"))[1]


def test_the_second_task_distils_from_the_model_that_the_proxy_chose(
    ledger: list[EntryBody],
) -> None:
    chosen = {body.number: body for body in ledger if isinstance(body, OldModelChosen)}
    assert not [body for body in ledger if isinstance(body, OldModelMissed)]
    # Two classes of two devices, then those of the one that only looked at first.
    assert chosen[1].answer.gradients == 4
    assert chosen[1].answer.shifted
    first = chosen[2]
    assert first.winner is not None
    assert first.current is not None
    assert first.winner.round == first.current.round
    second = chosen[3]
    assert second.answer.shifted
    assert second.previous == first.current
    (opened,) = (body for body in ledger if isinstance(body, RoundOpened) and body.number == 4)
    assert opened.extras["old-model"].digest == first.current.weights.digest


def test_devices_that_are_not_asked_to_train_look(ledger: list[EntryBody]) -> None:
    rounds = [body for body in ledger if isinstance(body, RoundOpened)]
    assert [len(opened.observers) for opened in rounds] == [1, 1, 1, 1]
    nothing = [body.nothing for body in ledger if isinstance(body, NothingReported)]
    looks = [body.observation for body in nothing if body.observation is not None]
    assert len(looks) == len(rounds)
    assert all(look.images > 0 for look in looks)


def outcome(ledger: list[EntryBody]) -> list[object]:
    """What the rounds and the proxy came to, without this machine's seconds."""
    return [
        body if isinstance(body, OldModelChosen) else (body.aggregate, body.weights)
        for body in ledger
        if isinstance(body, OldModelChosen | WeightsAveraged)
    ]


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_weights_scores_and_old_models(
    ledger: list[EntryBody], tmp_path: Path
) -> None:
    again = learn(prepared(with_proxy()), tmp_path)[1]
    assert [body.kind for body in again] == [body.kind for body in ledger]
    assert outcome(again) == outcome(ledger)


@pytest.mark.usefixtures("own_cache")
def test_a_run_that_stops_and_goes_on_comes_to_the_same_weights(tmp_path: Path) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    run_scenario(with_proxy(), whole, quiet())
    with pytest.raises(RunError, match="budget: 0 s are spent"):
        run_scenario(with_proxy(), pieces, quiet(), options=RunOptions(Budget(0)))
    resume_run(pieces, quiet())
    one, other = (RunFolder(folder).seed(1).records() for folder in (whole, pieces))
    assert [(record.aggregate, record.head) for record in one] == [
        (record.aggregate, record.head) for record in other
    ]
