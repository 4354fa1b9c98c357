"""`fleetledger coordinator status`: what needs a person first, then devices, stage and models."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from fleetledger.coordinator import completing
from fleetledger.coordinator.cli.common import Tagged
from fleetledger.coordinator.cli.tables import table_of
from fleetledger.coordinator.core.formatting import some, span
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.reading.answers import (
    AccuracyThere,
    CoordinatorRun,
    FleetDevice,
    FleetNow,
    Need,
    RightCount,
    StageNow,
)
from fleetledger.coordinator.reading.fleet import fleet_now, narrowed
from fleetledger.coordinator.reading.needs import at_home
from fleetledger.coordinator.settings import FILE_NAME, load
from fleetledger.coordinator.topics.devices.choosing import DeviceChoice, told_tags
from fleetledger.coordinator.topics.devices.views import chosen_in
from fleetledger.coordinator.topics.models.queries import HELD
from fleetledger.schemas.console import console_for_people
from fleetledger.schemas.counted import count_of
from fleetledger.schemas.exit_codes import ExitCode
from fleetledger.schemas.showing import AsJson, show_report
from fleetledger.schemas.shown_commands import with_homes
from fleetledger.schemas.times import clock_time, iso_time

TRIAL = (
    "for trying: devices need no keys, so whoever has a password of the broker speaks for its "
    "device"
)
_COLUMNS = ("device", "state", "last seen", "model", "right %", "old %", "new %", "samples", "key")
_OF_LEARNING = frozenset({"old %", "new %", "samples"})
"""Columns that say nothing of a fleet that does not learn."""

Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        metavar="SECONDS",
        min=0.2,
        help="Draw it again every so many seconds, until interrupted.",
    ),
]


def status(
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this device; may be given several times.", autocompletion=completing.devices
        ),
    ] = None,
    tag: Tagged = None,
    home: Home = HOME,
    watch: Watch = None,
    as_json: AsJson = False,
) -> None:
    """Show what needs a person, who is there, which model runs where and how well.

    Exits with 3 where no coordinator runs, and with 4 where something needs a person now.
    """
    choice = DeviceChoice.read(device, tag)
    if watch is None or as_json:
        fleet = _read(home, choice)
        show_report(fleet, _draw, as_json=as_json)
        if not fleet.coordinator.running:
            raise typer.Exit(ExitCode.NOT_RUNNING)
        if any(need.urgency == "now" for need in fleet.needs):
            raise typer.Exit(ExitCode.NEEDS_A_PERSON)
        return
    with Live(
        _drawn(_read(home, choice), console_for_people().width), auto_refresh=False
    ) as screen:
        while True:
            try:
                time.sleep(watch)
                screen.update(_drawn(_read(home, choice), screen.console.width), refresh=True)
            except KeyboardInterrupt:
                return


def _read(home: Path, choice: DeviceChoice) -> FleetNow:
    settings = load(home) if (home / FILE_NAME).is_file() else None
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


def _draw(fleet: FleetNow) -> None:
    console = console_for_people()
    console.print(_drawn(fleet, console.width), soft_wrap=True)


def _drawn(fleet: FleetNow, width: int) -> RenderableType:
    """Return all of it; texts are not markup, because devices wrote some of them."""
    parts: list[RenderableType] = [Text(line) for line in _head(fleet)]
    parts += [Text(line) for need in fleet.needs for line in _need(need, fleet.time)]
    if not fleet.needs:
        parts.append(Text("Nothing needs you."))
    tagged = any(device.tags for device in fleet.devices)
    columns = (*_COLUMNS, *(("tags",) if tagged else ()), "trouble")
    shown = [at for at, name in enumerate(columns) if fleet.learning or name not in _OF_LEARNING]
    rows = (_row(device, fleet.time, tagged=tagged) for device in fleet.devices)
    cells = [tuple(row[at] for at in shown) for row in rows]
    parts.append(table_of("Devices", tuple(columns[at] for at in shown), cells, width))
    parts += [Text(with_homes(line)) for line in _tail(fleet)]
    return Group(*parts)


def _head(fleet: FleetNow) -> Iterator[str]:
    there = sum(device.state == "online" for device in fleet.devices)
    count = (
        (f"{there} of {count_of(len(fleet.devices), 'device')} online")
        if fleet.coordinator.running
        else ""
    )
    name = f"fleet {fleet.fleet}" if fleet.fleet else "fleet"
    yield ", ".join(filter(None, (name, count, _coordinator(fleet.coordinator))))
    if fleet.trial:
        yield TRIAL
    commit = fleet.ledger.last_commit
    when = "" if commit is None else f", the last at {iso_time(commit)}"
    yield f"ledger: {count_of(fleet.ledger.size, 'entry', 'entries')}{when}"


def _coordinator(run: CoordinatorRun) -> str:
    if not run.running:
        return "NO COORDINATOR RUNS"
    since = "" if run.since is None else f" since {iso_time(run.since)}"
    return f"coordinator runs{since}" + (", makes a model" if run.making_model else "")


def _need(need: Need, now_ns: int) -> Iterator[str]:
    told = [] if need.since is None else [f"since {clock_time(need.since, now_ns)}"]
    told += [] if need.index is None else [f"entry {need.index}"]
    entry = f" ({', '.join(told)})" if told else ""
    yield f"{'NOW' if need.urgency == 'now' else 'today':<6} {need.sentence}{entry}"
    if need.more:
        yield f"       {need.more}"
    if need.command:
        yield f"       -> {need.command}"


def _row(device: FleetDevice, now_ns: int, *, tagged: bool) -> tuple[object, ...]:
    seen = None if device.last_seen is None else _ago(now_ns - device.last_seen)
    accuracy = device.accuracy
    return (
        device.name,
        device.state,
        seen,
        _model(device),
        _overall(accuracy),
        None if accuracy is None else _right(accuracy.old),
        None if accuracy is None else _right(accuracy.new),
        device.samples,
        device.key,
        *((told_tags(device.tags),) if tagged else ()),
        _trouble(device),
    )


def _ago(nanoseconds: int) -> str:
    seconds = nanoseconds // 10**9
    return f"{max(seconds, 0)} s ago" if seconds < 60 else f"{span(seconds * 10**9)} ago"


def _model(device: FleetDevice) -> str | None:
    if device.model_state in {"failed", "rolled_back"}:
        state = device.model_state.replace("_", " ")
        return f"{device.active_version or 'none'}, {device.model_version} {state}"
    if device.active_version is None:
        return None
    to_be = device.desired_version
    pinned = ", pinned" if device.pinned is not None else ""
    if to_be not in {None, device.active_version}:
        return f"{device.active_version}, to be {to_be}{pinned}"
    return f"{device.active_version}{pinned}"


def _overall(accuracy: AccuracyThere | None) -> str | None:
    if accuracy is None:
        return None
    if accuracy.mean_iou is not None:
        return f"{100 * accuracy.mean_iou:.1f} mIoU"
    return _right(accuracy.all)


def _right(count: RightCount | None) -> str | None:
    return None if count is None else f"{100 * count.share:.1f}"


def _trouble(device: FleetDevice) -> str | None:
    told = [f"silent since {iso_time(device.silent_since)}"] if device.silent_since else []
    told += map(str, device.problems)
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return told[0] + more if told else None


def _tail(fleet: FleetNow) -> Iterator[str]:
    if fleet.retired:
        yield f"retired: {some(device.name for device in fleet.retired)}"
    if fleet.stage is not None:
        yield from _stage(fleet.stage)
    for rollout in fleet.rollouts:
        yield rollout.sentence
        if rollout.wait is not None:
            yield f"  {rollout.wait.sentence}"
    models = fleet.models
    if models.newest is not None:
        desired = "none" if models.desired is None else f"version {models.desired}"
        yield f"newest model: version {models.newest}; all devices are to run: {desired}"
    yield from (f"  {wait.sentence}" for wait in models.waits)
    for canary in models.canaries:
        yield f"model {canary.version} is tried on {some(canary.devices)}"
    if models.held:
        yield HELD
    if fleet.stopped_rounds is not None:
        yield f"rounds have stopped (entry {fleet.stopped_rounds.index})"


def _stage(stage: StageNow) -> Iterator[str]:
    total = len(stage.answered) + len(stage.missing)
    missing = f"; missing: {some(stage.missing)}" if stage.missing else ""
    yield (
        f"stage {stage.number} is open for {', '.join(stage.class_names)} since "
        f"{iso_time(stage.opened)}: {len(stage.answered)} of {count_of(total, 'device')} "
        f"answered{missing}"
    )
    yield f"  {stage.wait.sentence}"
    if stage.round is not None:
        asked, answered = len(stage.round.asked), len(stage.round.answered)
        late = f"; missing: {some(stage.round.missing)}" if stage.round.missing else ""
        yield (
            f"round {stage.round.number}: {answered} of {count_of(asked, 'device')} answered{late}"
        )
        yield f"  {stage.round.wait.sentence}"
