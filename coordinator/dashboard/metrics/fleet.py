"""Who is there and how devices are: the ledger knows who takes part, live.db who is connected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import Metric

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.dashboard.metrics.families import gauge, gauges, spread
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.snapshot import DeviceNow, LiveSnapshot, serves
from fleetledger.schemas.health import DeviceHealth

STATES = ("connected", "away", "unknown", "revoked")

_PROGRAMS = 10
"""Versions that have a series of their own: devices name theirs, and could name any."""


def device_states(ledger: LedgerReader, live: LiveSnapshot | None, time_ns: int) -> dict[str, str]:
    """Return the state of every admitted device; unknown where no coordinator serves."""
    state = state_of(ledger)
    return {
        name: "revoked"
        if state.keys.of(name).state == "revoked"
        else _presence(name, live, time_ns)
        for name in sorted(state.devices.admitted)
    }


def _presence(device: str, live: LiveSnapshot | None, time_ns: int) -> str:
    if live is None or not serves(live.coordinator, time_ns):
        return "unknown"
    found = _devices(live).get(device)
    return "connected" if found is not None and found.online else "away"


def fleet_families(
    ledger: LedgerReader, live: LiveSnapshot | None, time_ns: int
) -> Iterator[Metric]:
    """Yield how many devices are there, and how they are, without naming any."""
    states = device_states(ledger, live, time_ns)
    counts = Counter(states.values())
    yield gauges(
        "devices",
        "Admitted devices by whether they are connected; unknown where no coordinator serves.",
        ("state",),
        {(state,): counts[state] for state in STATES},
    )
    yield from _by_version(ledger)
    known = _devices(live) if live else {}
    there = [known[name] for name, state in states.items() if state == "connected"]
    healths = [device.health for device in there if device.health is not None]
    yield gauge(
        "outbox_messages",
        "Messages that wait on connected devices for a receipt.",
        sum(device.outbox or 0 for device in there) if live else None,
    )
    yield gauge(
        "devices_with_problems",
        "Connected devices that say what hinders them, or will.",
        sum(bool(health.problems) for health in healths) if live else None,
    )
    yield spread(
        "device_hindered_seconds",
        "For how long something has hindered each connected device, by its own words; 0 for none.",
        [_hindered_seconds(device, time_ns) for device in there if device.health is not None],
    )
    yield gauge(
        "devices_throttled",
        "Connected devices that slowed down for heat or power since they were switched on.",
        sum(bool(health.throttled) for health in healths) if live else None,
    )
    yield spread(
        "device_temperature_celsius",
        "Hottest thermal zone of each connected device.",
        [value for health in healths if (value := _hottest(health)) is not None],
    )
    yield spread(
        "device_free_disk_bytes",
        "Free disk of each connected device.",
        [health.free_disk_bytes for health in healths if health.free_disk_bytes is not None],
    )
    yield spread(
        "device_resident_bytes",
        "Memory of each connected device's agent.",
        [device.resident_bytes for device in there if device.resident_bytes is not None],
    )
    yield spread(
        "device_inference_seconds",
        "Within what time each connected device's model answers for 95 of 100 samples.",
        [
            health.inference_p95_seconds
            for health in healths
            if health.inference_p95_seconds is not None
        ],
    )


_PER_DEVICE: Mapping[str, str] = {
    "connected": "1 where the device is connected.",
    "heard_timestamp_seconds": "When anything of the device came last that was believed.",
    "outbox_messages": "Messages that wait on the device for a receipt.",
    "problems": "What hinders the device, or will, by its own words.",
    "hindered_seconds": "For how long something has hindered the device, by its own words.",
    "temperature_celsius": "Hottest thermal zone of the device.",
    "free_disk_bytes": "Free disk of the device.",
    "resident_bytes": "Memory of the device's agent.",
    "model_version": "Version of the model that the device runs.",
    "correct_ratio": "Share of its held-out samples that the device's model was right for.",
}


def _by_version(ledger: LedgerReader) -> Iterator[Metric]:
    state = state_of(ledger)
    there = [
        device
        for name, device in state.devices.admitted.items()
        if state.keys.of(name).state != "revoked"
    ]
    programs = Counter(
        "none" if one.capabilities is None else one.capabilities.agent_version for one in there
    )
    yield gauge(
        "devices_not_led",
        "Admitted devices that speak no version of the wire that the coordinator speaks.",
        sum(not device.led for device in there),
    )
    yield gauges(
        "devices_by_program",
        "Admitted devices by the version of the program that they began to run last; beyond the "
        f"{_PROGRAMS} most frequent versions they are `other`, before their first run `none`.",
        ("version",),
        counted_programs(sorted(programs.items(), key=lambda item: (-item[1], item[0]))),
    )


def counted_programs(rows: Sequence[tuple[str, int]]) -> dict[tuple[str, ...], float]:
    """Return devices by version, of rows with the most frequent first; the rest as `other`."""
    counts: dict[tuple[str, ...], float] = {
        (version,): float(count) for version, count in rows[:_PROGRAMS]
    }
    if further := sum(count for _, count in rows[_PROGRAMS:]):
        counts["other",] = counts.get(("other",), 0.0) + further
    return counts


def device_families(
    ledger: LedgerReader, live: LiveSnapshot | None, time_ns: int
) -> Iterator[Metric]:
    """Yield the same of each device, named: as many series as there are devices."""
    values: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _PER_DEVICE}
    state = state_of(ledger)
    for name in sorted(state.devices.admitted):
        said = state.models.of(name)
        ratio = None if said.measured is None else said.measured.share
        _put(values, name, {"model_version": said.active_version, "correct_ratio": ratio})
    known = _devices(live) if live else {}
    for device, presence in device_states(ledger, live, time_ns).items():
        if presence in {"connected", "away"}:
            _put(values, device, {"connected": presence == "connected"})
            _put(values, device, _now(known.get(device), time_ns))
    for figure, text in _PER_DEVICE.items():
        yield gauges(f"per_device_{figure}", text, ("device",), values[figure])


def _now(device: DeviceNow | None, time_ns: int) -> dict[str, float | None]:
    if device is None:
        return {}
    health = device.health
    return {
        "heard_timestamp_seconds": None if device.heard_ns is None else device.heard_ns / 1e9,
        "outbox_messages": device.outbox,
        "resident_bytes": device.resident_bytes,
        "problems": None if health is None or not device.online else len(health.problems),
        "hindered_seconds": None
        if health is None or not device.online
        else _hindered_seconds(device, time_ns),
        "temperature_celsius": None if health is None else _hottest(health),
        "free_disk_bytes": None if health is None else health.free_disk_bytes,
    }


def _put(
    values: dict[str, dict[tuple[str, ...], float]],
    device: str,
    found: Mapping[str, float | None],
) -> None:
    for name, value in found.items():
        if value is not None:
            values[name][(device,)] = value


def _hindered_seconds(device: DeviceNow, time_ns: int) -> float:
    """Return for how long the oldest of what hinders a device has been so; 0 for none."""
    since_ns = device.hindered_since_ns
    return 0.0 if since_ns is None else max(0, time_ns - since_ns) / 1e9


def _hottest(health: DeviceHealth) -> float | None:
    return max((zone.celsius for zone in health.temperatures), default=None)


def _devices(live: LiveSnapshot) -> Mapping[str, DeviceNow]:
    return {str(name): device for name, device in live.devices.items()}
