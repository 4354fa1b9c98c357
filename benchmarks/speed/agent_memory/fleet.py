"""A fleet of one on this machine: a broker, a coordinator process, an agent process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.rules import ModelRules, StageRules
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.program.command_client import carried_out
from fleetledger.coordinator.settings import (
    CoordinatorBrokerSettings,
    CoordinatorSettings,
    MethodSection,
    write_new,
)
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.export.layers import AS_IT_IS, FeatureChoice
from fleetledger.export.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    random_weights,
)
from fleetledger.schemas.values import ClassName, DeviceId, FleetId
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.transport.brokers import Broker, start_child_broker

FLEET, DEVICE = FleetId("bench"), DeviceId("device")
CLASSES = tuple(ClassName(name) for name in ("bolt", "nail", "nut", "screw"))
PASSWORD = "broker.password"
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Case:
    """What is measured."""

    size: int = 112
    """Pixels along a side of the model's input."""
    images: int = 100
    map_width: int = 1250
    form: str = "compact"
    preset: str = "default"
    """`best`: STSA's, on the layers and mirror images of the scenario `cifar100-best`."""

    @property
    def settings(self) -> dict[str, object]:
        """Settings of the method."""
        if self.preset == "best":
            return {"preset": self.preset}
        return {"form": self.form, "map_width": self.map_width}

    @property
    def choice(self) -> FeatureChoice:
        """Which features of the network count."""
        if self.preset != "best":
            return AS_IT_IS
        seen = load_scenario("cifar100-best").backbone
        return FeatureChoice(seen.layers, seen.mirror)


@dataclass
class Watched:
    """A process whose memory is looked at."""

    process: subprocess.Popen[bytes]

    def memory(self) -> dict[str, float]:
        """Return resident, private and shared memory in MiB, as the kernel counts them now."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="ascii")
        found = {
            name: sum(
                int(line.split()[1]) for line in rollup.splitlines() if line.startswith(kinds)
            )
            for name, kinds in (
                ("resident", ("Rss:",)),
                ("private", ("Private_Clean:", "Private_Dirty:")),
                ("shared", ("Shared_Clean:", "Shared_Dirty:")),
            )
        }
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        found["peak"] = int(peak.split()[1])
        return {name: round(kib / 1024, 1) for name, kib in found.items()}


@contextmanager
def fleet(folder: Path, case: Case) -> Iterator[tuple[Watched, Path]]:
    """Yield a started agent and its home; a stage is open, so everything goes its way."""
    broker = start_child_broker(folder / "broker", [DEVICE])
    coordinator: subprocess.Popen[bytes] | None = None
    agent: subprocess.Popen[bytes] | None = None
    try:
        home = make_coordinator(folder, broker, case)
        coordinator = start(folder, "coordinator", "serve", "--home", str(home))
        agent_home = make_agent(folder, broker, case)
        agent = start(folder, "agent", "run", "--home", str(agent_home))
        yield Watched(agent), agent_home
    finally:
        for process in (agent, coordinator):
            if process is not None:
                process.terminate()
                process.wait(10)
        broker.stop()


def make_coordinator(folder: Path, broker: Broker, case: Case) -> Path:
    """Write a coordinator's home with the backbone imported, the device admitted, a stage open."""
    home = folder / "coordinator"
    write_password(home, broker, "coordinator")
    settings = CoordinatorSettings(
        fleet=FLEET,
        broker=CoordinatorBrokerSettings(
            host=broker.host, port=broker.port, password_file=Path(PASSWORD)
        ),
        method=MethodSection(settings=case.settings),
        stages=StageRules(quorum=1.0, quiet_seconds=0.5),
        models=ModelRules(solve_every_seconds=1.0),
    )
    write_new(home, settings)
    backbone, preprocessing = folder / "mobilenet.onnx", folder / "mobilenet.json"
    backbone.write_bytes(build_mobilenet_v2(case.size, random_weights()))
    preprocessing.write_text(imagenet_preprocessing(case.size).model_dump_json())
    imported = prepare_backbone(home, backbone, preprocessing, case.choice, trusted=True)
    commands: tuple[Command, ...] = (
        AdmitDevice(device=DEVICE),
        ImportBackbone(backbone=imported),
        OpenStage(class_names=CLASSES),
    )
    for command in commands:
        carried_out(home, command)
    return home


def make_agent(folder: Path, broker: Broker, case: Case) -> Path:
    """Write an agent's home with pictures to learn and pictures to measure on."""
    home = folder / "agent"
    write_password(home, broker, DEVICE)
    (home / "agent.toml").write_text(
        f'device = "{DEVICE}"\nfleet = "{FLEET}"\n\n'
        f'[broker]\nhost = "{broker.host}"\nport = {broker.port}\npassword_file = "{PASSWORD}"\n\n'
        '[data]\nfolder = "data"\nevaluation_folder = "test"\nscan_seconds = 1\n\n'
        '[model]\nproviders = ["CPUExecutionProvider"]\n'
    )
    write_pictures(home / "data", case.images, seed=1)
    write_pictures(home / "test", case.images // 5, seed=2)
    return home


def write_pictures(folder: Path, count: int, seed: int) -> None:
    """Write photographs' stand-ins: coloured noise of 320 x 240 pixels, enlarged, as JPEG."""
    generator = np.random.default_rng(seed)
    for number in range(count):
        name = CLASSES[number % len(CLASSES)]
        (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        picture = Image.fromarray(pixels).resize((320, 240), Image.Resampling.BILINEAR)
        content = io.BytesIO()
        picture.save(content, "JPEG")
        path = folder / name / f"{number}.jpg"
        path.write_bytes(content.getvalue())
        os.utime(path, (1_000_000, 1_000_000))  # at rest for long


def write_password(home: Path, broker: Broker, user: str) -> None:
    """Write a user's broker secret, readable by the owner alone."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / PASSWORD
    path.touch(mode=0o600)
    path.write_text(broker.credentials(user)[1] + "\n", encoding="utf-8")


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start `fleetledger …` with a log file."""
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "fleetledger", *arguments], stdout=log, stderr=log
        )


def until(true: Callable[[], bool]) -> None:
    """Wait until `true()`; give up loudly."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not true():
        if time.monotonic() > end:
            raise SystemExit("it took too long; the logs are in the scratch folder (--keep)")
        time.sleep(0.1)
