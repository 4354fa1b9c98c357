"""With a root a pin, and what follows it, goes out once it is released, each under a new number."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.topics.models.commands import PinDevices, PushModel
from fleetledger.coordinator.topics.models.entries import DevicePinned
from fleetledger.coordinator.topics.releases.commands import SignModel
from fleetledger.coordinator.topics.releases.views import waiting
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import exported
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.releases.test_releases import ROTATED, ReleasingBench
from tests.schemas import signing

ONE, TWO = DeviceId("dev-1"), DeviceId("dev-2")


def told(bench: ReleasingBench) -> list[int | None]:
    """Return the versions that both devices are told to run."""
    trust = bench.core.state.trust
    return [item and item.version for item in map(trust.released_for, (ONE, TWO))]


def two_models(key: object = signing.RELEASE) -> ReleasingBench:
    bench = ReleasingBench(root=signing.root(1))
    bench.wait(0)
    bench.more()
    bench.wait(0)
    assert told(bench) == [2, 2]
    bench.safe.key = key  # type: ignore[assignment]
    return bench


def test_a_pin_and_its_end_are_released_under_new_numbers() -> None:
    bench = two_models()
    bench.command(PinDevices(devices=(ONE,), version=1))
    bench.wait(0)
    assert told(bench) == [1, 2]
    bench.command(PinDevices(devices=(ONE,)))
    bench.wait(0)
    assert told(bench) == [2, 2]
    assert [(r.number, r.version, r.devices) for r in bench.releases()[2:]] == [
        (3, 1, (ONE,)),
        (4, 2, (ONE,)),
    ]


def test_a_pinned_device_is_told_what_it_was_until_its_pin_is_signed(tmp_path: Path) -> None:
    bench = two_models(key=None)
    said = bench.command(PinDevices(devices=(ONE,), version=1)).text
    assert "model sign 1" in said
    bench.command(PushModel(version=1))
    assert bench.sign(3, version=1).done
    assert told(bench) == [2, 1]
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        (push,) = waiting(ledger)
    assert (push.version, push.devices) == (1, (ONE,))
    signed = signing.release(4, version=1, manifest=exported(1).manifest.digest, devices=(ONE,))
    assert bench.command(SignModel(action=bench.last(DevicePinned), signed=signed)).done
    assert told(bench) == [1, 1]


def test_what_is_released_for_all_or_by_name_does_not_reach_a_pinned_device() -> None:
    bench = two_models()
    bench.command(PinDevices(devices=(ONE,), version=1))
    bench.wait(0)
    bench.command(PushModel(version=2, devices=(ONE, TWO)))
    bench.wait(0)
    bench.more()
    bench.wait(0)
    assert told(bench) == [1, 3]
    bench.command(PinDevices(devices=(ONE,)))
    bench.wait(0)
    assert told(bench) == [3, 3]


def test_a_pin_is_released_anew_where_its_key_is_dropped() -> None:
    bench = two_models()
    bench.command(PinDevices(devices=(ONE,), version=1))
    bench.wait(0)
    bench.safe.key = signing.SPARE
    assert bench.publish(ROTATED).done
    for _ in range(3):
        bench.wait(0)
    assert told(bench) == [1, 2]
    assert bench.core.state.models.pinned[ONE].action == bench.last(DevicePinned)
    numbers = [release.number for release in bench.releases()]
    assert numbers == sorted(set(numbers))
    assert {r.version for r in bench.releases()[-2:]} == {1, 2}
    state = bench.restarted().state
    assert state.trust == bench.core.state.trust
