"""Light agents act by themselves: in time, by their own rules, with what they report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen
from fleetledger.device_agent.core.inputs import Input
from fleetledger.device_agent.core.requests import Measure
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.virtual.device_jobs import VirtualDeviceJobs
from tests.simulator.engines.inprocess.light.both import learn, told
from tests.simulator.engines.inprocess.small import Quiet, changed, fleet_of
from tests.simulator.rounds.small import Watching, prepared, small, with_proxy

REPORTS = {"classes": 4, "count": 2, "opened_by": "reports"}
DETECTION = {"quiet_images": 100, "min_images": 5}


def test_every_device_installs_every_model(cache: Path, tmp_path: Path) -> None:
    timed = learn(InProcessEngine, fleet_of(cache), tmp_path)
    told_of = [body.status.version for body in timed.bodies(DeviceModelStatus)]
    assert sorted(told_of) == [1, 1, 1, 2, 2, 2]
    for record in timed.records:
        phases = ("features", "statistics", "intake", "solve", "export", "ledger", "fleet")
        assert min(record.seconds[phase] for phase in phases) > 0
        for device in record.devices.values():
            assert min(device.bytes_up, device.bytes_down, device.compute_seconds) > 0


def test_reports_open_a_stage(cache: Path, tmp_path: Path) -> None:
    timed = learn(InProcessEngine, fleet_of(cache, stages=REPORTS), tmp_path)
    assert {item.why for item in timed.records[1].transitions} == {"class name"}


@pytest.mark.parametrize("count", [3, pytest.param(10, marks=pytest.mark.nightly)])
def test_new_images_are_measured(
    count: int, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    measure = VirtualDeviceJobs._measure

    def noted(self: VirtualDeviceJobs, request: Measure) -> Input:
        asked.append(tuple(image.path for image in request.images))
        return measure(self, request)

    monkeypatch.setattr(VirtualDeviceJobs, "_measure", noted)
    sections = {"stages": REPORTS, "detection": DETECTION, "devices": {"count": count}}
    timed = learn(InProcessEngine, fleet_of(cache, **sections), tmp_path)
    assert len(set(asked)) >= count
    plain = learn(InProcessEngine, fleet_of(cache, devices={"count": count}), tmp_path / "plain")
    assert [one.aggregate for one in timed.records] == [one.aggregate for one in plain.records]


def test_messages_take_their_time(cache: Path, tmp_path: Path) -> None:
    slow, quick = (
        learn(InProcessEngine, fleet_of(cache, engine={"latency_ms": latency}), tmp_path / name)
        for name, latency in (("slow", 200.0), ("quick", 0.0))
    )
    assert told(slow.ledger) == told(quick.ledger)
    assert slow.records[0].fleet_seconds > quick.records[0].fleet_seconds + 0.5


def test_who_is_late_counts_later(cache: Path, tmp_path: Path) -> None:
    what = fleet_of(cache, engine={"deadline_seconds": 100.0})
    plan = changed(what.plan, 1, device_3={"delay_seconds": 130.0})
    plan = changed(plan, 2, device_1={"delay_seconds": 60.0})
    timed = learn(InProcessEngine, replace(what, plan=plan), tmp_path)
    assert timed.records[0].devices["device-3"].answered_seconds is None
    assert 60 <= (timed.records[1].devices["device-1"].answered_seconds or 0) < 70


def test_who_is_late_with_a_report_says_all_that_is_new(cache: Path, tmp_path: Path) -> None:
    """An answer of a job comes before the next message: in another order one report is missing."""
    engine = {"deadline_seconds": 100.0}
    what = fleet_of(cache, stages=REPORTS, engine=engine)
    plan = changed(what.plan, 1, device_3={"delay_seconds": 130.0})
    plan = changed(plan, 2, device_1={"delay_seconds": 60.0})
    timed = learn(InProcessEngine, replace(what, plan=plan), tmp_path)
    met = timed.records[1].transitions
    holders = [name for name, one in plan.stages[1].devices.items() if len(one.indices)]
    assert sorted(item.device for item in met) == sorted(holders)


def test_who_is_away_gives_what_was_held_back(cache: Path, tmp_path: Path) -> None:
    what = fleet_of(cache, engine={"deadline_seconds": 500.0})
    plan = changed(what.plan, 1, device_2={"online": False})
    timed = learn(InProcessEngine, replace(what, plan=plan), tmp_path)
    assert 500 <= timed.records[0].fleet_seconds < 520


@pytest.mark.parametrize(
    "settings",
    [{"form": "exact", "map_width": 400}, {"form": "estimated", "map_width": 64}],
    ids=["offered", "estimated"],
)
def test_parts_of_every_size(settings: dict[str, Any], cache: Path, tmp_path: Path) -> None:
    method = {"name": "stsa", "settings": {"max_samples_per_part": 40, **settings}}
    what = fleet_of(cache, method=method, devices={"count": 5})
    timed = learn(InProcessEngine, what, tmp_path)
    largest = max(body.part.payload_bytes for body in timed.bodies(ContributionAccepted))
    assert (largest > 64 * 1024) is (settings["form"] == "exact")


def test_payloads_leave_the_memory_with_their_receipts(cache: Path, tmp_path: Path) -> None:
    method = {"name": "stsa", "settings": {"form": "exact", "map_width": 400}}
    what = fleet_of(cache, method=method)
    engine = InProcessEngine(what, tmp_path, Quiet())
    for stage in what.plan.stages:
        engine.learn(stage)
    assert all(not device._memory.payloads for device in engine._fleet.devices.values())
    assert not engine._fleet._context.files._payloads
    engine.close()


def test_the_same_seed_gives_the_same_times(cache: Path, tmp_path: Path) -> None:
    what = fleet_of(cache, "estimated")
    one, two = (learn(InProcessEngine, what, tmp_path / name) for name in ("one", "two"))
    assert [entry.time_ns for entry, _ in one.ledger] == [entry.time_ns for entry, _ in two.ledger]


@pytest.mark.torch
@pytest.mark.usefixtures("own_cache")
def test_gradients_reach_a_proxy(tmp_path: Path) -> None:
    what = prepared(with_proxy())
    timed = learn(InProcessEngine, what, tmp_path)
    assert timed.bodies(OldModelChosen)[-1].answer.gradients > 0
    carried = timed.records[0].proxy
    assert carried is not None
    assert carried.gradient_bytes > 0


@pytest.mark.torch
def test_memories_of_rounds_that_are_over_are_removed(tmp_path: Path) -> None:
    settings = {"preset": "fedavg-exemplars", "exemplars": 12}
    what = prepared(small(method={"settings": settings}))
    engine = InProcessEngine(what, tmp_path, Watching())
    for stage in what.plan.stages:
        engine.learn(stage)
    held = {device._memory.records.memory for device in engine._fleet.devices.values()}
    files = engine._fleet._context.files
    assert len(held) == len(what.plan.devices)
    assert set(files._held) == held
    assert held <= files.digests()
    engine.close()
