"""Ten agents on Mosquitto, models made elsewhere, groups of devices, an offline release key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.topics.models.entries import DeviceModelStatus, ModelDesired
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned
from fleetledger.coordinator.topics.rollouts.entries import (
    ModelCompared,
    RolloutFinished,
    RolloutMeasured,
    RolloutRolledBack,
)
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.rollout_fleet import DEVICES, RolloutFleet

FEWER = ("--gate", "retention=20", "--gate", "no_class_lost=2")
"""Ten devices can tell no more."""

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1200)]


@pytest.fixture
def fleet(tmp_path: Path, mosquitto: MosquittoBroker) -> Iterator[RolloutFleet]:
    """Ten agents that run model 1."""
    with Children(tmp_path) as children:
        made = RolloutFleet(tmp_path, mosquitto, children)
        made.run_model_1()
        yield made


def test_a_lost_class_ends_it_in_the_shadow_and_a_good_model_arrives_by_an_offline_key(
    fleet: RolloutFleet, tmp_path: Path
) -> None:
    fleet.import_model(2, loses="top")
    fleet.plan(2, "--start", "--groups", "8,100%", *FEWER)
    fleet.until(lambda: fleet.entries(RolloutRolledBack))
    check_that_nobody_ran_it(fleet)
    check_verdicts_elsewhere(fleet, tmp_path / "elsewhere")

    key = fleet.put_release_key_away()
    fleet.import_model(3, scale=1.01)
    fleet.plan(3, "--start", "--groups", "6,100%", "--approve", "release-key", *FEWER)
    check_that_groups_wait_for_the_key(fleet, key)
    devices = [name for name, body in fleet.entries(ModelCompared) if body.comparison.rollout == 2]
    assert sorted(map(str, devices)) == sorted(DEVICES), "each one has measured it once"


def check_that_nobody_ran_it(fleet: RolloutFleet) -> None:
    verdict = fleet.entries(RolloutMeasured)[-1][1]
    failed = {
        finding.gate: finding.of_class for finding in verdict.gates if finding.outcome == "fail"
    }
    assert (verdict.group, verdict.mode, failed["no_class_lost"]) == (1, "shadow", "top")
    statuses = [body.status for _, body in fleet.entries(DeviceModelStatus)]
    assert {status.version for status in statuses if status.state == "active"} == {1}
    told = fleet.entries(ModelDesired)[-1][1]
    assert (told.version, told.devices, told.group) == (1, None, None)
    assert fleet.running() == [1] * len(DEVICES)
    fleet.until(lambda: not any(fleet.status(device).candidate for device in DEVICES))


def check_verdicts_elsewhere(fleet: RolloutFleet, folder: Path) -> None:
    exported = fleet.folder / "exported"
    fleet.operator("ledger", "export", str(exported))
    exported.rename(folder)
    said = fleet.run("rollout", "verify", "1", "--ledger", str(folder), "--home", "nowhere")
    count = len(fleet.entries(RolloutMeasured))
    assert f"{count} of {count} verdicts came out as recorded" in said


def check_that_groups_wait_for_the_key(fleet: RolloutFleet, key: Path) -> None:
    fleet.until(lambda: fleet.waits_for_signature(2))
    assert not [1 for _, body in fleet.entries(ModelCompared) if body.comparison.rollout == 2]
    fleet.operator("rollout", "approve", "2", "--key", str(key))
    fleet.until(lambda: fleet.running().count(3) == 6)
    fleet.until(lambda: fleet.waits_for_signature(2))
    assert sorted(map(str, fleet.running())) == ["1"] * 4 + ["3"] * 6
    fleet.operator("rollout", "approve", "2", "--group", "2", "--key", str(key))
    fleet.until(lambda: fleet.running() == [3] * len(DEVICES))
    fleet.until(lambda: fleet.entries(RolloutFinished))
    signed = [body.signed.release for _, body in fleet.entries(ReleaseSigned)]
    shares = [release.share is not None for release in signed if release.version == 3]
    assert shares == [True, True, False], "of the first group to measure and to run, then of all"
