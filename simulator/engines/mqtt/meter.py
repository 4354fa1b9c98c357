"""What agents use, from one reading to the next: bytes, processor time, memory."""

from __future__ import annotations

from collections.abc import Collection

import psutil

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.mqtt.programs import Programs
from fleetledger.simulator.engines.recorder import Usage


class ProcessMeter:
    """Remembers what every agent had used at the last reading.

    Counters begin anew with each process. Bytes are counted from its start, processor time from
    `start`, since what Python takes to begin is no work of the device.
    """

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._last: dict[DeviceId, Usage] = {}

    def start(self, devices: Collection[DeviceId]) -> None:
        """Begin with agents that have just been started."""
        for device in devices:
            self._last[device] = Usage(seconds=self._seconds(device))

    def since_last(self, device: DeviceId) -> Usage:
        """Return what an agent has used since the last reading."""
        status = self._programs.status(device)
        assert status is not None  # read when the agent has settled
        now = Usage(status.bytes_up, status.bytes_down, self._seconds(device))
        used = now - self._last[device]
        self._last[device] = now
        return used

    def _seconds(self, device: DeviceId) -> float:
        times = psutil.Process(self._programs.agent(device).process.pid).cpu_times()
        return float(times.user + times.system)
