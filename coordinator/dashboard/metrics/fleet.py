"""Who is there and how devices are: the ledger knows who takes part, live.db who is connected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import Metric

from fleetledger.coordinator.dashboard.metrics.families import gauge, gauges, spread
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.snapshot import DeviceNow, LiveSnapshot, serves
from fleetledger.schemas.health import DeviceHealth

STATES = ("connected", "away", "unknown", "revoked")

_ADMITTED = """
SELECT device.device, coalesce(device_key.state = 'revoked', 0)
FROM device LEFT JOIN device_key ON device_key.device = device.device
"""


_PROGRAMS = 10
"""Versions that have a series of their own: devices name theirs, and could name any."""
_BY_PROGRAM = """
SELECT coalesce(agent_version, 'none') AS program, count(*) AS devices FROM device
WHERE device NOT IN (SELECT device FROM device_key WHERE state = 'revoked')
GROUP BY program ORDER BY devices DESC, program
"""


_NOT_LED = """
SELECT count(*) FROM device WHERE refused_by IS NOT NULL
AND device NOT IN (SELECT device FROM device_key WHERE state = 'revoked')
"""


def device_states(ledger: LedgerReader, live: LiveSnapshot | None, time_ns: int) -> dict[str, str]:
    """Return the state of every admitted device; unknown where no coordinator serves."""
    rows: list[tuple[str, int]] = ledger.db.execute(_ADMITTED).fetchall()
    return {
        device: "revoked" if revoked else _presence(device, live, time_ns)
        for device, revoked in rows
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

_MEASURED = """
SELECT device, active_version,
    coalesce(mean_iou, CASE WHEN total > 0 THEN 1.0 * correct / total END) FROM device
"""


def _by_version(ledger: LedgerReader) -> Iterator[Metric]:
    yield gauge(
        "devices_not_led",
        "Admitted devices that speak no version of the wire that the coordinator speaks.",
        ledger.db.execute(_NOT_LED).fetchone()[0],
    )
    yield gauges(
        "devices_by_program",
        "Admitted devices by the version of the program that they began to run last; beyond the "
        f"{_PROGRAMS} most frequent versions they are `other`, before their first run `none`.",
        ("version",),
        counted_programs(ledger.db.execute(_BY_PROGRAM).fetchall()),
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
    for device, version, ratio in ledger.db.execute(_MEASURED):
        _put(values, device, {"model_version": version, "correct_ratio": ratio})
    known = _devices(live) if live else {}
    for device, state in device_states(ledger, live, time_ns).items():
        if state in {"connected", "away"}:
            _put(values, device, {"connected": state == "connected"})
            _put(values, device, _now(known.get(device), time_ns))
    for name, text in _PER_DEVICE.items():
        yield gauges(f"per_device_{name}", text, ("device",), values[name])


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
