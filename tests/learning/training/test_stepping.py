"""Steps compiled or captured do what steps call by call do, for one agent after another."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from benchmarks.speed.kernel_counts.training_paths import training_paths
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training import stepping
from fleetledger.learning.training.graphs import CapturedStep
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.stepping import CapturedSteps, compiled, why_eager
from fleetledger.learning.training.work import Trained, Work
from tests.learning.training.agents import largest_difference

pytestmark = pytest.mark.torch

EAGER = TrainingEngineSettings()
CAPTURED = TrainingEngineSettings(steps="captured")
COMPILED = TrainingEngineSettings(steps="compiled")
BATCH = 8


class Repeated:
    """Stands in for a GPU's graphs: the step is called again on the same memory."""

    def capture(self, call: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
        result = call().clone()

        def again() -> None:
            result.copy_(call())

        return again, result


@pytest.fixture(autouse=True)
def captured(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[object, CapturedStep]]:
    """Return what is captured, by the stand-in for a GPU's graphs."""
    kept: dict[object, CapturedStep] = {}
    monkeypatch.setattr(CapturedSteps, "graphs", Repeated())
    monkeypatch.setattr(CapturedSteps, "kept", kept)
    monkeypatch.setattr(stepping, "_COMPILED", {})
    monkeypatch.setattr(stepping, "compiled", lambda step: compiled(step, "eager"))
    return kept


def works(name: str, epochs: int = 4, batches: int = 2) -> list[Work]:
    """Return agents whose last batches are short: by one row, by two, by three."""
    path = training_paths()[name]
    made = list(path.works(epochs, batches + 1))
    rates = tuple(0.01 / (1 + epoch) for epoch in range(epochs))
    return [replace(work, optimiser=replace(work.optimiser, rates=rates)) for work in made]


def state(trained: Trained) -> dict[str, torch.Tensor]:
    return {**trained.parameters, **trained.buffers}


def assert_near(found: Trained, wanted: Trained, within: float = 1e-5) -> None:
    assert largest_difference(state(found), state(wanted)) < within
    assert found.losses == pytest.approx(wanted.losses, rel=within)
    assert (found.steps, found.samples) == (wanted.steps, wanted.samples)


@pytest.mark.parametrize(
    "name", ["rounds mlp, loop", "fedhaf body, loop", "fbl small_dense later task, loop"]
)
def test_one_graph_is_replayed_for_all_agents(name, captured) -> None:
    agents = works(name)
    for work in agents:
        found = train_alone(work, CAPTURED)
        assert_near(found, train_alone(work, EAGER))
    assert len(captured) == 1


def test_what_an_agent_has_trained_is_not_touched_by_the_next(captured) -> None:
    one, other = works("rounds mlp, loop")[:2]
    first = train_alone(one, CAPTURED)
    before = {name: value.clone() for name, value in state(first).items()}
    train_alone(other, CAPTURED)
    assert captured
    assert all(torch.equal(value, before[name]) for name, value in state(first).items())
    assert all(
        torch.equal(a, b)
        for a, b in zip(
            one.parameters.values(), works("rounds mlp, loop")[0].parameters.values(), strict=True
        )
    )


def test_a_captured_training_is_the_compiled_one_bit_for_bit(captured) -> None:
    (work, *_) = works("rounds mlp, loop")
    found, wanted = train_alone(work, CAPTURED), train_alone(work, COMPILED)
    assert captured
    assert all(torch.equal(value, state(wanted)[name]) for name, value in state(found).items())


def test_batches_in_parts_are_captured_with_all_their_parts(captured) -> None:
    (work, *_) = works("rounds mlp, loop")
    work = replace(work, batching=replace(work.batching, parts=3))
    # Rounding grows where two rows are normalised.
    assert_near(train_alone(work, CAPTURED), train_alone(work, EAGER), within=1e-4)
    (graph,) = captured.values()
    assert [len(part["weight"]) for part in graph.parts] == [3, 3, 2]


def test_few_steps_are_not_worth_a_capture(captured) -> None:
    (work, *_) = works("rounds mlp, loop", epochs=1, batches=2)
    found = train_alone(work, CAPTURED)
    assert not captured
    assert all(
        torch.equal(value, state(train_alone(work, EAGER))[name])
        for name, value in state(found).items()
    )


def test_the_oldest_graph_makes_room_for_another(captured, monkeypatch) -> None:
    monkeypatch.setattr(stepping, "_MOST_KEPT", 2)
    (work, *_) = works("rounds mlp, loop")
    for size in (4, 5, 6, 4):
        other = replace(work, batching=replace(work.batching, size=size))
        assert_near(train_alone(other, CAPTURED), train_alone(other, EAGER))
    assert [len(graph.parts[0]["weight"]) for graph in captured.values()] == [6, 4]


def test_more_forms_than_are_kept_are_not_compiled(monkeypatch) -> None:
    monkeypatch.setattr(stepping, "_MOST_KEPT", 1)
    (work, *_) = works("rounds mlp, loop")
    for pad in (0, 1):
        other = replace(
            work,
            pictures=Pictures((0.5,) * 3, (0.25,) * 3, pad=pad),
            batching=replace(work.batching, parts=1 + pad),
        )
        assert_near(train_alone(other, COMPILED), train_alone(other, EAGER))
    assert len(stepping._COMPILED) == 1


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        pytest.param("fedhaf head, stack", 1, marks=pytest.mark.nightly),
        ("rounds mlp, stack", 2),
        pytest.param("rounds resnet8, stack", 2, marks=pytest.mark.nightly),
    ],
)
def test_a_stack_is_compiled_where_all_its_rows_count_and_where_some_pad(name, forms) -> None:
    agents = works(name)
    found, wanted = train_stacked(agents, COMPILED), train_stacked(agents, EAGER)
    for one, other in zip(found, wanted, strict=True):
        assert_near(one, other)
    assert len(stepping._COMPILED) == forms


def test_captured_steps_without_cuda_say_so_and_go_call_by_call(monkeypatch) -> None:
    monkeypatch.undo()
    (work, *_) = works("rounds mlp, loop")
    with pytest.warns(RuntimeWarning, match="'cpu' has no CUDA graphs"):
        found = train_alone(work, CAPTURED)
    wanted = train_alone(work, EAGER)
    assert all(torch.equal(value, state(wanted)[name]) for name, value in state(found).items())


def test_a_torch_that_cannot_compile_a_whole_step_is_told(monkeypatch) -> None:
    monkeypatch.delattr(torch._dynamo.config, "trace_autograd_ops", raising=False)
    monkeypatch.setattr(torch._dynamo, "config", object())
    (work, *_) = works("rounds mlp, loop")
    with pytest.warns(RuntimeWarning, match="Install a newer torch"):
        assert why_eager(COMPILED, work) is not None
    assert why_eager(EAGER, work) is None


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++, by which torch compiles")
def test_a_step_compiled_for_this_machine_differs_by_rounding_alone(monkeypatch) -> None:
    monkeypatch.setattr(stepping, "compiled", compiled)
    (work, *_) = works("rounds mlp, loop", epochs=1)
    assert_near(train_alone(work, COMPILED), train_alone(work, EAGER))
    assert stepping._COMPILED
