"""Reports of a coordinator's home, as its commands show them, whether it runs or not."""

from __future__ import annotations

import time
from pathlib import Path

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.reports.contributions import class_facts
from fleetledger.coordinator.reports.fleet import EVERY_DEVICE, fleet_now, narrowed
from fleetledger.coordinator.reports.model_waits import version_wait
from fleetledger.coordinator.reports.reports import (
    ClassesReport,
    DeviceReport,
    DevicesReport,
    ListedDevice,
    ModelsReport,
    RoundsReport,
    StagesReport,
)
from fleetledger.coordinator.reports.rollouts.lookup import one_rollout, summaries
from fleetledger.coordinator.reports.rollouts.report import RolloutReport, RolloutsReport
from fleetledger.coordinator.reports.stages import all_stages
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.views import chosen_in
from fleetledger.coordinator.topics.models import queries as model_queries
from fleetledger.coordinator.topics.models.queries import ModelReport
from fleetledger.coordinator.topics.proxy import views as proxy_views
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.coordinator.topics.rounds import views as round_views
from fleetledger.coordinator.topics.stages import views as stage_views


def devices_of(home: Path, choice: DeviceChoice = EVERY_DEVICE) -> DevicesReport:
    """Return what `device list` shows, of some devices or of all."""
    with ledger_of(home) as ledger:
        fleet = fleet_now(ledger, read_live(home), time.time_ns())
        if not choice.is_open:
            fleet = narrowed(fleet, chosen_in(ledger, choice))
    return DevicesReport(
        devices=tuple(
            ListedDevice.model_validate(one, from_attributes=True) for one in fleet.devices
        ),
        retired=fleet.retired if choice.is_open else (),
    )


def device_of(home: Path, name: str) -> DeviceReport:
    """Return what `device show` shows; raise `CommandError` for one that is not admitted."""
    with ledger_of(home) as ledger:
        fleet = fleet_now(ledger, read_live(home), time.time_ns())
    found = next((one for one in fleet.devices if one.name == name), None)
    if found is None:
        raise CommandError(
            f"device: {name!r} is not admitted; `fleetledger device list` names those that are"
        )
    return DeviceReport(device=found)


def models_of(home: Path) -> ModelsReport:
    """Return what `model list` shows."""
    with ledger_of(home) as ledger, ledger.snapshot():
        waiting = {push.version for push in release_views.waiting(ledger)}
        known = state_of(ledger).models
    return ModelsReport(
        models=tuple(model_queries.models(known, waiting)),
        held=known.held,
        canaries=known.canaries,
    )


def model_of(home: Path, version: int) -> ModelReport:
    """Return what `model show` shows; raise `CommandError` where there is no such version."""
    with ledger_of(home) as ledger:
        report = model_queries.model_facts(state_of(ledger).models, version)
        wait = version_wait(ledger, read_live(home), time.time_ns(), version)
    return report.model_copy(update={"wait": None if wait is None else wait.sentence})


def rollouts_of(home: Path) -> RolloutsReport:
    """Return what `rollout list` shows."""
    with ledger_of(home) as ledger:
        return RolloutsReport(rollouts=tuple(summaries(ledger, time.time_ns(), limit=1000)))


def rollout_of(home: Path, number: int) -> RolloutReport:
    """Return what `rollout show` shows; raise `CommandError` where there is no such rollout."""
    with ledger_of(home) as ledger, ledger.snapshot():
        return one_rollout(ledger, number, time.time_ns())


def stages_of(home: Path) -> StagesReport:
    """Return what `coordinator stages` shows."""
    with ledger_of(home) as ledger, ledger.snapshot():
        known, reported = all_stages(ledger), stage_views.reports_in(ledger)
    return StagesReport(stages=tuple(known), reported=tuple(reported))


def rounds_of(home: Path) -> RoundsReport:
    """Return what `coordinator rounds` shows."""
    with ledger_of(home) as ledger, ledger.snapshot():
        stopped = round_views.stopped_in(ledger)
        return RoundsReport(
            rounds=tuple(state_of(ledger).rounds.facts.values()),
            declined=tuple(round_views.declined(ledger)),
            stopped=None if stopped is None else stopped[1],
            old_models=tuple(proxy_views.old_models(ledger)),
        )


def classes_of(home: Path) -> ClassesReport:
    """Return what `class list` shows."""
    with ledger_of(home) as ledger, ledger.snapshot():
        return ClassesReport(classes=tuple(class_facts(ledger)))
