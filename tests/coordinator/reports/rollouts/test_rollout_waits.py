"""A rollout says what it waits for and until when, and is as good as its word."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.command_previews import preview_push
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.rollouts.lookup import one_rollout, summaries
from fleetledger.coordinator.reports.rollouts.preview import preview
from fleetledger.coordinator.reports.rollouts.rollout_waits import preview_waits
from fleetledger.coordinator.reports.waits import Wait
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.commands import TagDevices
from fleetledger.coordinator.topics.models.commands import PushModel
from fleetledger.coordinator.topics.rollouts.commands import (
    ApproveGroup,
    EndRollout,
    PauseRollout,
    PlanRollout,
)
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.schemas.rollouts import LocalHours
from fleetledger.schemas.tags import TagSelector
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import SECOND
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.rollouts.rollout_bench import RolloutBench, plan

AT = 1_763_629_080 * SECOND
"""20 November 2025, 08:58 UTC."""


def waits(folder: Path, bench: RolloutBench) -> Wait | None:
    """Return what the newest rollout waits for; the list of rollouts says the same."""
    here = folder / f"{bench.core.state.size} {bench.now_ns}"
    here.mkdir(parents=True)
    write(here, bench)
    with ledger_of(here) as ledger:
        found = one_rollout(ledger, bench.rollout.number, bench.now_ns).rollout.wait
        assert summaries(ledger, bench.now_ns)[0].wait == found
    return found


def said(folder: Path, bench: RolloutBench) -> str:
    found = waits(folder, bench)
    return "" if found is None else found.sentence


def begun(**changes: object) -> RolloutBench:
    bench = RolloutBench(now_ns=AT)
    bench.fleet(4)
    bench.begin_rollout(**{"groups": (1, 1.0), "soak_seconds": 3600.0, **changes})
    return bench


def test_a_rollout_settles_then_soaks_and_goes_on_when_it_said(tmp_path: Path) -> None:
    bench = begun(settle_seconds=600.0)
    (first,) = bench.offered()
    assert said(tmp_path, bench) == (
        f"Group 1 waits for 1 device ({first}) of 1, which has not switched to it yet, until "
        "21 Nov 08:58 UTC at the latest, and goes on without a device that is away for 1.7 min; "
        "it settles 10 min after that if all stays well."
    )
    bench.says(first, "active")
    settles = waits(tmp_path, bench)
    assert settles is not None
    assert settles.sentence == (
        "Group 1 settles until 09:08 UTC, then soaks 1 h; group 2 opens at 10:08 UTC if all stays "
        "well."
    )
    assert settles.until == AT + 600 * SECOND
    bench.wait(601)
    assert said(tmp_path, bench).startswith(
        "Group 1 waits for 1 device to say that it has settled, due at 09:08:00 UTC; until "
    )
    bench.compares(first)
    bench.says(first, "settled")
    bench.settle()
    soaks = waits(tmp_path, bench)
    assert soaks is not None
    assert soaks.sentence == "It soaks until 10:08 UTC; group 2 opens then if all stays well."
    assert soaks.until is not None
    bench.wait((soaks.until - bench.now_ns) / SECOND - 1)
    bench.settle()
    assert bench.offered() == [first]
    bench.wait(2)
    bench.settle()
    assert len(bench.offered()) == 4
    assert said(tmp_path, bench).startswith("Group 2 waits for 3 devices (")


def test_the_last_group_says_when_it_has_finished(tmp_path: Path) -> None:
    bench = begun(groups=(1.0,), settle_seconds=60.0)
    for device in bench.offered():
        bench.says(device, "active")
    assert said(tmp_path, bench) == (
        "Group 1 settles until 08:59:00 UTC, then soaks 1 h; it has finished at 09:59 UTC if all "
        "stays well."
    )


def test_a_rollout_that_waits_for_a_person_says_for_what(tmp_path: Path) -> None:
    bench = RolloutBench(now_ns=AT)
    bench.fleet(4)
    bench.command(PlanRollout(version=2, plan=plan()))
    assert said(tmp_path, bench) == "It waits until somebody starts it."
    other = begun(approve="operator")
    assert said(tmp_path / "b", other) == "It waits until somebody approves group 1."
    paused = begun()
    paused.command(PauseRollout(rollout=1))
    assert said(tmp_path / "c", paused) == (
        "It stands still until somebody decides: back, resume or abort."
    )
    paused.command(EndRollout(rollout=1))
    assert waits(tmp_path / "c", paused) is None


def test_devices_on_which_it_failed_and_hours_are_told(tmp_path: Path) -> None:
    hours = LocalHours(begins=22 * 60, ends=5 * 60)
    bench = begun(hours=hours, retries=2)
    assert said(tmp_path, bench).endswith(
        "Devices switch between 22:00 and 05:00 by their own clocks."
    )
    (first,) = bench.offered()
    bench.says(first, "failed")
    assert said(tmp_path, bench).startswith(
        "Group 1 waits for 1 device on which it failed: each may try again, until "
    )


@pytest.mark.parametrize(
    ("changes", "devices", "sentence"),
    [
        (
            {},
            (1, 2, 7),
            "Started at 08:58:00 UTC, group 1 settles until 09:08 UTC, then soaks 1 h; group 2 "
            "opens at 10:08 UTC, group 3 opens at 11:18 UTC, it has finished at 12:28 UTC if all "
            "stays well, without the time that devices take.",
        ),
        (
            {"soak_seconds": 0},
            (1, 0, 7),
            "Started at 08:58:00 UTC, group 1 settles until 09:08 UTC; group 3 opens at 09:08 UTC, "
            "it has finished at 09:18 UTC if all stays well, without the time that devices take.",
        ),
        (
            {"groups": (1.0,), "approve": "operator"},
            (5,),
            "Once somebody approves it, group 1 settles until 09:08 UTC, then soaks 1 h; it has "
            "finished at 10:08 UTC if all stays well, without the time that devices take and "
            "people take to let groups go.",
        ),
    ],
)
def test_a_plan_says_when_its_groups_would_open(
    changes: dict[str, object], devices: tuple[int, ...], sentence: str
) -> None:
    chosen = RolloutPlan.model_validate({"groups": (1, 3, 1.0), **changes})
    assert preview_waits(chosen, devices, AT) == sentence


@pytest.mark.parametrize(
    ("approve", "asked"),
    [
        (None, "a release key has signed it"),
        ("operator", "somebody approves it and a release key has signed it"),
        ("release-key", "a release key has signed it"),
    ],
)
def test_a_plan_waits_for_a_key_that_is_not_here(approve: str | None, asked: str) -> None:
    chosen = RolloutPlan.model_validate({"groups": (1, 1.0), "approve": approve})
    told = preview_waits(chosen, (1, 4), AT, unsigned=True)
    assert told.startswith(f"Once {asked}, group 1 settles until ")
    assert told.endswith("and people take to let groups go.")


def test_a_push_waits_for_a_key_that_is_not_here(tmp_path: Path) -> None:
    write(tmp_path, begun())
    with ledger_of(tmp_path) as ledger:
        told = preview_push(ledger, DeviceChoice(), 2, unsigned=True)
        planned = preview(ledger, 2, plan(), None, AT, unsigned=True).sentences
    assert (
        "no device may install it until a release key has signed it: `fleetledger model sign 2 "
        "--key FILE`"
    ) in told
    assert (
        "Each group waits for a signature before any of its devices may install it: `fleetledger "
        "rollout approve 2 --key FILE`."
    ) in planned


def test_a_group_that_somebody_lets_go_is_said_to_wait_for_that(tmp_path: Path) -> None:
    bench = begun(approve="operator", settle_seconds=60.0)
    bench.command(ApproveGroup(rollout=1))
    bench.settle()
    for device in bench.offered():
        bench.says(device, "active")
    assert "group 2 opens at 09:59 UTC, once somebody has approved it," in said(tmp_path, bench)


def test_a_push_says_that_it_ends_the_rollout_that_is_open(tmp_path: Path) -> None:
    write(tmp_path, begun())
    with ledger_of(tmp_path) as ledger:
        everybody = preview_push(ledger, DeviceChoice(), 2)
        one = preview_push(ledger, DeviceChoice.read(["dev-0001"], None), 2)
    told = "rollout 1 of model 2 is open, and ends by this"
    assert told in everybody
    assert told not in one


def desired(folder: Path, bench: RolloutBench) -> dict[str, int | None]:
    """Return what each device is to run by the tables; the coordinator's state says the same."""
    here = folder / f"{bench.core.state.size}"
    here.mkdir()
    write(here, bench)
    with ledger_of(here) as ledger:
        fleet = fleet_now(ledger, None, bench.now_ns)
    found = {one.name: one.desired_version for one in fleet.devices}
    for name, version in found.items():
        told = bench.core.state.models.desired_for(DeviceId(name))
        assert told is not None
        assert told.version == version, name
    return found


def test_a_device_of_an_open_group_is_to_run_what_the_group_offers(tmp_path: Path) -> None:
    bench = begun()
    (first,) = bench.offered()
    bench.says(first, "active")
    told = {f"dev-{number:04}": 1 for number in range(4)} | {first: 2}
    assert desired(tmp_path, bench) == told
    bench.command(EndRollout(rollout=1))
    assert desired(tmp_path, bench) == told, "devices keep what they run"


def test_an_offer_is_over_once_a_version_is_everybodys_be_it_the_former_one(
    tmp_path: Path,
) -> None:
    bench = begun()
    bench.says(bench.offered()[0], "active")
    bench.command(EndRollout(rollout=1))
    bench.command(PushModel(version=1))
    assert set(desired(tmp_path, bench).values()) == {1}
    bench.begin_rollout()
    assert sorted(desired(tmp_path, bench).values(), key=str) == [1, 1, 1, 2]


def test_devices_keep_the_offer_of_a_rollout_of_some_that_has_finished(tmp_path: Path) -> None:
    bench = RolloutBench(now_ns=AT)
    names = bench.fleet(4)
    bench.command(TagDevices(devices=names[:2], put={"site": "ash"}))
    bench.begin_rollout(groups=(1.0,), tags=(TagSelector.parse("site=ash"),))
    bench.all_answer_of(2)
    bench.wait(61)
    bench.settle()
    assert bench.rollout.stage == "finished"
    assert list(desired(tmp_path, bench).values()) == [2, 2, 1, 1]


def test_an_offer_and_a_push_to_a_device_count_by_which_came_last(tmp_path: Path) -> None:
    bench = RolloutBench(now_ns=AT)
    names = bench.fleet(2, models=3)
    bench.command(PushModel(version=3, devices=tuple(names)))
    bench.begin_rollout(groups=(1, 1.0))
    (first,) = bench.offered()
    assert desired(tmp_path, bench)[first] == 2
    bench.command(PushModel(version=3, devices=(DeviceId(first),)))
    assert desired(tmp_path, bench)[first] == 3


def test_a_device_of_a_rollout_that_went_back_is_to_run_the_former_model(tmp_path: Path) -> None:
    bench = begun()
    bench.says(bench.offered()[0], "active")
    bench.command(EndRollout(rollout=1, back=True))
    assert set(desired(tmp_path, bench).values()) == {1}
