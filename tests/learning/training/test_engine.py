"""The door to training: whatever the engine, each work gets what it would get alone."""

from dataclasses import replace

import pytest

from learning.errors import TrainingError
from learning.training import engine
from learning.training.engine import train
from learning.training.loop import train_alone
from learning.training.settings import TrainingEngineSettings
from learning.training.work import Batching, Sgd
from tests.learning.training.agents import largest_difference, make_works

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


@pytest.mark.parametrize(("loop", "stack"), [(1.0, 100.0), (100.0, 1.0)])
def test_auto_takes_the_way_that_was_faster(monkeypatch, loop, stack):
    def seconds(way, works, settings):
        return len(works) * (stack if way is engine.train_stacked else loop)

    monkeypatch.setattr(engine, "_seconds", seconds)
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
    assert engine._seconds(engine.train_in_loop, works, TrainingEngineSettings()) > 0


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
