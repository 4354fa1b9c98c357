"""fleetledger: a thousand agents on engine `inprocess`, with their ledger, and no training.

    python -m benchmarks.speed.fleet_overhead.sides.fleetledger_side 1000 10000 5 AGENTS [WORKERS]

Agents, floats, rounds. AGENTS is `told` or `acting`: what to do, or by themselves, with a latency.
WORKERS is how many programs train told ones beside this one. Where the processor's time goes is
written to PROFILE, a file.
"""

from __future__ import annotations

import cProfile
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil

import benchmarks.speed.fleet_overhead.echo  # noqa: F401 - knows the method
from benchmarks.speed.fleet_overhead.sides.telling import Mark, mark, numbers, tell
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.backbones.pixels import pixels_backbone
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from fleetledger.simulator.plan.plan_maker import device_id
from fleetledger.simulator.records import RoundRecord, StageRecord
from fleetledger.simulator.run.engines import make_engine
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.model import Scenario

HIDDEN = {1_000: [13], 10_000: [46, 143], 1_000_000: [1000, 932], 11_200_000: [3100, 3550]}
"""Widths of the network by the number of floats: 873, 9,999, 999,798 and 11,217,152 of them for
8 x 8 pixels; the last are as many as a ResNet-18 has."""
NAMES = (ClassName("even"), ClassName("odd"))


class Clock:
    """Notes when rounds end; a `Watch`."""

    def __init__(self) -> None:
        self.phases: dict[str, Mark] = {}
        self.ends: list[Mark] = []
        self._beside: list[psutil.Process] = []

    def stage(self, number: int, total: int) -> None:
        """Say that a stage begins."""

    def phase(self, text: str) -> None:
        """Note when something else begins."""
        self.phases[text] = mark()

    def remark(self, text: str) -> None:
        """Say nothing: figures speak."""

    def agents(self, done: int, total: int) -> None:
        """Say how many agents have answered."""

    def round_ended(self, record: RoundRecord) -> None:
        """Say nothing of what a round measured."""

    def round(self, done: int, total: int) -> None:
        """Note the end of a round."""
        del done, total
        if not self.ends:
            self._beside = psutil.Process().children()
        self.ends.append(self.now())

    def now(self) -> Mark:
        """Return now; seconds of programs that work beside this one count too."""
        spent = [program.cpu_times() for program in self._beside]
        here = mark()
        beside = sum(times.user + times.system for times in spent)
        return Mark(here.wall, here.process + beside)


def scenario_of(agents: int, floats: int, rounds: int, kind: str, workers: int) -> Scenario:
    """Return one stage of so many rounds, in which everybody takes part."""
    in_time = {"latency_ms": 5.0} if kind == "acting" else {}
    return Scenario.model_validate(
        {
            "title": "The machinery alone",
            "stages": {"count": 1},
            "devices": {"count": agents},
            "rounds": {"per_stage": rounds, "quorum": 1.0},
            "method": {"name": "echo", "settings": {"hidden": HIDDEN[floats]}},
            "engine": {"device": "cpu", "workers": workers, **in_time},
            "evaluation": {"every_rounds": rounds},
        }
    )


def seed_of(scenario: Scenario) -> PreparedSeed:
    """Return a picture for each agent, and the plan that gives it."""
    agents = scenario.devices.count
    split = Split(train=pictures(agents), test=pictures(8))
    devices = {
        device_id(number): DeviceStage(np.array([number - 1], np.int64))
        for number in range(1, agents + 1)
    }
    plan = FleetPlan(1, NAMES, (StagePlan(1, (0, 1), devices),))
    looks = pixels_backbone(split, None).preprocessing
    return PreparedSeed(scenario, split, plan, Backbone("echo", b"", looks))


def pictures(count: int) -> LabelledImages:
    """Return 8 x 8 pixels of noise."""
    drawn = np.random.default_rng(count).integers(0, 256, (count, 8, 8), np.uint8)
    return LabelledImages(drawn, np.arange(count, dtype=np.int64) % 2, NAMES)


def run(scenario: Scenario, folder: Path) -> None:
    """Let the fleet learn, check what came of it, and tell."""
    os.environ["FLEETLEDGER_CACHE"] = str(folder / "cache")
    clock, began = Clock(), mark()
    prepared = seed_of(scenario).prepare(clock)
    engine = make_engine(prepared, folder, clock)
    if isinstance(engine, LightEngine):
        engine.wait_for_workers()
    record = engine.learn(prepared.plan.stages[0])
    learned = clock.now()
    engine.close()
    opened = clock.phases["stage 1: devices compute, the coordinator solves"]
    check(scenario, record)
    tell(
        [opened, *clock.ends],
        ["numpy", "torch", "pydantic"],
        {
            "opened_to_mean_seconds": [round(item.seconds, 4) for item in record.rounds],
            "before_process_seconds": round(opened.process - began.process, 3),
            "after_process_seconds": round(learned.process - clock.ends[-1].process, 3),
            "before_seconds": round(opened.wall - began.wall, 3),
            "after_seconds": round(learned.wall - clock.ends[-1].wall, 3),
            "phases": {name: round(value, 3) for name, value in record.seconds.items()},
            "ledger_entries": ledger_entries(folder),
            "bytes_up_per_agent": round(
                sum(item.bytes_up for item in record.devices.values()) / len(record.devices)
            ),
            "disk_mib": round(disk_bytes(folder) / 2**20),
        },
    )


def check(scenario: Scenario, record: StageRecord) -> None:
    """Raise `AssertionError` unless everybody answered every round."""
    agents, rounds = scenario.devices.count, scenario.rounds.per_stage
    assert len(record.rounds) == rounds
    for item in record.rounds:
        assert isinstance(item, RoundRecord)
        assert item.counted == item.asked == agents
        assert item.client_drift is not None
        assert item.client_drift < 1  # constants of the devices are nearly alike


def ledger_entries(folder: Path) -> int:
    """Return the number of entries."""
    from fleetledger.coordinator.ledger.reader import LedgerReader
    from fleetledger.coordinator.paths import ledger_path

    with LedgerReader.open_read_only(ledger_path(folder / "coordinator")) as ledger:
        return ledger.size


def disk_bytes(folder: Path) -> int:
    """Return what the files of a run take; of hard links one."""
    files = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found = path.stat()
            files[found.st_ino] = found.st_blocks * 512
    return sum(files.values())


@contextmanager
def profiled(path: Path | None) -> Iterator[None]:
    """Write to a file how much of the processor's time each function took."""
    if path is None:
        yield
        return
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    yield
    profile.disable()
    profile.dump_stats(path)


def main() -> None:
    """Run the rounds in a folder that is removed afterwards."""
    agents, floats, rounds = numbers(sys.argv[1:4])
    kind = sys.argv[4]
    workers = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    profile = Path(sys.argv[6]) if len(sys.argv) > 6 else None
    with tempfile.TemporaryDirectory(prefix="fleet-overhead-") as folder, profiled(profile):
        run(scenario_of(agents, floats, rounds, kind, workers), Path(folder))


if __name__ == "__main__":
    main()
