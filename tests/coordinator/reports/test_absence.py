"""Who is away is told with the time, an outage as one, and a stage says for whom it waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import Rules, StageRules
from fleetledger.coordinator.live.snapshot import DeviceNow
from fleetledger.coordinator.reports.answers import Need
from fleetledger.coordinator.reports.needs import at_home
from fleetledger.coordinator.topics.devices.commands import AdmitDevice, TagDevices
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import SECOND, Bench, contribution
from tests.coordinator.reports.test_fleet import NOW, here, live, seen

RULES = Rules(stages=StageRules(quiet_seconds=10, deadline_seconds=1e6))
DAY = 86_400


def away(name: str, seconds: float) -> DeviceNow:
    since = NOW - round(seconds * SECOND)
    return DeviceNow.model_validate({"device": name, "online": False, "since_ns": since})


def told(tmp_path: Path, bench: Bench, *devices: DeviceNow, **run: object) -> list[Need]:
    needs = seen(tmp_path, bench, live(*devices, **run)).needs
    return [need for need in needs if need.command != "fleetledger ledger show"]


def test_a_stage_says_for_whom_it_waits_how_long_and_what_closes_it(tmp_path: Path) -> None:
    bench = Bench(RULES)
    bench.begin("camera-1", "camera-2", "camera-3")
    bench.command(AdmitDevice(device=DeviceId("camera-4")))
    bench.give("camera-1", contribution("a"))
    (need,) = [
        need
        for need in told(
            tmp_path,
            bench,
            here("camera-1"),
            here("camera-2"),
            away("camera-3", 3 * DAY),
            stage={
                "answered": 1,
                "expected": 4,
                "needed": 4,
                "quiet_seconds": 10.0,
                "latest_ns": NOW + 60 * SECOND,
            },
        )
        if need.sentence.startswith("Stage")
    ]
    assert need.sentence == (
        "Stage 1 has waited for 1.4 h, just now for camera-2 (here, and has not answered), "
        "camera-3 (away for 3 days), camera-4 (admitted 1.4 h ago, and never came)."
    )
    assert need.more == (
        "It closes when 4 devices have answered and nothing has come for 10 s, or at 01:24:20 UTC."
    )
    assert need.command == "fleetledger coordinator close-stage"


def test_a_device_that_is_away_for_days_may_be_retired(tmp_path: Path) -> None:
    bench = Bench(RULES)
    for name in ("camera-1", "camera-2"):
        bench.command(AdmitDevice(device=DeviceId(name)))
        bench.born(name)
    (need,) = told(tmp_path, bench, away("camera-1", 90), away("camera-2", 3 * DAY))
    assert need.sentence == (
        "Not here: camera-2 (away for 3 days), camera-1 (away for 1.5 min). If camera-2 does not "
        "come back, retire it."
    )
    assert need.command == "fleetledger device retire camera-2"
    assert need.devices == ("camera-2", "camera-1")


@pytest.mark.parametrize("seconds", [5, 59])
def test_nothing_is_said_in_the_first_minute(tmp_path: Path, seconds: int) -> None:
    bench = Bench(RULES)
    bench.command(AdmitDevice(device=DeviceId("camera-1")))
    bench.born("camera-1")
    assert not told(tmp_path / "a", bench, away("camera-1", seconds))
    started = NOW - seconds * SECOND
    assert not told(tmp_path / "b", bench, started_ns=started)


def test_devices_that_went_away_together_are_one_outage_with_their_tag(tmp_path: Path) -> None:
    bench = Bench(RULES)
    names = [f"camera-{number}" for number in range(1, 7)]
    for name in names:
        bench.command(AdmitDevice(device=DeviceId(name)))
        bench.born(name)
    tag = TagDevices(
        devices=tuple(map(DeviceId, names[:4])),
        put={TagName("site"): TagValue("hazel"), TagName("orchard"): TagValue("north")},
    )
    bench.command(tag)
    bench.command(
        TagDevices(devices=(DeviceId(names[4]),), put={TagName("orchard"): TagValue("north")})
    )
    gone = [away(name, 300 + 5 * number) for number, name in enumerate(names[:4])]
    outage, alone = told(tmp_path, bench, *gone, here("camera-5"), away("camera-6", 900))
    assert outage.sentence == "4 devices of site=hazel went away within 15 s."
    assert outage.since == NOW - 315 * SECOND
    assert (outage.urgency, outage.command) == (
        "now",
        "fleetledger device list --tag site=hazel",
    )
    assert alone.devices == ("camera-6",)


def test_two_devices_are_no_outage(tmp_path: Path) -> None:
    bench = Bench(RULES)
    for name in ("camera-1", "camera-2"):
        bench.command(AdmitDevice(device=DeviceId(name)))
        bench.born(name)
    (need,) = told(tmp_path, bench, away("camera-1", 300), away("camera-2", 300))
    assert need.urgency == "today"


def test_a_command_finds_its_home() -> None:
    need = Need(key="?", urgency="now", sentence="?", command="fleetledger coordinator serve")
    assert at_home(need, Path("coordinator-home")) == need
    told = at_home(need, Path("/srv/my fleet"))
    assert told.command == "fleetledger coordinator serve --home '/srv/my fleet'"
    there = need.model_copy(update={"command": "fleetledger agent status"})
    assert at_home(there, Path("/srv/fleet")) == there


def test_a_site_that_is_wholly_away_is_one_need_however_long_it_took_to_go(tmp_path: Path) -> None:
    bench = Bench(RULES)
    names = [f"camera-{number}" for number in range(1, 43)]
    for name in names:
        bench.command(AdmitDevice(device=DeviceId(name)))
        bench.born(name)
    bench.command(
        TagDevices(
            devices=tuple(map(DeviceId, names[:40])), put={TagName("site"): TagValue("hazel")}
        )
    )
    gone = [away(name, 2400 - 40 * number) for number, name in enumerate(names[:40])]
    site, alone = told(tmp_path, bench, *gone, here("camera-41"), away("camera-42", 90))
    assert site.sentence == "All 40 devices of site=hazel are away."
    assert (len(site.devices), site.since) == (40, NOW - 2400 * SECOND)
    assert site.command == "fleetledger device list --tag site=hazel"
    assert alone.devices == ("camera-42",)


def test_an_outage_that_a_broker_notices_over_a_keep_alive_is_one(tmp_path: Path) -> None:
    bench = Bench(RULES)
    names = [f"camera-{number}" for number in range(1, 11)]
    for name in names:
        bench.command(AdmitDevice(device=DeviceId(name)))
        bench.born(name)
    gone = [away(name, 600 - 9 * number) for number, name in enumerate(names[:9])]
    (outage,) = told(tmp_path, bench, *gone, here("camera-10"))
    assert outage.sentence == "9 devices went away within 72 s."
