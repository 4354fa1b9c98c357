"""What is known of the fleet just now, drawn from the core's state and what it knows while it runs.

Times of the core are those of entries; they are told by this machine's calendar, as all that
reads them compares with that.
"""

from __future__ import annotations

from coordinator.core.live import NANOSECONDS, Live, LiveDevice
from coordinator.core.state import State
from coordinator.live.meters import Meters
from coordinator.live.snapshot import CoordinatorNow, DeviceNow, LiveSnapshot
from schemas.values import DeviceId


def live_snapshot(
    state: State,
    live: Live,
    coordinator: CoordinatorNow,
    meters: Meters,
    before: LiveSnapshot | None = None,
    *,
    ahead_ns: int = 0,
) -> LiveSnapshot:
    """Return what is known now.

    `before` is the snapshot before it: since when a device is there or away is told by what
    changed in between. Entries are ahead of the calendar by `ahead_ns`.
    """
    # Whole seconds: what trembles in it must not change every device each time.
    shift_ns = round(ahead_ns / NANOSECONDS) * NANOSECONDS
    known = {} if before is None else before.devices
    return LiveSnapshot.model_construct(
        coordinator=coordinator,
        devices={
            device: _device_now(
                device, seen, known.get(device), shift_ns=shift_ns, now_ns=coordinator.written_ns
            )
            for device, seen in live.devices.items()
            if device in state.devices.admitted
        },
        counters=meters.counters(),
        histograms=meters.histograms(),
    )


def _device_now(
    device: DeviceId, seen: LiveDevice, before: DeviceNow | None, *, shift_ns: int, now_ns: int
) -> DeviceNow:
    beat = seen.heartbeat
    heard_ns = None if seen.heard_ns is None else seen.heard_ns - shift_ns
    if before is not None and before.boot == seen.boot:
        if before.heard_ns == heard_ns:  # heartbeats and health are heard, too
            return before
        since_ns = before.since_ns
    else:
        seen_before = before is not None or seen.boot is not None
        since_ns = now_ns if seen_before else None
    # Every value was checked where it came from, and a thousand devices are drawn at a time.
    return DeviceNow.model_construct(
        device=device,
        online=seen.boot is not None,
        boot=seen.boot,
        since_ns=since_ns,
        heard_ns=heard_ns,
        outbox=None if beat is None else beat.outbox_length,
        waiting_images=None if beat is None else beat.waiting_images,
        resident_bytes=None if beat is None else beat.resident_bytes,
        bytes_up=None if beat is None else beat.bytes_up,
        bytes_down=None if beat is None else beat.bytes_down,
        health=seen.health,
        health_ns=None if seen.health_ns is None else seen.health_ns - shift_ns,
    )
