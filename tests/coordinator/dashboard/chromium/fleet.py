"""A fleet of real programs that learns digits, and a dashboard that is a program too."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.program.command_client import carried_out
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.engines.mqtt.processes import child_environment, fleetledger_command
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.loading import load_scenario
from tests.simulator.engines.mqtt.small import Quiet, processes_of

PATIENCE = 120.0


class RealFleet:
    """Broker, coordinator and agents; it learns when it is told to."""

    def __init__(self, folder: Path, changes: Sequence[str] = ()) -> None:
        scenario = load_scenario("demo", changes)
        watch = Quiet()
        prepared = PreparedSeed.load(scenario, scenario.seeds[0]).prepare(watch)
        self.stages = list(prepared.plan.stages)
        self.devices = tuple(prepared.plan.devices)
        self.home = folder / "coordinator"
        self._folder = folder
        self._engine = MqttEngine(prepared, folder, watch)

    def learn(self) -> None:
        """Learn the next stage to its end."""
        self._engine.learn(self.stages.pop(0))

    def command(self, command: Command) -> str:
        """Have the coordinator carry out a command."""
        return carried_out(self.home, command, alone=False).text

    def size(self) -> int:
        """Return how many entries the ledger has."""
        with ledger_of(self.home) as ledger:
            return ledger.size

    def entries(self, kind: str) -> list[Entry]:
        """Return the ledger's entries of a kind."""
        with ledger_of(self.home) as ledger:
            return list(ledger.find(ENTRY_KINDS[kind]))

    def kill(self, device: str) -> None:
        """End an agent without a word."""
        for process in processes_of(self._folder / "agents" / device):
            process.kill()

    def close(self) -> None:
        """Stop all programs."""
        self._engine.close()


class DashboardProgram:
    """`fleetledger dashboard` over a home; started again, it has the same port."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = 0
        self.links: dict[str, str] = {}
        """By role; each works once."""
        self.start()

    def start(self) -> None:
        command = fleetledger_command(
            "dashboard", "--home", str(self._home), "--port", str(self._port)
        )
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=child_environment()
        )
        assert self._process.stdout is not None
        while len(self.links) < 2 and (line := self._process.stdout.readline()):
            role, _, link = line.strip().partition("  ")
            if link:
                self.links[role] = link
        self._port = int(self.url.rpartition(":")[2])

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=PATIENCE)
        self.links = {}

    @property
    def url(self) -> str:
        """Where it is."""
        return self.links["viewer"].partition("/login")[0]


def until(found: Callable[[], object]) -> None:
    """Wait for something to be so."""
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
