"""Live view of the fleet, drawn from the core's state and what the core knows while it runs.

Times of the core are those of entries; they are told by this machine's calendar, as all that
reads them compares with that. What is drawn are the devices of which something was heard since the
last time, so that it costs what happens and not what the fleet is large.
"""

from __future__ import annotations

from itertools import islice

from fleetledger.coordinator.core.live import NANOSECONDS, Live, LiveDevice
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.live.meters import Meters
from fleetledger.coordinator.live.snapshot import CoordinatorNow, DeviceNow, LiveSnapshot
from fleetledger.schemas.health import DeviceHealth
from fleetledger.schemas.values import BootId, DeviceId

MOST_DRAWN = 2000
"""Devices that are drawn at a time, so that nothing waits for a hundred thousand."""


class LiveView:
    """Draws what has changed since it was drawn last."""

    def __init__(self) -> None:
        self._since: dict[DeviceId, tuple[BootId | None, int | None]] = {}
        """The run that was connected when a device was drawn last, and since when it was."""
        self._shift_ns = 0

    def draw(
        self,
        state: State,
        live: Live,
        coordinator: CoordinatorNow,
        meters: Meters,
        *,
        ahead_ns: int = 0,
        all_devices: bool = False,
    ) -> LiveSnapshot:
        """Return what is known now: of devices, those that something was heard of.

        Of very many some are left for the next time.
        Entries are ahead of the calendar by `ahead_ns`; where that has changed by a second, and
        where it is asked for, all devices are drawn.
        """
        # Whole seconds: what trembles in it must not change every device each time.
        shift_ns = round(ahead_ns / NANOSECONDS) * NANOSECONDS
        if all_devices or shift_ns != self._shift_ns:
            live.touched.update(live.devices)
        self._shift_ns = shift_ns
        names = sorted(islice(live.touched, MOST_DRAWN))
        live.touched.difference_update(names)
        drawn = {
            device: self._device(device, live.seen(device), coordinator.written_ns)
            for device in names
            if device in state.devices.admitted
        }
        return LiveSnapshot.model_construct(
            coordinator=coordinator,
            devices=drawn,
            counters=meters.counters(),
            histograms=meters.histograms(),
        )

    def _device(self, device: DeviceId, seen: LiveDevice, now_ns: int) -> DeviceNow:
        since_ns = self._seen_since(device, seen.boot, now_ns)
        beat, health = seen.beat, seen.health
        # Every value was checked where it came from, and a thousand devices are drawn at a time.
        return DeviceNow.model_construct(
            device=device,
            online=seen.boot is not None,
            boot=seen.boot,
            since_ns=since_ns,
            heard_ns=None if seen.heard_ns is None else seen.heard_ns - self._shift_ns,
            outbox=None if beat is None else beat.outbox,
            waiting_images=None if beat is None else beat.waiting_images,
            resident_bytes=None if beat is None else beat.resident_bytes,
            bytes_up=None if beat is None else beat.bytes_up,
            bytes_down=None if beat is None else beat.bytes_down,
            health=None if health is None else DeviceHealth.model_validate_json(health),
            health_ns=None if seen.health_ns is None else seen.health_ns - self._shift_ns,
        )

    def _seen_since(self, device: DeviceId, boot: BootId | None, now_ns: int) -> int | None:
        """Return since when a device is there or away, by what was drawn before."""
        before = self._since.get(device)
        if before is None:
            since_ns = None if boot is None else now_ns
        elif before[0] == boot:
            return before[1]
        else:
            since_ns = now_ns
        self._since[device] = boot, since_ns
        return since_ns
