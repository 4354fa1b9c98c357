"""Which device harms the model, told from sums alone."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.inspection import InspectionNow, is_current
from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, Sources
from fleetledger.coordinator.reports.inspection import InspectedDevice
from fleetledger.transport.pages.words import plural

SHOWN = 200


class InspectionPage(PageModel):
    """The newest inspection."""

    inspection: InspectionNow | None
    current: bool
    """Whether it is of the sum that counts now."""
    devices: tuple[InspectedDevice, ...]
    """The most harmful first."""
    more: int
    """Devices that are not shown."""
    admitted: tuple[str, ...]
    """Those of the devices that have a page: a cohort has none."""


def read(sources: Sources, _asked: Asked) -> InspectionPage:
    """Return what the newest inspection found."""
    now = sources.inspection
    found = () if now is None or now.report is None else now.report.devices
    current = now is not None and is_current(now, sources.ledger)
    known = sources.state.devices.admitted
    return InspectionPage(
        title=_title(now, current=current),
        inspection=now,
        current=current,
        devices=found[:SHOWN],
        more=max(len(found) - SHOWN, 0),
        admitted=tuple(one.name for one in found[:SHOWN] if one.name in known),
    )


def _title(now: InspectionNow | None, *, current: bool) -> str:
    if now is None:
        return "Inspect what counts to see whether a device harms the model."
    if now.state == "running":
        of = f": {now.done} of {plural(now.of, 'device')} read" if now.of else ""
        return f"What counts is being inspected{of}."
    if now.report is None:
        return "What counts could not be inspected."
    return now.report.answer if current else f"{now.report.answer} The sum has changed since."
