"""Fleets that learn with workers of some kind, what came of them, and how long they took."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import benchmarks.speed.fleet_overhead.echo  # noqa: F401 - knows the method
from benchmarks.speed.fleet_overhead.sides.fleetledger_side import Clock
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.inprocess.light.workers import lots
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.model import Scenario

ACTOR = "ray::LotTrainer"
"""What the process of a worker is called."""

REMEMBERING: Mapping[str, Any] = {
    "data": {"set": "digits", "per_class": 40},
    "stages": {"classes": 4, "count": 2, "order": "as-is"},
    "devices": {"count": 12},
    "rounds": {"per_stage": 3},
    "method": {
        "name": "rounds",
        "settings": {"preset": "flwf-2t", "network": "mlp", "exemplars": 24, "epochs": 2},
    },
}
"""Devices that remember exemplars and their own models, so that a round twice would show."""

RESNET8: Mapping[str, Any] = {
    "data": {"set": "digits"},
    "backbone": {"size": 32},
    "stages": {"classes": 10, "count": 1},
    "devices": {"count": 16},
    "rounds": {"per_stage": 4},
    "method": {"name": "rounds", "settings": {"network": "resnet8", "epochs": 1, "batch": 16}},
}


@dataclass(frozen=True)
class Learned:
    """What came of a fleet."""

    digests: Sequence[str]
    """Of every sum, of every round's weights, and of every model's files."""
    round_seconds: Sequence[float]
    """On the wall, of each round but the first, which starts what is not there yet."""
    killed: int = 0
    """Workers that were ended meanwhile."""


def learned(content: Mapping[str, Any], engine: Mapping[str, Any], seed: int | None) -> Learned:
    """Let a fleet learn; with a seed, workers are killed at random meanwhile."""
    scenario = Scenario.model_validate(
        {"title": "workers", **content, "engine": {"device": "cpu", **engine}}
    )
    with tempfile.TemporaryDirectory(prefix="ray-cluster-") as folder:
        clock = Clock()
        prepared = PreparedSeed.load(scenario, 1).prepare(clock)
        made = LightEngine(prepared, Path(folder), clock)
        try:
            made.wait_for_workers()
            with _killing(seed) as killed:
                for stage in prepared.plan.stages:
                    made.learn(stage)
        finally:
            made.close()
        ends = [mark.wall for mark in clock.ends]
        seconds = [after - before for before, after in itertools.pairwise(ends)]
        return Learned(_digests(Path(folder)), seconds, len(killed))


def _digests(run: Path) -> list[str]:
    found: list[str] = []
    with LedgerReader.open_read_only(ledger_path(run / "coordinator")) as ledger:
        for entry in ledger.entries():
            body = read_entry(entry.kind, entry.body)
            if isinstance(body, WeightsAveraged):
                found += [body.aggregate, body.weights.digest]
            elif isinstance(body, ModelExported):
                found += [offer.digest for offer in body.files]
    return found


@contextmanager
def _killing(seed: int | None) -> Iterator[list[int]]:
    """End a worker now and then, whatever it does; yield those that were ended."""
    killed: list[int] = []
    if seed is None:
        yield killed
        return
    chance, over = random.Random(seed), threading.Event()
    lots._LARGEST_LOT = 1  # so that every worker has something
    lots._MOST_LOSSES = 100  # the lots are not to blame

    def kill() -> None:
        for _ in range(chance.randint(1, 3)):
            if over.wait(chance.uniform(0.02, 1.5)):
                return
            here = [one.pid for one in psutil.process_iter(["name"]) if _is_actor(one)]
            if here:
                killed.append(chance.choice(here))
                with suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def _is_actor(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE and ACTOR in " ".join(process.cmdline())
    return False


def main() -> None:
    """Let one fleet learn as the first argument says in JSON, and print what came of it."""
    asked = json.loads(sys.argv[1])
    began = time.perf_counter()
    found = learned(asked["content"], asked["engine"], asked.get("seed"))
    print(json.dumps({**vars(found), "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
