"""Which models there are, which one leads, and how well each does on devices."""

from __future__ import annotations

from collections import Counter

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, Sources, count_of
from fleetledger.coordinator.reports.model_waits import model_waits
from fleetledger.coordinator.reports.models import newest_models
from fleetledger.coordinator.reports.version_accuracy import AccuracyByVersion, version_accuracies
from fleetledger.coordinator.reports.waits import Wait
from fleetledger.coordinator.topics.models.queries import ListedModel, models
from fleetledger.coordinator.topics.models.state import ModelsState
from fleetledger.transport.pages.words import percent, plural

SHOWN = 25
DRAWN = 40
"""Versions in the plot of accuracy."""
_ALL = 2**62


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
    models: tuple[ListedModel, ...]
    older: int | None


def read(sources: Sources, asked: Asked) -> ModelsPage:
    """Return the versions."""
    ledger, known = sources.ledger, sources.state.models
    before = count_of(asked.query.get("before")) or _ALL
    found, running = newest_models(known, before, SHOWN + 1), known.running
    devices = len(known.devices.admitted)
    return ModelsPage(
        title=_title(known, running, devices),
        newest=known.newest_version,
        desired=known.desired_of_all,
        held_index=known.held_index,
        canaries=known.canaries,
        waits=model_waits(ledger, sources.live, sources.now_ns),
        failed_index=known.failed.index if known.failed else None,
        failed=known.failed.reason if known.failed else "",
        devices=devices,
        accuracy=version_accuracies(ledger, DRAWN),
        models=tuple(models(known, versions=found[:SHOWN])),
        older=found[SHOWN - 1].version if len(found) > SHOWN else None,
    )


def _title(known: ModelsState, running: Counter[int], devices: int) -> str:
    if known.newest_version is None:
        return "There is no model yet."
    leading = known.desired_of_all
    if leading is None:
        newest = known.newest_version
        return f"Model {newest} is the newest, and no model is to run on all devices."
    measured = known.measured_all(leading)
    where = f"Model {leading} runs on {running[leading]} of {plural(devices, 'device')}"
    if measured.accuracy is None:
        return f"{where}; none has measured it yet."
    if measured.mean_iou is not None:
        return f"{where}, with a mean IoU of {percent(measured.accuracy)} there."
    return f"{where}, and is right for {percent(measured.accuracy)} of what they hold out."
