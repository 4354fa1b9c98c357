"""What the engines of a fleet in this process share: a stage is led, measured and recorded."""

from __future__ import annotations

import resource
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from pydantic_core import from_json

from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.program.engine import LedgerEngine as CoordinatorEngine
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.network_meter import NetworkMeter
from fleetledger.simulator.engines.presence import asked
from fleetledger.simulator.engines.recorder import (
    ProxyBytes,
    Recorded,
    Recorder,
    StageMeasures,
    Usage,
)
from fleetledger.simulator.engines.round_log import RoundLog
from fleetledger.simulator.engines.stages import ledger_stages
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.scenario.trainer import learns_in_rounds, trainer_of
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
        self._trainer = trainer_of(prepared.scenario)
        self._plan = prepared.plan
        self._folder = folder
        self._watch = watch
        self._led = led
        led.coordinator.engine.around_commit = partial(led.stopwatch.phase, "ledger")
        self._arrived_ns = 0
        self._meter = NetworkMeter(prepared)
        self._recorder = Recorder(prepared.plan, self._entries)
        self._rounds = RoundLog(
            led.coordinator.engine.ledger,
            folder / "rounds.jsonl",
            prepared.scenario.evaluation.every_rounds,
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
            rounds=self._rounds.records(self._numbers(stage)),
            proxy=None if past else _since(led.proxy_traffic(), to_proxy),
        )
        return self._recorder.record(self._state, stage, measured)

    def model_folder(self, record: StageRecord) -> Path:
        """Return the folder `model` with the files of a stage's model, and of no other one."""
        folder = self._folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        blobs = self._led.coordinator.blobs
        exported = self._state.models.by_version[record.version].exported
        assert exported is not None
        (folder / "manifest.json").write_bytes(blobs.get(exported.manifest.digest))
        for offer in exported.files:
            (folder / offer.digest).write_bytes(blobs.get(offer.digest))
        return folder

    def close(self) -> None:
        """Close all files; the folder stays."""
        self._led.close()

    @abstractmethod
    def _lead(self, stage: StagePlan) -> None:
        """Let the fleet learn a stage that no later one has followed."""

    def _entries(self, start: int, end: int) -> Iterator[Recorded]:
        # Unchecked: this process has just committed them, or checked them when it began.
        rows = self._led.coordinator.engine.ledger.rows(start, end)
        for _index, time_ns, kind, _actor, device, body, _blobs, _leaf in rows:
            name = None if device is None else DeviceId.known(device)
            yield read_entry(kind, from_json(body)), name, time_ns

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
        if self._trainer is None:
            return
        with self._led.stopwatch.phase("evaluation"):
            ended = self._rounds.look(partial(self._accuracy, stage))
        if ended:
            self._watch.round(*self._rounds.done)

    def _accuracy(
        self, stage: StagePlan, method: str, settings: dict[str, Any], weights: Digest
    ) -> float:
        data = self._led.coordinator.blobs.get(weights)
        seen = self._plan.seen(stage.number)
        return self._meter.accuracy(method, settings, data, seen)

    def _online(self, stage: StagePlan) -> tuple[DeviceId, ...]:
        return tuple(name for name in self._asked(stage) if stage.devices[name].online)

    def _asked(self, stage: StagePlan) -> tuple[DeviceId, ...]:
        """Return who takes part: everybody present where each round draws a cohort."""
        if learns_in_rounds(self._scenario, stage.number):
            return tuple(stage.devices)
        return asked(stage, self._scenario.rounds.participation, self._plan.seed)

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
