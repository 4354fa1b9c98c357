"""Light agents train the network of a first stage, and count what they see through it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.counting import Counting
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.scenario.model import Scenario
from tests.simulator.engines.inprocess.light.both import Learned, learn, means, said
from tests.simulator.rounds.small import prepared

pytestmark = pytest.mark.torch


def scenario(**sections: Any) -> Scenario:
    """Three stages of two classes, the first trained in two rounds; of five devices three train."""
    first = {"name": "rounds", "rounds": 2, "settings": {"network": "mlp", "epochs": 1}}
    settings = {"form": "estimated", "map_width": 32, "max_samples_per_part": 20}
    content = {
        "title": "a network of the fleet's own",
        "data": {"set": "digits", "per_class": 60, "test_per_class": 10},
        "stages": {"classes": 6, "count": 3, "order": "as-is"},
        "devices": {"count": 5, "absences": [{"device": 2, "joins": 2}]},
        "rounds": {"cohort": 3},
        "method": {"name": "stsa", "settings": settings, "first_stage": first},
    }
    return Scenario.model_validate(content | sections)


@pytest.fixture(scope="module")
def what() -> Prepared:
    return prepared(scenario())


@pytest.fixture(scope="module")
def whole(what: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """What comes of the run that nothing cuts off."""
    return learn(LightEngine, what, tmp_path_factory.mktemp("whole"))


def assert_same(one: Learned, two: Learned) -> None:
    assert two.models == one.models
    assert means(two) == means(one)
    for first, second in zip(one.records, two.records, strict=True):
        assert (first.aggregate, first.head) == (second.aggregate, second.head)
        assert first.contributions == second.contributions


def test_the_entries_are_those_of_agents_that_act(
    what: Prepared, whole: Learned, tmp_path: Path
) -> None:
    timed = learn(InProcessEngine, what, tmp_path / "timed")
    assert said(whole.ledger) == said(timed.ledger)
    assert_same(timed, whole)
    assert len(means(whole)) == 2
    assert len(whole.bodies(BackboneImported)) == 1


@pytest.mark.parametrize(
    "calls", [4, *(pytest.param(calls, marks=pytest.mark.nightly) for calls in (2, 6))]
)
def test_a_run_that_was_cut_off_while_devices_counted_goes_on(
    what: Prepared, whole: Learned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Counting, "_give", cut_after(calls, Counting._give))
        with pytest.raises(CutError):
            learn(LightEngine, what, tmp_path / "cut")
    assert_same(whole, learn(LightEngine, what, tmp_path / "cut"))


class CutError(Exception):
    """The process ends here."""


def cut_after(calls: int, then: Callable[..., Any]) -> Callable[..., Any]:
    """Return what ends the process when it was called for so many times."""
    done = 0

    def counted(*arguments: Any) -> Any:
        nonlocal done
        result = then(*arguments)
        done += 1
        if done == calls:
            raise CutError
        return result

    return counted
