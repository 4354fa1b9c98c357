"""What a stage takes: bytes and processor time of agents, and phases of the time on the wall."""

from __future__ import annotations

from collections.abc import Collection

import psutil

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.mqtt.programs import Programs
from fleetledger.simulator.engines.recorder import Usage, seconds_between


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


def phases(state: State, numbers: tuple[int, ...], total: float) -> dict[str, float]:
    """Return the seconds of each phase of stages of the ledger; they add up to their `total`."""
    opened_ns = state.stages.by_number[numbers[0]].opened_ns
    made = [model for model in state.models.all_learned if model.solved_ns >= opened_ns]
    solve = sum(model.solved.seconds for model in made)
    export = sum(_export_seconds(model) for model in made)
    fleet = max(0.0, total - solve - export)
    return {"solve": solve, "export": export, "fleet": fleet, "total": total}


def _export_seconds(model: ModelVersion) -> float:
    exported_ns = model.exported_ns
    return 0.0 if exported_ns is None else seconds_between(model.solved_ns, exported_ns)
