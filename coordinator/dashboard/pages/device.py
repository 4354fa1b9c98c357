"""Whether a device is well, what it runs, and what happened to it."""

from __future__ import annotations

from functools import partial

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.parts.device_remarks import needs_look, remark
from fleetledger.coordinator.dashboard.parts.presence_plot import Happened, absences
from fleetledger.coordinator.dashboard.sources import Asked, NotThereError, Sources
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.day import health_points
from fleetledger.coordinator.live.snapshot import HealthPoint
from fleetledger.coordinator.reports.answers import FleetDevice, FleetNow
from fleetledger.coordinator.reports.class_accuracy import (
    AccuracyByClass,
    ClassThere,
    accuracy_by_class,
)
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.history import sentence_of
from fleetledger.coordinator.reports.presence import PresenceDay, PresenceSpan
from fleetledger.coordinator.reports.rollouts.lookup import rollout_of
from fleetledger.coordinator.topics.devices import views as device_views
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import iso_time
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.pages.words import percent

ENTRIES = 30
"""Of the timeline, before all are asked for."""
_WEAK = 0.1
"""So far below the version before, a class is named in the title."""


class Installed(Strict):
    """What the newest run of a device said of itself."""

    installation: str
    capabilities: Capabilities


class DevicePage(PageModel):
    """One device."""

    device: FleetDevice
    running: bool
    """Whether a coordinator runs, so that somebody knows whether the device is there."""
    remark: str
    accuracy: AccuracyByClass | None
    installed: Installed | None
    happened: tuple[Happened, ...]
    more: bool
    """There are earlier entries."""
    health: tuple[HealthPoint, ...]
    presence: tuple[PresenceSpan, ...]
    """Of the last day."""
    rollout: int | None
    """The newest that it took part in."""


def read(sources: Sources, asked: Asked) -> DevicePage:
    """Return what is known of a device; raise `NotThereError` where none has the name."""
    name = asked.path["name"]
    fleet = fleet_now(sources.ledger, sources.live, sources.now_ns)
    device = next((one for one in fleet.devices if one.name == name), None)
    if device is None:
        gone = next((one for one in fleet.retired if one.name == name), None)
        if gone is not None:
            raise NotThereError(
                f"Device {name} was retired at {iso_time(gone.since)}, by entry {gone.index}: "
                f"{gone.reason}. `fleetledger coordinator admit {name}` brings it back."
            )
        raise NotThereError(f"No device of the name {name} was admitted.")
    accuracy = accuracy_by_class(sources.ledger, name)
    limit = 1000 if "all" in asked.query else ENTRIES
    happened = tuple(
        Happened(index=one.index, time=one.time_ns, sentence=sentence_of(one))
        for one in sources.ledger.newest(limit + 1, about=name)
    )
    remembered = PresenceDay.read(sources.home, sources.live, sources.now_ns, name)
    admitted_ns = sources.ledger.entry(device.admitted_index).time_ns
    presence = remembered.of_device(name, admitted_ns)
    return DevicePage(
        title=title(device, fleet, accuracy),
        device=device,
        running=fleet.coordinator.running,
        remark=remark(device, fleet.time),
        accuracy=accuracy,
        installed=_installed(sources.ledger, device),
        happened=_with_absences(happened[:limit], presence),
        more=len(happened) > limit,
        health=sources.day(partial(health_points, device=DeviceId(name))),
        presence=presence,
        rollout=rollout_of(sources.ledger, DeviceId(name)),
    )


def _with_absences(
    happened: tuple[Happened, ...], presence: tuple[PresenceSpan, ...]
) -> tuple[Happened, ...]:
    """Add when it was away, as far back as entries are shown."""
    since = min((one.time for one in happened), default=0)
    seen = [one for one in absences(presence) if one.time >= since]
    return tuple(sorted([*seen, *happened], key=lambda one: one.time, reverse=True))


def title(device: FleetDevice, fleet: FleetNow, accuracy: AccuracyByClass | None) -> str:
    """Return whether a device is well, in a sentence."""
    if not fleet.coordinator.running and device.state == "unknown":
        return f"No coordinator runs, so nobody knows how {device.name} is."
    if device.state == "online" and not needs_look(device):
        return f"{device.name} is well{_but(accuracy)}."
    words = {
        "revoked": "is shut out",
        "doubled": "runs twice: two installations have its name",
        "never seen": "was admitted and has never been seen",
        "away": "is away",
        "too old": "is too old to be led",
        "too new": "is too new to be led",
    }
    said = words.get(device.state, "needs a look")
    because = device.problems[0].about if device.problems and device.state == "online" else ""
    return f"{device.name} {said}" + (f": {because}" if because else "") + "."


def weak_classes(accuracy: AccuracyByClass | None) -> tuple[ClassThere, ...]:
    """Return classes that the newest version is clearly worse at than the one before."""
    return tuple(
        one
        for one in (accuracy.classes if accuracy else ())
        if one.before is not None and one.before.share - one.right.share >= _WEAK
    )


def _but(accuracy: AccuracyByClass | None) -> str:
    weak = sorted(weak_classes(accuracy), key=lambda one: one.right.share)
    if not weak or accuracy is None:
        return ""
    worst = weak[0]
    return (
        f"; with model {accuracy.version} it has {percent(worst.right.share)} of {worst.name} right"
    )


def _installed(ledger: LedgerReader, device: FleetDevice) -> Installed | None:
    if device.born_index is None:
        return None
    born = device_views.birth(ledger, device.born_index)
    return Installed(installation=born.installation, capabilities=born.capabilities)
