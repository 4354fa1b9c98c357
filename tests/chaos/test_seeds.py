"""Twenty fleets whose network and programs fail at random instants keep every promise.

Those that train a network have tests of their own.

Twenty more are by night. Two thousand: `python -m tests.chaos --seeds 0-1999`.
One again: `--seeds 137 --keep DIR`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.trials import Trials

BY_DAY, SEEDS, AT_ONCE = 5, 40, 5


def blocks(by_day: int, seeds: int, at_once: int) -> list[Any]:
    """The first seeds of blocks; those after `by_day` are by night."""
    return [
        pytest.param(
            first,
            id=f"{first}-{first + at_once - 1}",
            marks=[pytest.mark.nightly] if first >= by_day else [],
        )
        for first in range(0, seeds, at_once)
    ]


@pytest.mark.parametrize("first", blocks(BY_DAY, SEEDS, AT_ONCE))
def test_no_seed_breaks_a_promise(trials: Trials, first: int) -> None:
    seeds = [seed for seed in range(first, first + AT_ONCE) if not trials.trains(seed)]
    reports = [trials.run(seed) for seed in seeds]
    broken = [f"{report}\n  {sentence}" for report in reports for sentence in report.broken]
    assert not broken, "\n".join(broken)
    assert sum(report.done.get("kills", 0) for report in reports) > 0
    assert sum(report.done.get("power cuts", 0) for report in reports) > 0


def test_a_seed_is_repeated_exactly(trials: Trials) -> None:
    first, second = trials.run(4), trials.run(4)
    assert first.done == second.done
    assert first.fleet_seconds == second.fleet_seconds
