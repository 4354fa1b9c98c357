"""Waits are told with what ends them and when, for stages, rounds and rollouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import Rules, StageRules
from fleetledger.coordinator.live.snapshot import StageWait
from fleetledger.coordinator.reports.waits import round_wait, stage_wait
from fleetledger.runtime.times import clock_time
from tests.coordinator.core.harness import SECOND, Bench, contribution
from tests.coordinator.reports.test_fleet import here, live, seen

NOW = 1_763_629_080 * SECOND
"""20 November 2025, 08:58 UTC."""


def waiting(**more: object) -> StageWait:
    said = {"answered": 2, "expected": 5, "needed": 3, "quiet_seconds": 30.0}
    return StageWait.model_validate(said | {"latest_ns": NOW + 720 * SECOND} | more)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (0, "08:58:00 UTC"),
        (119, "08:59:59 UTC"),
        (3600, "09:58 UTC"),
        (-9 * 3600, "19 Nov 23:58 UTC"),
        (86_400, "21 Nov 08:58 UTC"),
        (365 * 86_400, "20 Nov 2026 08:58 UTC"),
    ],
)
def test_a_time_has_its_day_and_its_year_only_where_it_needs_them(after: int, words: str) -> None:
    assert clock_time(NOW + after * SECOND, NOW) == words


@pytest.mark.parametrize(
    ("wait", "sentence"),
    [
        (
            waiting(),
            "It closes when 3 of 5 devices have answered and nothing has come for 30 s, or at "
            "09:10 UTC.",
        ),
        (
            waiting(expected=1, needed=1, answered=0),
            "It closes when 1 device has answered and nothing has come for 30 s, or at 09:10 UTC.",
        ),
        (
            waiting(needed=5, away_seconds=1200.0),
            "It closes when 5 devices have answered and nothing has come for 30 s, or at 09:10 "
            "UTC. It does not wait for a device that is away for 20 min.",
        ),
        (
            waiting(answered=5, needed=5, quiet_ns=NOW + 12 * SECOND),
            "All devices have answered: it closes at 08:58:12 UTC, unless more comes; 30 s of "
            "quiet close it.",
        ),
        (
            waiting(answered=3, quiet_ns=NOW + 12 * SECOND),
            "Enough devices have answered: it closes at 08:58:12 UTC, unless more comes; 30 s of "
            "quiet close it.",
        ),
    ],
)
def test_a_stage_says_how_many_answers_close_it_and_when(wait: StageWait, sentence: str) -> None:
    assert stage_wait(wait, NOW).sentence == sentence


@pytest.mark.parametrize(
    ("asked", "whom"), [(1, "the device that it asks has"), (2, "all 2 devices that it asks have")]
)
def test_a_round_says_whose_answers_close_it(asked: int, whom: str) -> None:
    found = round_wait(asked, NOW + 600 * SECOND, NOW)
    assert found.sentence == f"It closes when {whom} answered, or at 09:08 UTC."
    assert found.until == NOW + 600 * SECOND


def test_what_a_stage_waits_for_is_what_closes_it() -> None:
    """The time that is told is the time at which the rules close the stage, and not before."""
    rules = Rules(stages=StageRules(quorum=0.6, quiet_seconds=30, deadline_seconds=3600))
    bench = Bench(rules)
    bench.begin("a", "b", "c", "d", "e")
    asked = bench.core.stages.wait()
    assert asked is not None
    assert (asked.answered, asked.needed, asked.expected) == (0, 3, 5)
    assert asked.quiet_ns is None
    for number, name in enumerate("abc"):
        bench.give(name, contribution(f"image-{number}"))
    ready = bench.core.stages.wait()
    assert ready is not None
    assert ready.quiet_ns is not None
    bench.wait((ready.quiet_ns - bench.now_ns) / SECOND - 1)
    assert bench.core.state.stages.open == 1
    bench.wait(2)
    assert bench.core.state.stages.open is None
    assert bench.core.stages.wait() is None


def test_a_stage_that_no_coordinator_closes_says_so(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin("dev-1")
    stage = seen(tmp_path, bench, None).stage
    assert stage is not None
    assert stage.wait.sentence == "It stays open, since no coordinator runs."
    served = seen(tmp_path / "served", bench, live(here("dev-1"), stage=waiting())).stage
    assert served is not None
    assert "or at 20 Nov 2025 09:10 UTC" in served.wait.sentence
