"""The seeds among the first fifty whose fleets train: rounds of both ways, adapters, a proxy."""

from __future__ import annotations

import pytest

from tests.chaos.test_seeds import blocks
from tests.chaos.trials import Trials
from tests.chaos.variants import ASYNCHRONOUS

pytestmark = pytest.mark.torch

BY_DAY, SEEDS, AT_ONCE = 25, 50, 25


@pytest.mark.parametrize("first", blocks(BY_DAY, SEEDS, AT_ONCE))
def test_no_seed_breaks_a_promise(trials: Trials, first: int) -> None:
    seeds = [seed for seed in range(first, first + AT_ONCE) if trials.trains(seed)]
    reports = [trials.run(seed) for seed in seeds]
    broken = [f"{report}\n  {sentence}" for report in reports for sentence in report.broken]
    assert not broken, "\n".join(broken)
    titles = {report.scenario for report in reports}
    assert titles == {"rounds", "adapters", "a proxy", ASYNCHRONOUS, "rounds, behind masks"}


@pytest.mark.nightly
def test_a_seed_that_trains_is_repeated_exactly(trials: Trials) -> None:
    first, second = trials.run(12), trials.run(12)
    assert first.done == second.done
    assert first.fleet_seconds == second.fleet_seconds
