"""Whether the fleet is well, what needs a person, and who is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.parts.device_map import By, DeviceMap, device_map
from fleetledger.coordinator.dashboard.parts.device_remarks import heard, needs_look, remark
from fleetledger.coordinator.dashboard.parts.need_actions import NeedHere, with_doing
from fleetledger.coordinator.dashboard.sources import Asked, Sources
from fleetledger.coordinator.live.day import fleet_heat
from fleetledger.coordinator.live.snapshot import FleetHeat
from fleetledger.coordinator.reports.answers import FleetDevice, FleetNow
from fleetledger.coordinator.reports.contributions import contributions_since
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.presence import FleetPresence, PresenceDay
from fleetledger.coordinator.reports.stage_accuracy import StageAccuracy, stage_accuracies
from fleetledger.coordinator.reports.version_accuracy import AccuracyByVersion, version_accuracies
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.tags import TagName, TagSelector, TagValue, all_fit
from fleetledger.transport.pages.words import in_words, plural

_TAG = "tag:"


def chosen(devices: Iterable[FleetDevice], text: str) -> list[FleetDevice]:
    """Return the devices that every word of `text` fits.

    Words are `hazel`, `model:12`, `program:1.0.0`, `state:away`, `problem`, `hindered`, `pinned`,
    `tag:site` and `tag:site=orchard-1`.
    """
    words = text.split()
    return [device for device in devices if all(_fits(device, word) for word in words)]


def tag_selectors(text: str) -> tuple[TagSelector, ...]:
    """Return the tags among the words; what cannot be one is left out, since nobody has it."""
    found = []
    for word in text.split():
        with suppress(SchemaError):
            if word.lower().startswith(_TAG):
                found.append(TagSelector.parse(word[len(_TAG) :]))
    return tuple(found)


def _fits(device: FleetDevice, given: str) -> bool:
    word = given.lower()
    if word.startswith(_TAG):
        selectors = tag_selectors(given)
        tags = {TagName(name): TagValue(value) for name, value in device.tags.items()}
        return bool(selectors) and all_fit(selectors, tags)
    key, colon, value = word.partition(":")
    if colon and key == "model":
        version = "none" if device.active_version is None else str(device.active_version)
        return version == value
    if colon and key == "program":
        return (device.agent_version or "none").lower() == value
    if colon and key == "state":
        return device.state.replace(" ", "-") == value
    if word == "pinned":
        return device.pinned is not None or word in device.name.lower()
    if word == "problem":
        return needs_look(device)
    if word == "hindered":
        return device.hindered_since is not None or word in device.name.lower()
    return word in device.name.lower()


DRAWN = 12
"""Versions in the plot of accuracy."""
MOST_ROWS = 25
"""Devices in the list, before all are asked for."""
_HOUR_NS = 3600 * 10**9


class DeviceListLine(Strict):
    """A device in the list."""

    device: FleetDevice
    heard: str
    remark: str
    look: bool
    """Whether somebody should look at it."""


class CountLine(Strict):
    """How many devices are alike in something, and what lists them."""

    text: str
    count: int
    filter: str


class FleetPage(PageModel):
    """All devices, and what needs a person."""

    fleet: FleetNow
    needs: tuple[NeedHere, ...]
    states: tuple[CountLine, ...]
    versions: tuple[CountLine, ...]
    map: DeviceMap
    stages: tuple[StageAccuracy, ...]
    accuracy: AccuracyByVersion
    presence: FleetPresence
    """Over the last day."""
    heat: tuple[FleetHeat, ...]
    """Temperatures over the last day, of devices that tell theirs."""
    contributions: int
    """That are held."""
    contributions_of_the_hour: int
    filter: str
    tags: str
    """Those that the filter has, as an action takes them."""
    rows: tuple[DeviceListLine, ...]
    found: int
    """Devices that the filter fits; `rows` may be fewer."""

    @property
    def measured(self) -> StageAccuracy | None:
        """The newest stage whose model was measured."""
        return next((item for item in reversed(self.stages) if item.version), None)

    @property
    def on_desired(self) -> int:
        """How many devices run what all are to run."""
        desired = self.fleet.models.desired
        return sum(one.active_version == desired for one in taking_part(self.fleet))

    @property
    def taking_part(self) -> int:
        """How many devices are not shut out."""
        return len(taking_part(self.fleet))

    @property
    def online(self) -> int:
        """How many devices are there."""
        return sum(one.state == "online" for one in self.fleet.devices)


def read(sources: Sources, asked: Asked) -> FleetPage:
    """Return the fleet; `filter` chooses devices of the list, `map` what the map shows."""
    fleet = fleet_now(sources.ledger, sources.live, sources.now_ns)
    by: By = "accuracy" if asked.query.get("map") == "accuracy" else "model"
    text = asked.query.get("filter", "")[:200]
    rows = [_row(device, fleet.time) for device in chosen(fleet.devices, text)]
    rows.sort(key=lambda row: (not row.look, not row.remark))
    return FleetPage(
        title=title(fleet),
        fleet=fleet,
        needs=tuple(with_doing(need, sources.home) for need in fleet.needs),
        states=tuple(_states(fleet)),
        versions=tuple(_versions(fleet)),
        map=device_map(fleet, by, asked.query.get("group", "")),
        stages=stage_accuracies(sources.ledger),
        accuracy=version_accuracies(sources.ledger, DRAWN),
        presence=PresenceDay.read(sources.home, sources.live, sources.now_ns).of_fleet(
            one.name for one in taking_part(fleet)
        ),
        heat=sources.day(fleet_heat),
        contributions=sum(device.contributions for device in fleet.devices),
        contributions_of_the_hour=contributions_since(sources.ledger, sources.now_ns - _HOUR_NS),
        filter=text,
        tags=" ".join(map(str, tag_selectors(text))),
        rows=tuple(rows if "all" in asked.query else rows[:MOST_ROWS]),
        found=len(rows),
    )


def title(fleet: FleetNow) -> str:
    """Return whether the fleet is well, and whether it needs a person, in two sentences."""
    run, away = fleet.coordinator, sum(device.state == "away" for device in fleet.devices)
    if not run.running:
        ended = "The coordinator was stopped." if run.stopped_in_order else "No coordinator runs."
        return f"{ended} {_needs(fleet, 1)}".strip()
    if run.hindered:
        well = "The coordinator cannot do its work."
    elif not run.connected:
        well = "The coordinator is not connected to the broker."
    elif not fleet.devices:
        well = "The coordinator runs; no device takes part yet."
    elif away:
        of = (
            f"of {count_of(len(taking_part(fleet)), 'device')} {'is' if away == 1 else 'are'} away."
        )
        well = f"{in_words(away).capitalize()} {of}"
    else:
        well = "The fleet works."
    return f"{well} {_needs(fleet)}"


def taking_part(fleet: FleetNow) -> list[FleetDevice]:
    """Return the devices that were not shut out."""
    return [device for device in fleet.devices if device.state != "revoked"]


def _needs(fleet: FleetNow, told: int = 0) -> str:
    """Return what needs a person, a decision by its name; `told` of it stands before."""
    asks = [
        one.number for one in fleet.rollouts if one.stage == "paused" or one.waits_for == "approval"
    ]
    count = len(fleet.needs) - told
    if len(asks) == 1 and count:
        rest = f"; {_things(count - 1, 'more ')}" if count > 1 else ""
        return f"Rollout {asks[0]} waits for your decision{rest}."
    if not count:
        return "" if told else "Nothing needs you."
    return f"{_things(count, 'more ' if told else '').capitalize()}."


def _things(count: int, more: str) -> str:
    return f"{in_words(count)} {more}thing{'s need' if count > 1 else ' needs'} you"


def _row(device: FleetDevice, now_ns: int) -> DeviceListLine:
    return DeviceListLine(
        device=device,
        heard=heard(device, now_ns),
        remark=remark(device, now_ns),
        look=needs_look(device),
    )


def _states(fleet: FleetNow) -> list[CountLine]:
    words = {
        "online": "Connected",
        "unknown": "Unknown, since no coordinator runs",
        "away": "Away",
        "never seen": "Never seen",
        "doubled": "Two installations",
        "too old": "Too old to be led",
        "too new": "Too new to be led",
        "revoked": "Shut out",
    }
    counts = Counter(device.state for device in fleet.devices)
    found = []
    for state, text in words.items():
        count = sum(number for known, number in counts.items() if known == state)
        if count or (state == "online" and fleet.coordinator.running):
            found.append(
                CountLine(text=text, count=count, filter=f"state:{state.replace(' ', '-')}")
            )
    return found


def _versions(fleet: FleetNow) -> list[CountLine]:
    counts = Counter(device.active_version for device in taking_part(fleet))
    tried = {one.version: len(one.devices) for one in fleet.models.canaries}
    found = []
    for version in sorted(counts, key=lambda one: one or 0, reverse=True):
        text = "none yet" if version is None else f"{version}"
        if version is not None and version == fleet.models.desired:
            text += ", desired"
        elif version in tried:
            text += f", tried on {plural(tried[version], 'device')}"
        elif version is not None and version == fleet.models.newest:
            text += ", the newest"
        shown = "none" if version is None else version
        found.append(CountLine(text=text, count=counts[version], filter=f"model:{shown}"))
    return found
