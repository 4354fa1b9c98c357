"""Fleets that get a candidate keep every promise, and come to the same verdict, whoever is killed.

More: `python -m tests.chaos --rollouts --seeds 0-499`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.faults import CALM, Crash, Troubles
from tests.chaos.runs import run_troubles
from tests.chaos.test_seeds import blocks
from tests.chaos.trials import Trials

BY_DAY, SEEDS, AT_ONCE = 2, 4, 2
LOST = 4
"""A class is lost, and the candidate is measured once it runs: everything happens in groups."""
POINTS, APART = 900, 113
"""A little more than a program passes in a calm run."""


@pytest.mark.parametrize("first", blocks(BY_DAY, SEEDS, AT_ONCE))
def test_no_seed_breaks_a_promise(rollouts: Trials, first: int) -> None:
    reports = [rollouts.run(seed) for seed in range(first, first + AT_ONCE)]
    broken = [f"{report}\n  {sentence}" for report in reports for sentence in report.broken]
    assert not broken, "\n".join(broken)
    assert sum(report.done.get("power cuts", 0) for report in reports) > 0


def test_undisturbed_fleets_end_as_their_candidates_deserve(rollouts: Trials) -> None:
    ends = [rollouts.prepared(number)[1].rollouts[1] for number in range(rollouts.fleets)]
    stages = [end.stage for end in ends]
    assert stages == [*["finished"] * 2, *["rolled_back"] * 4, "paused"]
    assert [end.groups for end in ends] == [3, 3, 2, 1, 2, 0, 2]


@pytest.mark.parametrize(
    "power_cut",
    [pytest.param(True, id="power cut"), pytest.param(False, id="kill", marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize(
    "between",
    [
        pytest.param((0,), id="every fourth"),
        pytest.param((1, 2, 3), id="between", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("program", ["coordinator", "device-3"])
def test_a_crash_at_any_point_changes_no_verdict(
    rollouts: Trials, tmp_path: Path, program: str, between: tuple[int, ...], power_cut: bool
) -> None:
    """Every fourth point of a program is by day, those between by night."""
    material, undisturbed = rollouts.prepared(LOST)
    ended = 0
    first = APART // 2 if power_cut else 0
    points = range(first, POINTS, APART)
    for after in (point for at, point in enumerate(points) if at % 4 in between):
        crash = Crash("", after, power_cut, down_seconds=3.0)
        troubles = Troubles(after, CALM.network_faults, {program: (crash,)}, (), ())
        report = run_troubles(material, undisturbed, troubles, tmp_path / str(after))
        assert not report.broken, (after, report.broken)
        ended += report.done.get("kills", 0) + report.done.get("power cuts", 0)
    assert ended


@pytest.mark.parametrize(
    "second",
    [
        5,
        pytest.param(23, marks=pytest.mark.nightly),
        41,
        pytest.param(59, marks=pytest.mark.nightly),
    ],
)
def test_a_broker_that_restarts_while_groups_are_open_changes_no_verdict(
    rollouts: Trials, tmp_path: Path, second: int
) -> None:
    material, undisturbed = rollouts.prepared(LOST)
    troubles = Troubles(second, CALM.network_faults, {}, (), (float(second),))
    report = run_troubles(material, undisturbed, troubles, tmp_path)
    assert not report.broken, report.broken
