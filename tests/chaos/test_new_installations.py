"""A device that is installed anew while messages of the former installation are still under way."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.core.devices import Devices
from tests.chaos.checks import Broken
from tests.chaos.faults import Crash, NetworkFaults, Troubles
from tests.chaos.runs import run_troubles
from tests.chaos.trials import Trials

FLEET = 1
"""It has many parts, so that messages of the former installation use numbers of the new one."""
POINTS = range(10, 42, 4)


def broken(trials: Trials, folder: Path) -> Iterator[Broken]:
    """Take a device's disk after some of its messages were sent; half of the messages are late."""
    material, undisturbed = trials.prepared(FLEET)
    for after in POINTS:
        network_faults = NetworkFaults(
            until=60.0, loss=0.0, duplicate=0.0, late=0.5, late_seconds=_late(after)
        )
        crash = Crash("publish", after, power_cut=True, down_seconds=0.1, loses_disk=True)
        troubles = Troubles(10 * after + FLEET, network_faults, {"device-1": (crash,)}, (), ())
        report = run_troubles(material, undisturbed, troubles, folder / "run")
        assert report.done["devices installed anew"] == 1
        shutil.rmtree(folder / "run")
        yield from report.broken


def _late(after: int) -> float:
    return (4.0, 12.0, 30.0)[after % 3]


@pytest.mark.nightly
def test_what_the_former_installation_sent_late_is_not_counted_beside(
    trials: Trials, tmp_path: Path
) -> None:
    assert list(broken(trials, tmp_path)) == []


@pytest.mark.nightly
def test_without_a_word_about_what_is_held_it_would_be(
    trials: Trials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Devices, "_holds_otherwise", lambda *_: False)
    assert any(broken(trials, tmp_path))
