"""The programs of one fleet on one folder, new or left by a former run: set up, started, stopped.

Who is stopped and started again goes on where it was, as a device that was switched off does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Literal

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.engine import carry_out_waiting
from fleetledger.coordinator.program.tokens import invite
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.device_agent.cli.enrolment import enrol
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.device_agent.home.status_file import Status, read_status
from fleetledger.schemas.envelope import PROXY
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.mqtt import homes
from fleetledger.simulator.engines.mqtt.folder import FleetFolder
from fleetledger.simulator.engines.mqtt.processes import Child, Children, fleetledger_command
from fleetledger.simulator.engines.mqtt.settings import FLEET, agent_settings, coordinator_settings
from fleetledger.simulator.engines.rounds import first_lineage
from fleetledger.simulator.errors import EngineError, WaitedTooLongError
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.transport.brokers import start_child_broker

POLL_SECONDS = 0.05
Question = Callable[[State], str | None]
"""Returns what is still awaited, or None."""

COORDINATOR = "coordinator"
TOKEN_HOURS = 1.0
"""That a device may take to enrol, from when it is set up until its agent has connected."""
LONGEST_DELAY_SECONDS = 3.0
"""The fleet's clock is the clock on the wall, so nobody answers later than this."""


@dataclass(frozen=True)
class Straggler:
    """A paused agent, and the seconds after which it goes on."""

    agent: Child
    seconds: float

    def go_on_later(self) -> None:
        """Begin its delay."""
        delay = Timer(self.seconds, self.agent.resume)
        delay.daemon = True
        delay.start()


class Programs:
    """Broker, coordinator and, where the method has one, proxy run, and agents come and go.

    Close it in every case.
    """

    def __init__(
        self, prepared: Prepared, folder: FleetFolder, show: Callable[[str], None]
    ) -> None:
        """Start broker and coordinator; raise `EngineError` where another process leads.

        `show` is told what is awaited.
        """
        self._prepared = prepared
        self._folder = folder
        self._homes: dict[DeviceId, AgentHome] = {}
        folder.make()
        with ExitStack() as stack:
            self.children = stack.enter_context(Children(folder.logs))
            self._broker = self.children.adopt(
                start_child_broker(
                    folder.broker, [*prepared.plan.devices, PROXY], _preferred(prepared)
                )
            )
            self._set_up_coordinator(
                coordinator_settings(prepared.scenario, prepared.plan.seed, self._broker)
            )
            self.ledger = stack.enter_context(
                LedgerReader.open_read_only(ledger_path(folder.coordinator))
            )
            self.follower = Follower(self.ledger, self.children, show)
            if self.follower.state.lineages.current is None:
                homes.carry_out(folder.coordinator, first_lineage(folder.coordinator, prepared))
                self.follower.catch_up()
            self._start_leader(COORDINATOR, "serve", folder.coordinator)
            if self.follower.state.lineages.with_proxy is not None:
                settings = ProxyHomeSettings(fleet=FLEET, device=prepared.scenario.engine.device)
                homes.write_proxy(folder.proxy, self._broker, settings)
                self._start_leader(PROXY, "proxy", folder.proxy)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Stop everything."""
        self._stack.close()

    @property
    def running(self) -> set[DeviceId]:
        """Devices whose agents were started and not stopped."""
        names = {child.name for child in self.children.running} - {COORDINATOR, PROXY}
        return {DeviceId(name) for name in names}

    def agent(self, device: DeviceId) -> Child:
        """Return the program of a device whose agent runs."""
        return next(child for child in self.children.running if child.name == device)

    def start_agent(self, device: DeviceId) -> None:
        """Start an agent at its home, which is made where there is none, with a key if wanted."""
        home = self._folder.agent(device)
        settings = agent_settings(
            self._prepared.scenario, self._broker, device, self._prepared.split.train.kind
        )
        homes.write_agent(home, self._broker, settings)
        self._homes[device] = AgentHome(home, settings)
        if self._prepared.scenario.engine.keys and not self._has_key(device):
            check = self.children.check
            invited = invite(self._folder.coordinator, device, TOKEN_HOURS, check)
            enrol(home, invited.token.text)
        self.children.start(device, fleetledger_command("agent", "run", "--home", str(home)))

    def stop_agents(self, devices: Collection[DeviceId]) -> None:
        """Stop agents as their owners would."""
        self.children.end(devices)

    def status(self, device: DeviceId) -> Status | None:
        """Return what a running agent last said of itself; None where it has not said anything."""
        status = read_status(self._homes[device].status_file)
        if status is None or status.process != self.agent(device).process.pid:
            return None
        return status

    def hold_up(self, stage: StagePlan, there: Iterable[DeviceId]) -> list[Straggler]:
        """Pause the stragglers of a stage among the devices that are there."""
        delays = {name: stage.devices[name].delay_seconds for name in there}
        late = {name: min(delay, LONGEST_DELAY_SECONDS) for name, delay in delays.items() if delay}
        stragglers = [Straggler(self.agent(name), seconds) for name, seconds in late.items()]
        for straggler in stragglers:
            straggler.agent.pause()
        return stragglers

    def _has_key(self, device: DeviceId) -> bool:
        """Whether a device has enrolled, or is about to."""
        return bool(KeyRing.beside(self._folder.agent(device), FLEET, device).describe())

    def _start_leader(self, name: str, verb: str, home: Path) -> None:
        self.children.start(name, fleetledger_command("coordinator", verb, "--home", str(home)))

    def _set_up_coordinator(self, settings: CoordinatorSettings) -> None:
        """Write the settings, and carry out what a former run asked for and did not see done."""
        homes.write_coordinator(self._folder.coordinator, self._broker, settings)
        if not carry_out_waiting(self._folder.coordinator):
            raise EngineError(
                f"{self._folder.coordinator}: another coordinator leads from there; wait until it "
                "has ended, or give another folder"
            )


def _preferred(prepared: Prepared) -> Literal["mosquitto", "amqtt"] | None:
    broker = prepared.scenario.engine.broker
    return None if broker == "auto" else broker


@dataclass
class Follower:
    """Reads a ledger that another process writes."""

    ledger: LedgerReader
    children: Children
    show: Callable[[str], None]
    """Is told what is awaited, whenever that is something else."""
    state: State = field(init=False)
    """What was taken in."""

    def __post_init__(self) -> None:
        self.catch_up()

    def catch_up(self) -> None:
        """Take in the entries that are new."""
        self.state = state_of(self.ledger)

    def wait(self, question: Question, seconds: float, label: str) -> None:
        """Follow the ledger until `question` is answered with None.

        Raises `WaitedTooLongError` after `seconds`, with what was awaited and the ends of the
        logs, and `ProcessDiedError` when a program ends meanwhile.
        """
        end, shown = time.monotonic() + seconds, ""
        while True:
            self.catch_up()
            awaited = question(self.state)
            self.children.check()
            if awaited is None:
                return
            if awaited != shown:
                self.show(f"{label}: waiting for {awaited}")
                shown = awaited
            if time.monotonic() > end:
                raise WaitedTooLongError(
                    f"{label}: waited {seconds:g} seconds for {awaited}; "
                    f"the ends of the logs:\n{self.children.tails()}"
                )
            time.sleep(POLL_SECONDS)
