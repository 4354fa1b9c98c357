"""A real coordinator, a Mosquitto, and agents that share a few processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from PIL import Image

from fleetledger.coordinator.core.rules import ModelRules, RolloutRules, StageRules
from fleetledger.coordinator.settings import CoordinatorSettings, MethodSection
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.device_agent.settings import AgentDataSettings, AgentSettings, ModelSettings
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName, DeviceId, FleetId
from fleetledger.simulator.datasets.digits import load_digits
from fleetledger.simulator.engines.mqtt.homes import (
    agent_broker,
    carry_out,
    coordinator_broker,
    write_agent,
    write_coordinator,
)
from fleetledger.simulator.engines.rounds import import_backbone
from fleetledger.transport.brokers import MosquittoBroker

FLEET = FleetId("arrival")
SOLVE_EVERY_SECONDS = 1.0
"""Less than lies between two contributions, so that none waits for the one before."""
PATIENCE_SECONDS = 100.0
_DIGIT = Preprocessing(mode="L", size=(8, 8), mean=(0.5,), deviation=(0.25,), input_name="image")


@dataclass
class ArrivalFleet:
    """Programs that run; what the agents say of their models is collected as it comes."""

    folder: Path
    devices: Sequence[DeviceId]
    coordinator: subprocess.Popen[bytes]
    hosts: list[subprocess.Popen[str]]
    runs: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """By version of the model, when each device began to run it, in nanoseconds since 1970; by 0,
    when it was welcomed."""
    delivered: int = 0

    @property
    def home(self) -> Path:
        """The coordinator's home."""
        return self.folder / "coordinator"

    def listen(self, host: subprocess.Popen[str]) -> None:
        """Take in what a host says until it ends."""
        assert host.stdout is not None
        for line in host.stdout:
            said = json.loads(line)
            self.runs[said["version"]][said["device"]] = said["at_ns"]

    def deliver(self, count: int) -> None:
        """Have new images appear with the first device."""
        digits = load_digits()
        for number in range(self.delivered, self.delivered + count):
            label = str(digits.labels[number])
            target = self.folder / self.devices[0] / "data" / label
            target.mkdir(parents=True, exist_ok=True)
            hidden = target / f".{number}.png"
            Image.fromarray(digits.images[number], "L").save(hidden)
            hidden.rename(target / f"{number}.png")
        self.delivered += count

    def processor_seconds(self) -> dict[str, float]:
        """Return what coordinator and agents have used so far; agents with their ended trials."""
        agents = [psutil.Process(host.pid).cpu_times() for host in self.hosts]
        served = psutil.Process(self.coordinator.pid).cpu_times()
        return {
            "coordinator": served.user + served.system,
            "agents": sum(times.user + times.system for times in agents),
            "trials": sum(times.children_user + times.children_system for times in agents),
        }


@contextmanager
def arrival_fleet(
    folder: Path, devices: int, processes: int, *, trial: bool
) -> Iterator[ArrivalFleet]:
    """Yield a fleet whose agents are connected and whose stage is open."""
    names = [DeviceId(f"device-{number:03}") for number in range(devices)]
    with MosquittoBroker(folder / "broker", names) as broker:
        home = folder / "coordinator"
        write_coordinator(home, broker, _coordinator(broker))
        carry_out(home, import_backbone(home, "pixels", scaling_backbone(_DIGIT), _DIGIT))
        for name in names:
            carry_out(home, AdmitDevice(device=name))
        carry_out(home, OpenStage(class_names=tuple(ClassName(str(one)) for one in range(10))))
        for name in names:
            write_agent(folder / name, broker, _agent(broker, name, trial=trial))
        served = [sys.executable, "-m", "fleetledger", "coordinator", "serve", "--home", str(home)]
        logs = (folder / "coordinator.log").open("ab")
        coordinator = subprocess.Popen(served, stdout=logs, stderr=logs)
        hosts = [_host(folder, names[number::processes]) for number in range(processes)]
        fleet = ArrivalFleet(folder, names, coordinator, hosts)
        for host in hosts:
            threading.Thread(target=fleet.listen, args=(host,), daemon=True).start()
        try:
            until(lambda: len(fleet.runs[0]) == devices, "all devices connected")
            yield fleet
        finally:
            for process in (*hosts, coordinator):
                process.terminate()
            for process in (*hosts, coordinator):
                process.wait(60)
            logs.close()


def until(true: Callable[[], bool], what: str) -> None:
    """Wait until `true()`; give up loudly."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.02)


def _coordinator(broker: MosquittoBroker) -> CoordinatorSettings:
    return CoordinatorSettings(
        fleet=FLEET,
        broker=coordinator_broker(broker),
        method=MethodSection(name="stsa", settings={"map_width": 320}),
        stages=StageRules(deadline_seconds=86_400),
        models=ModelRules(
            solve_every_seconds=SOLVE_EVERY_SECONDS, longest_pause_seconds=SOLVE_EVERY_SECONDS
        ),
        rollouts=RolloutRules(automatic_from=0),
    )


def _agent(broker: MosquittoBroker, name: DeviceId, *, trial: bool) -> AgentSettings:
    data = AgentDataSettings(folder=Path("data"), pause_seconds=0)
    return AgentSettings(
        device=name,
        fleet=FLEET,
        broker=agent_broker(broker),
        data=data,
        model=ModelSettings(providers=("CPUExecutionProvider",), trial=trial),
    )


def _host(folder: Path, names: Sequence[DeviceId]) -> subprocess.Popen[str]:
    homes = [str(folder / name) for name in names]
    command = [sys.executable, "-m", "benchmarks.speed.time_to_model.hosting", *homes]
    log = (folder / "agents.log").open("ab")
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with log:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | one
        )
