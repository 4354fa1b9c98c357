"""The logit scale is fitted from what devices sent, and the next model gets it."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.rules import ModelRules, Rules, StageRules
from fleetledger.coordinator.core.work import ExportHead
from fleetledger.coordinator.topics.models.entries import TemperatureFitted
from fleetledger.learning.numerics.calibration import LOGIT_SCALES, LOSS_UNIT
from fleetledger.schemas.reports import ClassResult, Evaluation
from fleetledger.schemas.values import ClassName
from tests.coordinator.core.harness import Bench, contribution, exported, solved
from tests.coordinator.core.round_bench import RoundBench
from tests.coordinator.topics.models.test_models import wanted

RULES = Rules(stages=StageRules(quiet_seconds=1000), models=ModelRules(solve_every_seconds=0))


def bowl(best: int, depth: int = 1 << 20) -> tuple[int, ...]:
    """Losses that are smallest at one place of the grid."""
    return tuple(depth * (10 + abs(place - best)) for place in range(len(LOGIT_SCALES)))


def evaluation(losses: tuple[int, ...], version: int = 1, images: int = 60) -> Evaluation:
    return Evaluation(
        version=version,
        manifest=exported(version).manifest.digest,
        results={ClassName("cat"): ClassResult(correct=1, total=images)},
        provider="CPUExecutionProvider",
        seconds=0.1,
        bytes_up=1,
        bytes_down=1,
        losses=losses,
    )


def with_model() -> Bench:
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a"))
    bench.make_model(wanted(bench.wait(1)))
    return bench


def fitted(bench: Bench) -> list[float]:
    return [b.logit_scale for b, _, _ in bench.entries if isinstance(b, TemperatureFitted)]


def test_the_next_model_is_exported_with_the_scale_that_fits_all_devices() -> None:
    bench = with_model()
    bench.message("dev-1", evaluation(bowl(4)))
    bench.message("dev-2", evaluation(bowl(8, depth=1 << 22)))
    bench.wait(0)
    assert fitted(bench) == [LOGIT_SCALES[8]]
    bench.give("dev-2", contribution("b"))
    request = wanted(bench.wait(1))
    bench.handle(solved(request))
    (export,) = [r for r in bench.wait(0) if isinstance(r, ExportHead)]
    assert export.logit_scale == LOGIT_SCALES[8]


def test_models_have_the_methods_scale_until_one_is_fitted() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1")
    bench.give("dev-1", contribution("a"))
    bench.handle(solved(wanted(bench.wait(1))))
    (export,) = [r for r in bench.wait(0) if isinstance(r, ExportHead)]
    assert export.logit_scale is None


def test_few_images_or_losses_of_another_grid_fit_nothing() -> None:
    bench = with_model()
    bench.message("dev-1", evaluation(bowl(8), images=49))
    bench.message("dev-2", evaluation((1, 2, 3), images=1000))
    bench.wait(0)
    assert fitted(bench) == []


def test_a_scale_that_is_hardly_better_changes_nothing() -> None:
    bench = with_model()
    bench.message("dev-1", evaluation(bowl(8)))
    bench.wait(0)
    bench.message("dev-2", evaluation(bowl(9, depth=(1 << 20) + 5000)))
    bench.wait(0)
    assert fitted(bench) == [LOGIT_SCALES[8]]


@pytest.mark.parametrize(("gain", "found"), [(0.009, []), (0.011, [LOGIT_SCALES[1]])])
def test_a_network_keeps_the_scale_that_it_is_trained_with_unless_another_is_better(
    gain: float, found: list[float]
) -> None:
    bench = RoundBench(per_stage=1)
    bench.lead()
    bench.average(bench.whole_round(1))
    bench.wait(0)
    (export,) = [r for r in bench.wait(0) if isinstance(r, ExportHead)]
    bench.handle(exported(export.solved.version))
    best, images = 60 << 16, 60
    worse = round(gain * images / LOSS_UNIT)
    losses = (best + worse, *(best + place for place in range(len(LOGIT_SCALES) - 1)))
    bench.message("dev-1", evaluation(losses, images=images))
    bench.wait(0)
    assert fitted(bench) == found


def test_only_the_newest_evaluated_version_counts() -> None:
    bench = with_model()
    bench.message("dev-1", evaluation(bowl(8)))
    bench.wait(0)
    bench.give("dev-2", contribution("b"))
    bench.make_model(wanted(bench.wait(1)))
    bench.message("dev-1", evaluation(bowl(12), version=2))
    bench.message("dev-2", evaluation(bowl(2, depth=1 << 30), version=1))
    bench.wait(0)
    assert bench.core.state.models.logit_scale == LOGIT_SCALES[12]


def test_a_replay_knows_the_same_scale() -> None:
    bench = with_model()
    bench.message("dev-1", evaluation(bowl(8)))
    bench.wait(0)
    twin = Bench(RULES)
    for body, device, time_ns in bench.entries:
        twin.core.state.apply(body, device, time_ns)
    assert twin.core.state == bench.core.state
    assert twin.wait(0) == bench.wait(0)
