"""Which models there are, which one leads, and how well each does on devices."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.asking import count_of
from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, Sources
from fleetledger.coordinator.reading.model_waits import model_waits
from fleetledger.coordinator.reading.models import VersionFacts, newest_models
from fleetledger.coordinator.reading.version_accuracy import AccuracyByVersion, version_accuracies
from fleetledger.coordinator.reading.waits import Wait
from fleetledger.schemas.message import Strict
from fleetledger.transport.pages.words import percent, plural

SHOWN = 25
DRAWN = 40
"""Versions in the plot of accuracy."""
_ALL = 2**62


class ModelLine(Strict):
    """A version in the list."""

    version: int
    state: str
    solved_index: int
    solved_ns: int
    classes: int
    contributions: int
    running: int
    measured: int
    accuracy: float | None
    of_pixels: bool


class ModelsPage(PageModel):
    """The versions, newest first."""

    newest: int | None
    desired: int | None
    held_index: int | None
    """The entry by which new models wait for the operator; None where they do not."""
    canaries: dict[int, tuple[str, ...]]
    waits: tuple[Wait, ...]
    """What keeps a version from going out by itself, and what contributions wait for."""
    failed_index: int | None
    failed: str
    """Why no model could be made since the newest one."""
    devices: int
    accuracy: AccuracyByVersion
    models: tuple[ModelLine, ...]
    older: int | None


def read(sources: Sources, asked: Asked) -> ModelsPage:
    """Return the versions."""
    ledger, known = sources.ledger, sources.state.models
    before = count_of(asked.query.get("before")) or _ALL
    found = newest_models(ledger, before, SHOWN + 1)
    devices = len(known.devices.admitted)
    leading = newest_models(ledger, known.desired_of_all + 1, 1) if known.desired_of_all else []
    return ModelsPage(
        title=_title(leading[0] if leading else None, known.newest_version, devices),
        newest=known.newest_version,
        desired=known.desired_of_all,
        held_index=known.held_index,
        canaries=known.canaries,
        waits=model_waits(ledger, sources.live, sources.now_ns),
        failed_index=known.failed.index if known.failed else None,
        failed=known.failed.reason if known.failed else "",
        devices=devices,
        accuracy=version_accuracies(ledger, DRAWN),
        models=tuple(map(_line, found[:SHOWN])),
        older=found[SHOWN - 1].version if len(found) > SHOWN else None,
    )


def _title(leading: VersionFacts | None, newest: int | None, devices: int) -> str:
    if newest is None:
        return "There is no model yet."
    if leading is None:
        return f"Model {newest} is the newest, and no model is to run on all devices."
    where = f"Model {leading.version} runs on {leading.running} of {plural(devices, 'device')}"
    if leading.measured.accuracy is None:
        return f"{where}; none has measured it yet."
    if leading.measured.mean_iou is not None:
        return f"{where}, with a mean IoU of {percent(leading.measured.accuracy)} there."
    return f"{where}, and is right for {percent(leading.measured.accuracy)} of what they hold out."


def _line(model: VersionFacts) -> ModelLine:
    return ModelLine(
        version=model.version,
        state=model.state,
        solved_index=model.solved_index,
        solved_ns=model.solved_ns,
        classes=len(model.class_names),
        contributions=model.contributions,
        running=model.running,
        measured=model.measured.devices,
        accuracy=model.measured.accuracy,
        of_pixels=model.measured.mean_iou is not None,
    )
