"""One crash in an otherwise calm run, at points all over it, of a device and of the coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.faults import CALM, Crash, Troubles
from tests.chaos.runs import run_troubles
from tests.chaos.trials import Trials

FLEET = 2
"""Its payloads are offered in blocks, so that most kinds of file are written."""
POINTS = 400
"""A little more than a program passes in a calm run."""
APART = 61


@pytest.mark.parametrize(
    "power_cut",
    [pytest.param(True, id="power cut"), pytest.param(False, id="kill", marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize("program", ["coordinator", "device-1"])
def test_a_crash_at_any_point_changes_nothing_in_the_end(
    trials: Trials, tmp_path: Path, program: str, power_cut: bool
) -> None:
    material, undisturbed = trials.prepared(FLEET)
    ended = 0
    # A kill and a power cut come at points of their own.
    for after in range(APART // 2 if power_cut else 0, POINTS, APART):
        crash = Crash("", after, power_cut, down_seconds=3.0)
        troubles = Troubles(after, CALM.network_faults, {program: (crash,)}, (), ())
        report = run_troubles(material, undisturbed, troubles, tmp_path / str(after))
        assert not report.broken, (after, report.broken)
        ended += report.done.get("kills", 0) + report.done.get("power cuts", 0)
    assert ended > POINTS // APART // 2
