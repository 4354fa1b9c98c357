"""A run of light agents that is cut off anywhere goes on to the digests of the one that was not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.coordinator.models.network_maker import NetworkMaker
from fleetledger.coordinator.topics.rounds.entries import RoundFailed, RoundOpened
from fleetledger.simulator.engines.inprocess.light import batches
from fleetledger.simulator.engines.inprocess.light import round as light_round
from fleetledger.simulator.engines.inprocess.light.answer_hasher import (
    AnswerHasher,
)
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.interface import Prepared
from tests.simulator.engines.inprocess.light.both import Learned, learn, means
from tests.simulator.rounds.small import prepared, small

pytestmark = pytest.mark.torch


def by_night(*values: int) -> list[Any]:
    """Further points of the same kind as one that is tried by day."""
    return [pytest.param(value, marks=pytest.mark.nightly) for value in values]


class CutError(Exception):
    """The process ends here."""


def cut_at(number: int, then: Callable[..., Any]) -> Callable[..., Any]:
    """Return what ends the process when it is called for so many times."""
    calls = 0

    def counted(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise CutError
        return then(*arguments, **more)

    return counted


@pytest.fixture(scope="module")
def what() -> Prepared:
    """Devices that remember exemplars and their own models, so that a round twice would show."""
    settings = {"preset": "flwf-2t", "exemplars": 12}
    return prepared(small(method={"settings": settings}, rounds={"per_stage": 2}))


@pytest.fixture(scope="module")
def whole(what: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """What comes of the run that nothing cuts off."""
    return learn(LightEngine, what, tmp_path_factory.mktemp("whole"))


def assert_goes_on(what: Prepared, whole: Learned, folder: Path) -> None:
    resumed = learn(LightEngine, what, folder / "cut")
    assert means(resumed) == means(whole)
    assert resumed.models == whole.models
    asked = [body.number for body in resumed.bodies(RoundOpened)]
    assert asked == [body.number for body in whole.bodies(RoundOpened)]
    for one, two in zip(whole.records, resumed.records, strict=True):
        assert [(r.number, r.accuracy, r.loss) for r in one.rounds] == [
            (r.number, r.accuracy, r.loss) for r in two.rounds
        ]


@pytest.mark.parametrize("rounds", [2, 3, *by_night(1)])
def test_after_a_round(what: Prepared, whole: Learned, tmp_path: Path, rounds: int) -> None:
    with pytest.raises(CutError):
        learn(LightEngine, what, tmp_path / "cut", cut_at(rounds, lambda _: None))
    assert_goes_on(what, whole, tmp_path)


@pytest.mark.parametrize("lot", [2, 6, *by_night(1, 8)])
def test_among_the_answers_of_a_round_some_of_which_are_in_the_ledger(
    what: Prepared, whole: Learned, tmp_path: Path, lot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(light_round, "GROUP_INPUTS", 1)
        patch.setattr(batches, "_ANSWERS_AT_ONCE", 1)
        patch.setattr(AnswerHasher, "hash", cut_at(lot, AnswerHasher.hash))
        with pytest.raises(CutError):
            learn(LightEngine, what, tmp_path / "cut")
    assert_goes_on(what, whole, tmp_path)


@pytest.mark.parametrize("number", [3, *by_night(1)])
def test_between_the_closing_of_a_round_and_its_mean(
    what: Prepared, whole: Learned, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(NetworkMaker, "average", cut_at(number, NetworkMaker.average))
        with pytest.raises(CutError):
            learn(LightEngine, what, tmp_path / "cut")
    assert_goes_on(what, whole, tmp_path)


def test_answers_that_come_out_otherwise_make_the_round_come_to_nothing(
    what: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(NetworkMaker, "average", cut_at(1, NetworkMaker.average))
        with pytest.raises(CutError):
            learn(LightEngine, what, tmp_path / "cut")

    from fleetledger.learning.networks import conversion

    with monkeypatch.context() as patch:
        trained_otherwise = conversion.to_arrays

        def shifted(*tensors: Any) -> Any:
            return {
                name: array + np.float32(1e-3)
                for name, array in trained_otherwise(*tensors).items()
            }

        patch.setattr(conversion, "to_arrays", shifted)
        resumed = learn(LightEngine, what, tmp_path / "cut")
    (failed,) = resumed.bodies(RoundFailed)
    assert "training again gave other ones" in failed.reason
    assert len(means(resumed)) == 4
