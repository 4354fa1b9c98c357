"""A coordinator as programs lead it: reports as data, and actions through the operator's inbox.

The calls of actions are made of the table that the dashboard has its forms from, `ACTIONS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetledger.coordinator import home_reports
from fleetledger.coordinator.actions.action import Action
from fleetledger.coordinator.actions.calls import call_name, call_of
from fleetledger.coordinator.actions.registry import ACTIONS
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.ledger_view import LedgerView
from fleetledger.coordinator.paths import DEFAULT_HOME, HOME_VARIABLE
from fleetledger.coordinator.program.command_client import accepted, answers_to, submit_all
from fleetledger.coordinator.program.operator import actor_of
from fleetledger.coordinator.reports.answers import FleetNow
from fleetledger.coordinator.reports.fleet import fleet_of
from fleetledger.coordinator.reports.reports import (
    ClassesReport,
    DeviceReport,
    DevicesReport,
    ModelsReport,
    RoundsReport,
    StagesReport,
)
from fleetledger.coordinator.reports.rollouts.report import RolloutReport, RolloutsReport
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.models.queries import ModelReport
from fleetledger.runtime.command_output import ActionReport
from fleetledger.runtime.waiting import wait_for


@dataclass(frozen=True)
class SubmittedCommand:
    """A command that lies in the coordinator's inbox, whatever becomes of this program."""

    home: Path
    action: Action
    ticket: str

    def wait(self, timeout: float = 30.0) -> ActionReport:
        """Return what was done, as the command line's `--json` prints it.

        Where no coordinator runs, it is carried out here. Raises `CommandError` where it was
        refused, `QuestionError` where it has to be asked first, and `OperatorTimeoutError` where
        nobody answered within `timeout` seconds; the command still waits then.
        """
        (answer,) = answers_to(self.home, [self.ticket], timeout_seconds=timeout)
        done = accepted(answer)
        followed = tuple(self.action.then(self.home))
        return ActionReport(said=(done.text,), entries=done.entries, followed=followed)


class Coordinator:
    """The coordinator of a home, which may run in another process, or not at all.

    `home` is its folder; left out, it is `$FLEETLEDGER_COORDINATOR`, else `coordinator-home`.
    `operator` is the name under which the ledger has what is asked for. Any thread may call.
    Raises `SettingsError` where no coordinator lives.

    Every action of an operator is a call that submits a command: `open_stage("apple", "pear")`.
    `wait()` of what it returns waits for the answer.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., SubmittedCommand]: ...

    def __init__(
        self, home: str | os.PathLike[str] | None = None, *, operator: str | None = None
    ) -> None:
        folder = home if home is not None else os.environ.get(HOME_VARIABLE, DEFAULT_HOME)
        self.home = Path(folder).absolute()
        self.ledger = LedgerView(self.home)
        """The ledger as data."""
        self._actor = OPERATOR if operator is None else actor_of(operator)
        load(self.home)

    def status(
        self, *, devices: Iterable[str] | None = None, tags: Iterable[str] | None = None
    ) -> FleetNow:
        """Return what needs a person, who is there and which model runs where.

        It is what `coordinator status --json` prints, of all devices or of those that are named.
        """
        return fleet_of(self.home, _chosen(devices, tags))

    def devices(self, *, tags: Iterable[str] | None = None) -> DevicesReport:
        """Return every device with its tags and its model, as `device list --json` prints it."""
        return home_reports.devices_of(self.home, _chosen(None, tags))

    def device(self, name: str) -> DeviceReport:
        """Return how one device is, as `device show --json` prints it; raise `CommandError`."""
        return home_reports.device_of(self.home, name)

    def models(self) -> ModelsReport:
        """Return every version, as `model list --json` prints it."""
        return home_reports.models_of(self.home)

    def model(self, version: int) -> ModelReport:
        """Return one version, as `model show --json` prints it; raise `CommandError`."""
        return home_reports.model_of(self.home, version)

    def rollouts(self) -> RolloutsReport:
        """Return every rollout, the newest first, as `rollout list --json` prints it."""
        return home_reports.rollouts_of(self.home)

    def rollout(self, number: int) -> RolloutReport:
        """Return one rollout, as `rollout show --json` prints it; raise `CommandError`."""
        return home_reports.rollout_of(self.home, number)

    def stages(self) -> StagesReport:
        """Return the stages, as `coordinator stages --json` prints it."""
        return home_reports.stages_of(self.home)

    def rounds(self) -> RoundsReport:
        """Return the rounds of training, as `coordinator rounds --json` prints it."""
        return home_reports.rounds_of(self.home)

    def classes(self) -> ClassesReport:
        """Return every class, as `class list --json` prints it."""
        return home_reports.classes_of(self.home)

    def wait(self, condition: Callable[[FleetNow], bool], *, timeout: float = 60.0) -> FleetNow:
        """Wait until a condition holds of the status, and return the status of then.

        Raises `WaitTimeoutError` after `timeout` seconds with what needs a person.
        """
        return wait_for(self.status, condition, timeout, self._describe)

    def _describe(self, status: FleetNow) -> str:
        return "; ".join(("the condition", f"{self.home}: {' '.join(status.above())}"))

    def _submit(self, action: Action, command: Command) -> SubmittedCommand:
        (ticket,) = submit_all(self.home, [command], actor=self._actor)
        return SubmittedCommand(self.home, action, ticket)


def _chosen(devices: Iterable[str] | None, tags: Iterable[str] | None) -> DeviceChoice:
    return DeviceChoice.read(
        None if devices is None else list(devices), None if tags is None else list(tags)
    )


def _carry_out(fleet: object, action: Action, command: Command) -> SubmittedCommand:
    assert isinstance(fleet, Coordinator)
    return fleet._submit(action, command)


for _action in ACTIONS.values():
    setattr(Coordinator, call_name(_action), call_of(_action, _carry_out))
