"""Measure the dashboard of 1,000 devices and 100,000 entries, and what it takes from a coordinator.

The ledger is written once by its own writer and kept (`--folder`). A real dashboard reads it:

    pages     seconds to the first byte of every page and its JSON, one request at a time
    streams   processor time with streams of events open, while what is known changes every 2 s
    memory    of the process, after all pages and with all streams
    rate      contributions per second of a real coordinator process on a copy of that ledger, with
              a dashboard on it (streams open, a page loaded each second) and without, in turns

    python -m benchmarks.speed.fleet_view.run [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.contribution_rate.fleet import Fleet, Task
from benchmarks.speed.contribution_rate.load import Plan as Load
from benchmarks.speed.contribution_rate.load import make_messages
from benchmarks.speed.contribution_rate.run import spread
from benchmarks.speed.contribution_rate.serving import serving
from benchmarks.speed.fleet_view.dashboard import Served, Streams, addresses, dashboard, looking
from benchmarks.speed.fleet_view.history import (
    FLEET,
    History,
    home_with,
    lineage_of,
    write_settings,
)
from benchmarks.speed.fleet_view.presence import presence
from benchmarks.speed.transport_rate.raw import Peer
from fleetledger.coordinator.settings import CoordinatorBrokerSettings
from fleetledger.runtime.private_file import write_private
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.brokers import MosquittoBroker

RESULTS = RESULTS_FOLDER / "fleet_view.json"
TOPICS = FleetTopics(FLEET)
LIMITS = {"first_byte_ms": 300, "memory_mib": 120, "streams_core": 0.10, "rate_lost": 0.05}


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    requests: int
    """Of each page, after one that is not counted."""
    streams: int
    stream_seconds: float
    rounds: int
    """Of the rate, each with and without a dashboard."""
    parts: int
    """Contributions of each sender, per side and round."""
    window: int
    viewers: int
    """Streams that are open while the rate is measured."""


def measure_pages(served: Served, paths: Sequence[str], requests: int) -> dict[str, object]:
    """Return milliseconds to the first byte: median and largest, by page."""
    found: dict[str, object] = {}
    for path in paths:
        served.first_byte(path)
        times = [1000 * served.first_byte(path) for _ in range(requests)]
        found[path] = {"median": round(statistics.median(times), 1), "max": round(max(times), 1)}
    return found


def measure_streams(served: Served, plan: Plan) -> dict[str, float]:
    """Return which share of a core open streams take, and the memory meanwhile."""
    with Streams(served, plan.streams).opened() as streams:
        time.sleep(2)  # what opening them takes is not counted
        before, began = served.cpu_seconds(), time.monotonic()
        time.sleep(plan.stream_seconds)
        share = (served.cpu_seconds() - before) / (time.monotonic() - began)
        memory = served.resident_mib()
    return {
        "core": round(share, 4),
        "memory_mib": round(memory, 1),
        "received_bytes": streams.received,
        "broken": streams.broken,
    }


def measure_rate(home: Path, history: History, plan: Plan) -> list[dict[str, float]]:
    """Return the contributions per second with a dashboard and without, of each round."""
    load = Load(plan.rounds, history.senders, plan.parts, plan.window, history.map_width)
    messages = make_messages(load, lineage_of(home), stage=history.stages)
    task = Task(TOPICS, messages, plan.window, answered=True)
    rounds: list[dict[str, float]] = []
    with (
        tempfile.TemporaryDirectory(dir=home.parent) as name,
        MosquittoBroker(Path(name) / "broker", load.names) as broker,
    ):
        fleet = Fleet(broker.host, broker.port, [Peer(*broker.credentials(d)) for d in load.names])
        fleet.subscribe(TOPICS)
        side = _Side(home, Path(name) / "home", history, broker, fleet)
        for number in range(plan.rounds):
            order = (plan.viewers, 0) if number % 2 == 0 else (0, plan.viewers)
            found = {"with" if viewers else "without": side(task, viewers) for viewers in order}
            print({name: round(value) for name, value in found.items()}, file=sys.stderr)
            rounds.append(found)
        fleet.close()
    return rounds


@dataclass(frozen=True)
class _Side:
    """What both sides of all rounds share."""

    template: Path
    home: Path
    history: History
    broker: MosquittoBroker
    fleet: Fleet

    def __call__(self, task: Task, viewers: int) -> float:
        """Return the contributions per second of a coordinator that so many look at."""
        shutil.copytree(self.template, self.home)
        try:
            self._settle()
            with serving(self.broker, self.home, TOPICS), self._looked_at(viewers):
                began, ended = self.fleet.give(task)
        finally:
            shutil.rmtree(self.home)
        return sum(map(len, task.messages)) / (ended - began)

    def _settle(self) -> None:
        user, password = self.broker.credentials("coordinator")
        write_private(self.home / "broker.password", password.encode())
        broker = CoordinatorBrokerSettings(
            host=self.broker.host,
            port=self.broker.port,
            username=DeviceId(user),
            password_file=Path("broker.password"),
        )
        write_settings(self.history, self.home, broker)

    @contextmanager
    def _looked_at(self, viewers: int) -> Iterator[None]:
        if not viewers:
            yield
            return
        paths = addresses(self.history.names[-1], self.history.entries)
        with dashboard(self.home) as served, looking(served, paths, viewers):
            yield


def summary(rounds: Sequence[dict[str, float]]) -> dict[str, object]:
    """Return medians and ranges of both sides, and of what is lost in a round."""
    lost = [1 - found["with"] / found["without"] for found in rounds]
    return {
        "contributions_per_second": {
            side: spread([found[side] for found in rounds]) for side in ("with", "without")
        },
        "lost": spread(lost, 3),
    }


def measure(plan: Plan, history: History, folder: Path) -> dict[str, object]:
    """Measure everything; return what is written down."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    home = home_with(history, folder)
    print(f"{home}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    paths = addresses(history.names[-1], history.entries)
    with (
        _copied(home) as looked_at,
        presence(looked_at, history),
        dashboard(looked_at) as served,
    ):
        pages = measure_pages(served, paths, plan.requests)
        memory = served.resident_mib()
        streams = measure_streams(served, plan)
    rounds = measure_rate(home, history, plan) if plan.rounds else []
    return {
        "command": f"python -m benchmarks.speed.fleet_view.run {' '.join(sys.argv[1:])}".strip(),
        "machine": describe_machine("starlette", "uvicorn", "sse-starlette", "pydantic"),
        "plan": asdict(plan) | asdict(history),
        "limits": LIMITS,
        "first_byte_ms": pages,
        "memory_mib_after_pages": round(memory, 1),
        "streams": streams,
        **(summary(rounds) if rounds else {}),
    }


@contextmanager
def _copied(home: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=home.parent) as name:
        shutil.copytree(home, Path(name) / "home")
        yield Path(name) / "home"


def broken_limits(found: dict[str, Any]) -> list[str]:
    """Return what is beyond its limit, in words."""
    said = [
        f"{path}: first byte after {times['median']} ms (median)"
        for path, times in found["first_byte_ms"].items()
        if times["median"] > LIMITS["first_byte_ms"]
    ]
    for name, value, limit in (
        ("MiB after all pages", found["memory_mib_after_pages"], LIMITS["memory_mib"]),
        ("MiB with all streams", found["streams"]["memory_mib"], LIMITS["memory_mib"]),
        ("of a core with all streams", found["streams"]["core"], LIMITS["streams_core"]),
        ("streams that broke", found["streams"]["broken"], 0),
        ("of the rate lost", found.get("lost", {}).get("median", 0), LIMITS["rate_lost"]),
    ):
        said += [f"{value} {name}, at most {limit}"] if value > limit else []
    return said


def main() -> None:
    """Measure, print and write the results; fail where one is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=9, help="of each page")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--stream-seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=5, help="of the rate; 0 leaves it out")
    parser.add_argument("--parts", type=int, default=200, help="contributions of each sender")
    parser.add_argument("--window", type=int, default=4, help="of a sender, under way at a time")
    parser.add_argument("--viewers", type=int, default=5, help="streams while the rate is measured")
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where ledgers are kept"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    plan = Plan(**{name: getattr(given, name) for name in Plan.__dataclass_fields__})
    found = measure(plan, History(given.devices, given.entries), given.folder)
    text = json.dumps(found, indent=2)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    if broken := broken_limits(found):
        sys.exit("\n".join(["beyond a limit:", *broken]))


if __name__ == "__main__":
    main()
