"""What the engines of a fleet in this process share: a stage is led, measured and recorded."""

from __future__ import annotations

import resource
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.program.engine import LedgerEngine as CoordinatorEngine
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.model_folder import write_model
from fleetledger.simulator.engines.presence import asked, online
from fleetledger.simulator.engines.recorder import (
    ProxyBytes,
    Recorder,
    StageMeasures,
    Usage,
)
from fleetledger.simulator.engines.round_log import RoundWatch
from fleetledger.simulator.engines.stages import ledger_stages
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.proxy import ProxyTraffic
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.transport.meter import Counts

_KIB_OF_MIB = 1024


class Leader(Protocol):
    """A coordinator that runs in this process."""

    @property
    def engine(self) -> CoordinatorEngine:
        """Its core on its ledger."""

    @property
    def blobs(self) -> Blobs:
        """Its files."""

    @property
    def state(self) -> State:
        """What the ledger says."""


class Led(Protocol):
    """A coordinator and its devices."""

    @property
    def coordinator(self) -> Leader:
        """Who leads."""

    @property
    def clock(self) -> VirtualClock:
        """The fleet's clock."""

    @property
    def stopwatch(self) -> Stopwatch:
        """Where this machine's time goes."""

    def traffic(self) -> Mapping[DeviceId, Counts]:
        """Return what each device has sent and received."""

    def computing(self) -> Mapping[DeviceId, float]:
        """Return the seconds that each device has computed."""

    def proxy_traffic(self) -> ProxyTraffic | None:
        """Return what the proxy has sent and received; None without one."""

    def close(self) -> None:
        """Close all files."""


class StageEngine(ABC):
    """Leads the fleet of one seed; see `simulator.engines.interface.Engine`."""

    def __init__(self, prepared: Prepared, folder: Path, watch: Watch, led: Led) -> None:
        self._scenario = prepared.scenario
        self._plan = prepared.plan
        self._folder = folder
        self._watch = watch
        self._led = led
        led.coordinator.engine.around_commit = partial(led.stopwatch.phase, "ledger")
        self._arrived_ns = 0
        self._recorder = Recorder(prepared.plan, led.coordinator.engine.ledger)
        self._rounds = RoundWatch(
            prepared, led.coordinator.blobs, led.coordinator.state, folder, watch
        )

    def learn(self, stage: StagePlan) -> StageRecord:
        """Let the fleet learn a stage to its end; raise `EngineError` if it does not get there."""
        led = self._led
        self._watch.stage(stage.number, len(self._plan.stages))
        began, self._arrived_ns = time.perf_counter(), led.clock.time_ns()
        led.stopwatch.take()
        used, to_proxy, past = self._used(), led.proxy_traffic(), self._is_past(stage)
        notes: tuple[str, ...] = ()
        if past:
            notes = ("This stage was learned before the run was resumed: no bytes, no seconds.",)
        else:
            self._lead(stage)
        measured = StageMeasures(
            there=frozenset(self._online(stage)),
            usage={name: now - used.get(name, Usage()) for name, now in self._used().items()},
            arrived_ns={} if past else dict.fromkeys(stage.devices, self._arrived_ns),
            seconds=self._seconds(0.0 if past else time.perf_counter() - began),
            peak_memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_OF_MIB,
            notes=notes,
            rounds=self._rounds.log.records(self._numbers(stage)),
            proxy=None if past else _since(led.proxy_traffic(), to_proxy),
        )
        return self._recorder.record(self._state, stage, measured)

    def model_folder(self, record: StageRecord) -> Path:
        """Return the folder `model` with the files of a stage's model, and of no other one."""
        return write_model(self._led.coordinator.blobs, record.manifest, self._folder / "model")

    def close(self) -> None:
        """Close all files; the folder stays."""
        self._led.close()

    @abstractmethod
    def _lead(self, stage: StagePlan) -> None:
        """Let the fleet learn a stage that no later one has followed."""

    def _used(self) -> dict[DeviceId, Usage]:
        computing = self._led.computing()
        return {
            name: Usage(counts.bytes_up, counts.bytes_down, computing.get(name, 0.0))
            for name, counts in self._led.traffic().items()
        }

    @property
    def _state(self) -> State:
        return self._led.coordinator.state

    def _look_at_rounds(self, stage: StagePlan) -> None:
        """Measure a round that has ended, and tell whoever watches, who may stop here."""
        with self._led.stopwatch.phase("evaluation"):
            self._rounds.look(self._state, stage)

    def _online(self, stage: StagePlan) -> tuple[DeviceId, ...]:
        return online(self._scenario, stage, self._plan.seed)

    def _asked(self, stage: StagePlan) -> tuple[DeviceId, ...]:
        return asked(self._scenario, stage, self._plan.seed)

    def _numbers(self, stage: StagePlan) -> tuple[int, ...]:
        return ledger_stages(self._state, self._plan, stage)

    def _is_past(self, stage: StagePlan) -> bool:
        """Whether a later stage was opened, by a former run on this folder."""
        return any(self._numbers(later) for later in self._plan.stages[stage.number :])

    def _seconds(self, total: float) -> dict[str, float]:
        phases = ("features", "statistics", "intake", "solve", "export")
        spent = dict.fromkeys(phases, 0.0) | self._led.stopwatch.take()
        total -= spent.get("evaluation", 0.0)  # which comes beside the total
        within = sum(seconds for name, seconds in spent.items() if name != "evaluation")
        return {**spent, "fleet": max(0.0, total - within), "total": total}


def _since(now: ProxyTraffic | None, before: ProxyTraffic | None) -> ProxyBytes | None:
    """Return what a proxy received since then; all of it where there was none."""
    if now is None:
        return None
    passed = now if before is None else now - before
    return ProxyBytes(gradients=passed.devices.bytes_down, models=passed.coordinator.bytes_down)
