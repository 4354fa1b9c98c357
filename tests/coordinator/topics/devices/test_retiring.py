"""A device that is gone for good is retired: nothing waits for it, and it may come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.requests import SendToDevice, TakeBack
from fleetledger.coordinator.core.rules import Rules, StageRules
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.topics.devices.commands import (
    AdmitDevice,
    RetireDevice,
    SettleTwins,
    TagDevices,
)
from fleetledger.coordinator.topics.keys.commands import RevokeKey
from fleetledger.coordinator.topics.models.commands import PushModel
from fleetledger.coordinator.topics.rounds.entries import RoundClosed
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.presence import Heartbeat
from fleetledger.schemas.receipts import Accepted, Later
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.values import BootId, DeviceId
from tests.coordinator.core.harness import Bench, contribution, names, receipt, sent
from tests.coordinator.core.round_bench import RoundBench
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.models.test_models import wanted

RULES = Rules(stages=StageRules(quorum=1.0, quiet_seconds=10, deadline_seconds=100_000))
GONE = DeviceId("dev-2")


def retire(bench: Bench, *, retracts: bool = False) -> str:
    answer = bench.command(RetireDevice(device=GONE, reason="scrapped", retracts=retracts))
    assert answer.done, answer.text
    return answer.text


def fleet_of(bench: Bench) -> Bench:
    bench.begin("dev-1", "dev-2", classes=("cat", "dog"))
    return bench


def test_a_stage_closes_without_a_retired_device() -> None:
    bench = fleet_of(Bench(RULES))
    bench.give("dev-1", contribution("a"))
    bench.wait(20)
    assert bench.core.state.stages.open == 1
    retire(bench)
    bench.wait(20)
    assert bench.core.state.stages.open is None


def test_a_round_closes_without_a_retired_device() -> None:
    bench = RoundBench(2, deadline_seconds=100_000.0)
    bench.lead()
    bench.answer("dev-1")
    bench.wait(1)
    assert bench.core.state.rounds.current is not None
    assert bench.core.state.rounds.current.closed is None
    retire(bench)
    bench.wait(1)
    closed = next(body for body, _, _ in bench.entries if isinstance(body, RoundClosed))
    assert closed.reason == "everybody answered"


@pytest.mark.parametrize("retracts", [False, True])
def test_what_it_gave_stays_or_leaves_as_was_chosen(*, retracts: bool) -> None:
    bench = fleet_of(Bench(RULES))
    bench.give("dev-1", contribution("a"))
    bench.give("dev-2", contribution("b"))
    text = retire(bench, retracts=retracts)
    assert ("left the sum" in text) == retracts
    assert len(bench.core.state.contributions.inputs()) == (1 if retracts else 2)


def test_retracting_nothing_is_no_reason_to_keep_it() -> None:
    bench = fleet_of(Bench(RULES))
    assert "gave nothing" in retire(bench, retracts=True)


def test_it_is_told_so_and_what_it_has_waits_there() -> None:
    bench = fleet_of(Bench(RULES))
    command = RetireDevice(device=GONE, reason="scrapped")
    requests = bench.handle(inputs.OperatorCommand("ticket", command))
    told = [item.body for item in requests if isinstance(item, SendToDevice)]
    assert [body.text for body in told if isinstance(body, Problem)] == [
        "device: 'dev-2' was retired from this fleet; the operator admits it with "
        "`fleetledger coordinator admit dev-2`"
    ]
    assert {item.leaf for item in requests if isinstance(item, TakeBack)} == {
        "assignment",
        "desired",
    }
    answer = receipt(bench.message("dev-2", contribution("b"))).answer
    assert isinstance(answer, Later)
    assert "was retired" in answer.reason
    assert isinstance(receipt(bench.message("dev-2", Nothing(stage=1))).answer, Later)


def test_it_comes_back_as_it_was() -> None:
    bench = fleet_of(Bench(RULES))
    bench.give("dev-2", contribution("b"))
    bench.command(
        TagDevices(devices=(GONE,), put={TagName("site"): TagValue("hazel")}),
    )
    retire(bench)
    assert bench.command(AdmitDevice(device=GONE)).done
    device = bench.core.state.devices.admitted[GONE]
    assert device.boot is not None
    assert device.tags == {"site": "hazel"}
    assert bench.core.state.contributions.of(GONE).held_parts()
    answer = bench.give("dev-2", contribution("c", part=1)).answer
    assert isinstance(answer, Accepted)
    beat = Heartbeat(
        welcomed=True,
        outbox_length=0,
        waiting_images=0,
        resident_bytes=0,
        bytes_up=0,
        bytes_down=0,
        assignment_action=None,
    )
    assert sent(bench.message("dev-2", beat), Assignment)


def test_commands_say_that_it_is_retired() -> None:
    bench = fleet_of(Bench(RULES))
    retire(bench)
    again = bench.command(RetireDevice(device=GONE, reason="again"))
    assert not again.done
    assert "'dev-2' is retired" in again.text
    for command in (
        PushModel(version=1, devices=(GONE,)),
        SettleTwins(device=GONE, installation=BootId("0123456789abcdef")),
    ):
        assert not bench.command(command).done
    assert not bench.command(RetireDevice(device=DeviceId("dev-9"), reason="?")).done


def test_everything_goes_on_without_it_and_after_a_restart() -> None:
    bench = fleet_of(Bench(RULES))
    bench.give("dev-1", contribution("a"))
    bench.give("dev-2", contribution("b", samples={"dog": 2}))
    retire(bench)
    bench.restart()
    bench.born("dev-1")
    bench.wait(20)
    bench.make_model(wanted(bench.wait(100)))
    bench.command(OpenStage(class_names=names("eel")))
    assert set(bench.core.state.devices.admitted) == {"dev-1"}
    assert bench.core.state.models.desired is not None


def test_a_device_without_a_key_is_shut_out_as_well() -> None:
    bench = fleet_of(Bench(RULES))
    bench.give("dev-1", contribution("a"))
    assert bench.command(RevokeKey(device=GONE, reason="stolen")).done
    assert bench.core.state.keys.of(GONE).revoked
    bench.wait(20)
    assert bench.core.state.stages.open is None
    again = bench.command(RevokeKey(device=GONE, reason="stolen"))
    assert "is shut out already" in again.text


def test_lists_show_it_apart(tmp_path: Path) -> None:
    bench = fleet_of(Bench(RULES))
    bench.give("dev-2", contribution("b"))
    bench.message("dev-2", Problem(about="disk", text="2 MiB are left"))
    retire(bench)
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        fleet = fleet_now(ledger, None, bench.now_ns)
    assert [device.name for device in fleet.devices] == ["dev-1"]
    (gone,) = fleet.retired
    assert (gone.name, gone.reason, gone.contributions) == ("dev-2", "scrapped", 1)
    assert "2 MiB" not in json.dumps([need.sentence for need in fleet.needs])


def test_lists_have_it_again_when_it_is_back(tmp_path: Path) -> None:
    bench = fleet_of(Bench(RULES))
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    write(tmp_path / "before", bench)
    with ledger_of(tmp_path / "before") as ledger:
        known = fleet_now(ledger, None, bench.now_ns).devices
    retire(bench)
    bench.command(AdmitDevice(device=GONE))
    write(tmp_path / "after", bench)
    with ledger_of(tmp_path / "after") as ledger:
        again = fleet_now(ledger, None, bench.now_ns)
    assert again.devices == known
    assert not again.retired
