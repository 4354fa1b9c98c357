"""The fleet just now, of its ledger and of what a coordinator last wrote beside it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.columns import without_collecting
from fleetledger.coordinator.ledger.lock import WriterLock, lock_path
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.live.snapshot import LiveSnapshot, StageWait, serves
from fleetledger.coordinator.paths import FILE_NAME
from fleetledger.coordinator.reports import answers
from fleetledger.coordinator.reports.answers import FleetNow, Need, Trouble
from fleetledger.coordinator.reports.fleet_devices import fleet_devices
from fleetledger.coordinator.reports.model_waits import model_waits
from fleetledger.coordinator.reports.needs import KnownFleet, at_home, needs
from fleetledger.coordinator.reports.rollouts.lookup import unfinished
from fleetledger.coordinator.reports.waits import Wait, buffer_wait, round_wait, stage_wait
from fleetledger.coordinator.topics.cohorts.views import cohort_sentences
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.views import chosen_in
from fleetledger.coordinator.topics.lineages.entries import Lineage
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.coordinator.topics.rounds import views as round_views
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.problems import DatedProblem
from fleetledger.runtime.settings_file import load_settings
from fleetledger.schemas.values import DeviceId, FleetId

__all__ = ["FleetNow", "fleet_now", "fleet_of"]

EVERY_DEVICE = DeviceChoice()


class _NamedFleet(BaseModel):
    """Settings that the status of a fleet shows; the others are checked where they matter."""

    fleet: FleetId
    trial: bool = False
    learning: bool = True


def fleet_of(home: Path, choice: DeviceChoice = EVERY_DEVICE) -> FleetNow:
    """Return what `coordinator status` shows, of some devices or of all."""
    file = home / FILE_NAME
    settings = load_settings(file, _NamedFleet) if file.is_file() else None
    named = str(settings.fleet) if settings else ""
    told = {
        "learning": settings is None or settings.learning,
        "trial": settings is not None and settings.trial,
    }
    with ledger_of(home) as ledger:
        fleet = fleet_now(ledger, read_live(home), time.time_ns(), named)
        here = tuple(at_home(need, home) for need in fleet.needs)
        fleet = fleet.model_copy(update={**told, "needs": here})
        return fleet if choice.is_open else narrowed(fleet, chosen_in(ledger, choice))


def fleet_now(
    ledger: LedgerReader, live: LiveSnapshot | None, time_ns: int, fleet: str = ""
) -> FleetNow:
    """Return the fleet at `time_ns`, as one state of the ledger and the newest live snapshot say.

    `fleet` is its name for where no coordinator has served yet. Raises `LedgerError`.
    """
    with ledger.snapshot(), without_collecting():
        return _fleet_now(ledger, live, time_ns, fleet)


def narrowed(fleet: FleetNow, names: Iterable[str]) -> FleetNow:
    """Return the fleet with these devices alone, and what needs a person because of them or all."""
    kept = set(names)
    return fleet.model_copy(
        update={
            "devices": tuple(one for one in fleet.devices if one.name in kept),
            "needs": tuple(
                need for need in fleet.needs if not need.devices or kept.intersection(need.devices)
            ),
        }
    )


def _fleet_now(
    ledger: LedgerReader, live: LiveSnapshot | None, time_ns: int, fleet: str
) -> FleetNow:
    run, checkpoint = _run(live, time_ns, ledger.path), ledger.checkpoint
    state = state_of(ledger)
    models = state.models
    devices = fleet_devices(ledger, state, live if run.running else None)
    at = live.coordinator.stage if live is not None and run.running else None
    clock, names = _Clock(run, at, time_ns), [DeviceId.known(one.name) for one in devices]
    now = _stage(ledger, state, clock, names)
    rollouts = tuple(unfinished(ledger, time_ns))
    stopped = round_views.stopped_in(ledger)
    found = needs(KnownFleet(ledger, state, run, devices, rollouts, time_ns, now))
    return FleetNow(
        fleet=fleet if live is None else live.coordinator.fleet,
        time=time_ns,
        coordinator=run,
        ledger=answers.LedgerNow(size=ledger.size, last_commit=checkpoint and checkpoint.time_ns),
        needs=tuple(_dated(ledger, need) for need in found),
        devices=devices,
        retired=_retired(state),
        stage=now,
        rollouts=rollouts,
        models=answers.ModelsNow(
            newest=models.newest_version,
            desired=models.desired_of_all,
            held=models.held,
            canaries=tuple(
                answers.CanaryNow(version=version, devices=names)
                for version, names in sorted(models.canaries.items())
            ),
            waiting_releases=tuple(release_views.waiting(ledger)),
            waits=model_waits(ledger, live, time_ns),
        ),
        stopped_rounds=None
        if stopped is None
        else answers.StoppedRounds(index=stopped[0], reason=stopped[1]),
    )


def _dated(ledger: LedgerReader, need: Need) -> Need:
    """Return a need with the time of the entry that it stands on, where it has no other."""
    if need.since is not None or need.index is None:
        return need
    return need.model_copy(update={"since": ledger.entry(need.index).time_ns})


def _retired(state: State) -> tuple[answers.RetiredDevice, ...]:
    held = state.contributions.held() if state.devices.retired else {}
    return tuple(
        answers.RetiredDevice(
            name=name,
            since=said.time_ns,
            index=said.index,
            reason=said.reason,
            contributions=held.get(name, (0, 0))[0],
        )
        for name, device in sorted(state.devices.retired.items())
        if (said := device.retirement) is not None
    )


def _run(live: LiveSnapshot | None, time_ns: int, ledger: Path) -> answers.CoordinatorRun:
    if live is None:
        return answers.CoordinatorRun(running=False)
    now = live.coordinator
    running = serves(now, time_ns)
    return answers.CoordinatorRun(
        running=running,
        process=None if running or now.stopped else WriterLock.holder(lock_path(ledger)),
        since=now.started_ns if running else None,
        stopped_in_order=now.stopped,
        last_written=now.written_ns,
        version=now.version,
        connected=running and now.connected,
        connection=now.connection if running else "",
        making_model=running and now.making_model,
        disconnected_since=None if not running or now.connected else now.disconnected_ns,
        problems=tuple(map(_trouble, now.problems)) if running else (),
        misused=now.misused if running else (),
        files_by_http=now.files_by_http if running else 0,
        files_by_broker=now.files_by_broker if running else 0,
    )


def _trouble(problem: DatedProblem) -> Trouble:
    return Trouble(
        about=problem.about, text=problem.text, since=problem.since_ns, hinders=problem.hinders
    )


@dataclass(frozen=True)
class _Clock:
    """Time, and what the coordinator says of the stage by it."""

    run: answers.CoordinatorRun
    stage: StageWait | None
    time_ns: int


def _stage(
    ledger: LedgerReader, state: State, clock: _Clock, names: Sequence[DeviceId]
) -> answers.StageNow | None:
    """Return the stage that is open; None where none is."""
    number = state.stages.open
    if number is None:
        return None
    stage = state.stages.by_number[number]
    lineage = state.lineages.current
    able = [name for name in names if _is_waited_for(state, name, lineage)]
    given = state.contributions.given_in(number).devices
    heard = {name for name, sums in given.items() if sums.by_end.keys() != {"unopened"}}
    heard |= round_views.without_data(state, number).keys()
    current = round_views.open_round(ledger)
    return answers.StageNow(
        number=number,
        class_names=stage.class_names,
        index=stage.opened_index,
        opened=stage.asked_ns,
        wait=_of_stage(ledger, clock, in_round=current is not None),
        opened_by=stage.opened_by,
        answered=tuple(name for name in able if name in heard),
        missing=tuple(name for name in able if name not in heard),
        cohorts=tuple(cohort_sentences(state, number)),
        round=None if current is None else _round(state, current, clock.time_ns),
    )


def _round(state: State, current: Round, now_ns: int) -> answers.RoundNow:
    asked, heard, opened = current.opened.cohort, current.heard, current.opened
    latest_ns = current.opened_ns + round(opened.deadline_seconds * 1e9)
    if opened.buffering is not None:
        train, buffer = tuple(sorted(state.rounds.standing)), opened.buffering.answers
        return answers.RoundNow(
            number=opened.number,
            phase=opened.phase,
            index=current.opened_index,
            opened=state.rounds.facts[opened.number].opened_ns,
            asked=(*current.answers, *train),
            answered=tuple(current.answers),
            missing=train,
            buffer=buffer,
            wait=buffer_wait(buffer, latest_ns, now_ns),
        )
    return answers.RoundNow(
        number=opened.number,
        phase=opened.phase,
        index=current.opened_index,
        opened=state.rounds.facts[opened.number].opened_ns,
        asked=asked,
        answered=tuple(name for name in asked if name in heard),
        missing=tuple(name for name in asked if name not in heard),
        wait=round_wait(len(asked), latest_ns, now_ns),
    )


def _is_waited_for(state: State, name: DeviceId, lineage: Lineage | None) -> bool:
    """Return whether a device can answer a stage, as far as is known."""
    device, key = state.devices.admitted[name], state.keys.of(name)
    if key.text == "revoked" or device.silent or not device.led:
        return False
    able = device.capabilities
    from fleetledger.methods.registry import can_learn  # noqa: PLC0415 - for open stages

    try:
        return able is None or lineage is None or can_learn(able, lineage.method, lineage.requires)
    except FleetledgerError:  # a method that is not installed here
        return True


def _of_stage(ledger: LedgerReader, clock: _Clock, *, in_round: bool) -> Wait:
    """Return what closes the open stage; what is stopped or leads to nobody waits for a person."""
    if not clock.run.running:
        return Wait(sentence="It stays open, since no coordinator runs.")
    if clock.stage is not None:
        return stage_wait(clock.stage, clock.time_ns)
    if round_views.stopped_in(ledger) is not None:
        return Wait(sentence="It stays open until its rounds are tried again, or you close it.")
    return Wait(sentence="Its last round closes it." if in_round else "Its next round is to open.")
