"""The door to training: whatever the engine, each work gets what it would get alone."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.training import engine
from fleetledger.learning.training.calibration import Calibration, Kind
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.work import Batching, Sgd
from tests.learning.training.agents import (
    CROSS_ENTROPY,
    NETWORK,
    largest_difference,
    make_works,
    tensors,
)

pytestmark = pytest.mark.torch

SIZES = (37, 8, 0, 64, 3, 1, 16)


def state(trained):
    return {**trained.parameters, **trained.buffers}


def mixed_works():
    """Return works of two kinds, turn by turn; some have no batch."""
    works = make_works(SIZES, epochs=2)
    return [
        replace(work, optimiser=Sgd((0.05, 0.05, 0.05))) if index % 2 else work
        for index, work in enumerate(works)
    ]


def alone_only(work):
    """Return the work with a loss that takes no stack."""

    def loss(*given):
        return work.loss(*given)

    loss.stackable = False
    return replace(work, loss=loss)


@pytest.mark.parametrize("name", ["loop", "stack", "auto"])
def test_every_engine_returns_what_each_work_gets_alone_in_order(name):
    works = mixed_works()
    results = train(works, TrainingEngineSettings(name))
    assert [result.samples for result in results] == list(SIZES)
    for work, result in zip(works, results, strict=True):
        alone = train_alone(work, TrainingEngineSettings())
        assert largest_difference(state(result), state(alone)) < 1e-12
        assert result.steps == alone.steps


def test_agents_beyond_the_memory_train_in_further_stacks(monkeypatch):
    stacks = []
    inner = engine.train_stacked
    monkeypatch.setattr(
        engine, "train_stacked", lambda works, s: stacks.append(len(works)) or inner(works, s)
    )
    monkeypatch.setattr(engine, "agents_per_stack", lambda works, settings: 2)
    works = make_works((5, 20, 9, 16, 7), epochs=1)
    results = train(works, TrainingEngineSettings("stack"))
    assert stacks == [2, 2, 1]
    for work, result in zip(works, results, strict=True):
        assert (
            largest_difference(state(result), state(train_alone(work, TrainingEngineSettings())))
            < 1e-12
        )


@dataclass
class Kept:
    """Calibrations in memory."""

    found: dict[str, Calibration] = field(default_factory=dict)

    def find(self, kind: Kind, versions: Kind) -> Calibration | None:
        return self.found.get(json.dumps([kind, versions]))

    def keep(self, kind: Kind, versions: Kind, found: Calibration) -> None:
        self.found[json.dumps([kind, versions])] = found


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """How many agents were timed alone and in a stack, each time."""
    times: list[tuple[int, int]] = []
    ways = {"train_in_loop": 0, "train_stacked": 1}

    def shortest(run: Any, _: int) -> float:
        counts = [0, 0]
        with monkeypatch.context() as patched:
            for name, place in ways.items():

                def seen(works: Any, settings: Any, place: int = place) -> None:
                    counts[place] = len(works)

                patched.setattr(engine, name, seen)
            run()
        times.append((counts[0], counts[1]))
        return 1.0

    monkeypatch.setattr(engine, "shortest", shortest)
    return times


@pytest.mark.parametrize(("loop", "stack"), [(1.0, 100.0), (100.0, 1.0)])
def test_auto_takes_the_way_that_was_faster(monkeypatch, loop, stack):
    monkeypatch.setattr(engine, "_calibrated", lambda works, settings: Calibration(loop, stack))
    works = make_works((5, 9), epochs=1)
    chosen = engine._faster(works, TrainingEngineSettings("auto"))
    assert chosen is (engine.train_in_loop if loop < stack else engine.train_in_stacks)
    for work, result in zip(works, train(works, TrainingEngineSettings("auto")), strict=True):
        assert (
            largest_difference(state(result), state(train_alone(work, TrainingEngineSettings())))
            < 1e-12
        )


def test_auto_times_real_runs():
    works = make_works((20, 20, 20), epochs=1)
    found = engine._calibrated(works, TrainingEngineSettings("auto"))
    assert found.loop > 0
    assert found.stack > 0


def test_what_was_measured_is_kept_and_not_measured_again(timed):
    settings = TrainingEngineSettings("auto", calibrations=Kept())
    works = make_works((5, 9, 20, 7, 30), epochs=1)
    train(works, settings)
    assert timed == [(2, 0), (0, 4)]  # a power of two of the largest
    train(make_works((40, 9, 20, 7), epochs=2), settings)
    assert len(timed) == 2, "other sizes, epochs and a few agents less are of the same kind"


def test_a_head_that_has_grown_is_of_the_same_kind(timed):
    settings = TrainingEngineSettings("auto", calibrations=Kept())
    works = make_works((5, 9), epochs=1)
    train(works, settings)
    rows = {"head.weight": torch.zeros(9, 8), "head.bias": torch.zeros(9)}
    grown = {**works[0].parameters, **{name: row.double() for name, row in rows.items()}}
    train([replace(work, parameters=grown) for work in works], settings)
    assert len(timed) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"batching": Batching(4)},
        {"loss": replace(CROSS_ENTROPY, training="head")},
        {"loss": replace(CROSS_ENTROPY, network=replace(NETWORK, head="cosine"))},
        {"dtype": torch.float32},
        {"sizes": (5, 9, 7, 8, 6, 5, 9, 8)},
    ],
    ids=["batch", "loss", "network", "precision", "agents"],
)
def test_another_kind_of_work_is_measured_by_itself(timed, change):
    settings = TrainingEngineSettings("auto", calibrations=Kept())
    train(make_works((5, 9), epochs=1), settings)
    if change.get("loss", CROSS_ENTROPY).network != NETWORK:
        parameters, buffers = tensors(change["loss"].network, torch.float64)
        change = {**change, "parameters": parameters, "buffers": buffers}
    given = {name: change[name] for name in change.keys() - {"parameters", "buffers"}}
    works = make_works(**{"sizes": (5, 9), "epochs": 1, **given})
    own = {name: change[name] for name in change.keys() & {"parameters", "buffers"}}
    train([replace(work, **own) for work in works], settings)
    assert len(timed) == 4


def test_what_was_measured_with_other_versions_is_not_asked_for(timed, monkeypatch):
    settings = TrainingEngineSettings("auto", calibrations=Kept())
    works = make_works((5, 9), epochs=1)
    train(works, settings)
    monkeypatch.setattr(engine, "versions_here", lambda: {"torch": "another", "threads": 1})
    train(works, settings)
    assert len(timed) == 4


def test_without_a_place_to_keep_it_auto_measures_every_time(timed):
    for _ in range(2):
        train(make_works((5, 9), epochs=1), TrainingEngineSettings("auto"))
    assert len(timed) == 4


def test_a_network_without_stacked_layers_is_trained_alone_or_refused():
    works = [alone_only(work) for work in make_works((5, 9), epochs=1)]
    auto, loop = (train(works, TrainingEngineSettings(name)) for name in ("auto", "loop"))
    for one, two in zip(auto, loop, strict=True):
        assert largest_difference(state(one), state(two)) == 0
    with pytest.raises(TrainingError, match="choose loop or auto"):
        train(works, TrainingEngineSettings("stack"))


def test_bad_work_is_refused_before_any_is_trained():
    works = [*make_works((5, 9)), *make_works((17,), batching=Batching(8, 1))]
    works[0] = replace(works[0], loss=None)
    with pytest.raises(TrainingError, match="cannot measure"):
        train(works, TrainingEngineSettings())


def test_no_work_gives_no_results():
    assert train([], TrainingEngineSettings("auto")) == []


def test_lots_are_one_stack_of_all_that_are_given_and_the_loop_for_those_that_share_none():
    works = make_works((16, 16, 8), epochs=1)
    settings = TrainingEngineSettings("lots", stack_bytes=1)  # not asked for
    together = train(works, settings)
    for one, expected in zip(together, train_stacked(works, settings), strict=True):
        assert all(torch.equal(state(one)[name], it) for name, it in state(expected).items())
    alone = [alone_only(work) for work in works]
    for one, work in zip(train(alone, settings), works, strict=True):
        expected = train_alone(work, settings)
        assert all(torch.equal(state(one)[name], it) for name, it in state(expected).items())
