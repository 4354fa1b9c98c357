"""A pinned device runs its version whatever is desired of others, and joins them after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.topics.models.commands import GoBack, PinDevices, PushModel
from fleetledger.coordinator.topics.models.entries import DevicePinned
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import Bench, sent
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.models.test_going_back import with_models

ONE, TWO = DeviceId("dev-1"), DeviceId("dev-2")


def pin(bench: Bench, version: int | None, *devices: DeviceId) -> str:
    return bench.command(PinDevices(devices=devices or (ONE,), version=version)).text


def push(bench: Bench, version: int, *devices: DeviceId) -> str:
    return bench.command(PushModel(version=version, devices=devices or None)).text


def runs(bench: Bench) -> list[int | None]:
    """Return the versions that both are to run, and hold that a device takes each in its turn."""
    models = bench.core.state.models
    return [item and item.version for item in map(models.desired_for, (ONE, TWO))]


def action(bench: Bench) -> int:
    found = bench.core.state.models.desired_for(ONE)
    assert found is not None
    return found.action


def test_nothing_reaches_a_pinned_device_but_another_pin() -> None:
    bench = with_models(3)
    assert pin(bench, 1) == "dev-1: pinned to model 1"
    assert runs(bench) == [1, 3]
    assert "dev-1 stays as it is pinned" in push(bench, 2)
    assert "stays as it is pinned" in push(bench, 3, ONE)
    bench.command(GoBack(canaries=True))
    assert runs(bench)[0] == 1
    pin(bench, 2)
    assert runs(bench)[0] == 2


def test_after_a_pin_a_device_is_told_anew_what_it_goes_on_with() -> None:
    bench = with_models(3)
    pin(bench, 1)
    pinned = action(bench)
    requests = bench.wait(0)
    bench.command(PinDevices(devices=(ONE,)))
    assert runs(bench) == [3, 3]
    assert action(bench) > pinned
    assert not sent(requests, DesiredModel)
    push(bench, 2)
    assert runs(bench) == [2, 2]


def test_a_version_of_its_own_outlasts_a_pin_and_is_spared_when_all_go_back() -> None:
    bench = with_models(3)
    push(bench, 1, ONE)
    pin(bench, 2)
    pin(bench, None)
    assert runs(bench) == [1, 3]
    after = action(bench)
    bench.command(GoBack())
    assert runs(bench) == [1, 2]
    assert action(bench) == after
    push(bench, 3)
    assert runs(bench) == [3, 3]


def test_who_ran_what_all_run_goes_back_with_all_after_a_pin() -> None:
    bench = with_models(3)
    pin(bench, 1)
    pin(bench, None)
    bench.command(GoBack())
    assert runs(bench) == [2, 2]


def test_devices_that_go_on_alike_are_in_one_entry() -> None:
    bench = with_models(3)
    push(bench, 2, TWO)
    pin(bench, 1, ONE, TWO)
    pin(bench, None, ONE, TWO)
    ended = [body for body, *_ in bench.entries if isinstance(body, DevicePinned)][1:]
    assert [(body.devices, body.then) for body in ended] == [((ONE,), 3), ((TWO,), 2)]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (PinDevices(version=1), "none is named"),
        (PinDevices(devices=(ONE,), version=9), "9 is not a model"),
        (PinDevices(devices=(ONE,)), "none of dev-1 is pinned"),
        (PinDevices(devices=(DeviceId("dev-9"),), version=1), "not admitted"),
    ],
)
def test_what_cannot_be_pinned_is_refused(command: PinDevices, told: str) -> None:
    assert told in with_models(2).command(command).text


def test_a_restart_and_a_reader_know_the_same_pins(tmp_path: Path) -> None:
    bench = with_models(3)
    pin(bench, 1, ONE, TWO)
    pin(bench, None, TWO)
    before = runs(bench)
    bench.restart()
    assert runs(bench) == before == [1, 3]
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        assert state_of(ledger).models.pins == {"dev-1": 1}
