"""Which networks train in stacks by default, and who trains with whom then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch import nn

from fleetledger.learning.networks.module_body import ModuleBody
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.registry import build_network
from fleetledger.simulator.engines.inprocess.light import training_lots as lots
from fleetledger.simulator.virtual.training import TrainerPoolSettings

pytestmark = pytest.mark.torch

CPU = TrainerPoolSettings(engine=None)


def convolution(shape: tuple[int, ...], width: int = 4) -> nn.Module:
    return nn.Sequential(nn.Conv2d(shape[0], width, 3), nn.ReLU(), nn.Flatten())


def dropping(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(shape[0] * 64, 3))


def dense(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * 64, 3))


def body(factory: object, **options: int) -> ModuleBody:
    return ModuleBody("own", factory, (2, 8, 8), tuple(options.items()))  # type: ignore[arg-type]


def test_a_convolution_counts_once_for_each_place_and_a_dense_layer_once() -> None:
    assert lots.products(body(convolution)) == 4 * 2 * 9 * 64 + 4
    assert lots.products(body(dense)) == 3 * 128 + 3


def test_small_modules_that_torch_computes_for_many_agents_are_stacked() -> None:
    assert lots.stacks_by_default(Network(body(convolution)))
    assert lots.stacks_by_default(Network(body(dense)))


def test_large_modules_and_those_that_draw_and_other_networks_are_not() -> None:
    assert not lots.stacks_by_default(Network(body(convolution, width=1000)))
    assert not lots.stacks_by_default(Network(body(dropping)))
    assert not lots.stacks_by_default(build_network("mlp", (1, 8, 8)))
    assert not lots.stacks_by_default(None)


def test_sixteen_places_of_the_cohort_are_a_lot() -> None:
    cohort = [f"device-{place}" for place in range(33)]
    found = lots.TrainingLots({device: place for place, device in enumerate(cohort)})
    assert [found.number(device) for device in cohort] == [0] * 16 + [1] * 16 + [2]


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": "loop"},
        {"engine": "auto"},
        {"bfloat16": True},
        {"channels_last": True},
        {"steps": "compiled"},
    ],
)
def test_a_scenario_that_says_how_to_train_has_no_lots(changed: dict[str, object]) -> None:
    task = None  # is not asked
    assert lots.training_lots(task, replace(CPU, **changed)) is None  # type: ignore[arg-type]
