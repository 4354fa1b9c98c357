"""The map: a cell for each device, whose number is what its colour says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from fleetledger.coordinator.dashboard.parts.device_remarks import needs_look, remark
from fleetledger.coordinator.reports.answers import FleetDevice, FleetNow
from fleetledger.runtime.strict import Strict
from fleetledger.transport.pages.words import percent, plural

By = Literal["model", "accuracy"]
Shade = Literal["newest", "current", "older", "none"]
MOST_GROUPS = 24
"""Groups of devices that a map shows; with more, all are in one, or those of a tag in `others`."""
_MOST_TAGS = 8
"""That are offered."""
_BELOW = 0.03
"""So far below the fleet's share a device is told apart."""
_STEM = re.compile(r"(.*?)[-_]?\d*")


class Cell(Strict):
    """A device on the map."""

    device: str
    text: str
    shade: Shade
    away: bool
    problem: bool
    says: str


class CellGroup(Strict):
    """Devices whose names begin alike, or that have the same value of a tag."""

    name: str
    cells: tuple[Cell, ...]
    filter: str = ""
    """What lists them; empty where no filter does."""

    @property
    def counts(self) -> str:
        """How many of them are there, and how many somebody should look at."""
        here, look = (sum(not c.away for c in self.cells), sum(c.problem for c in self.cells))
        return f"{here:,} of {len(self.cells):,} there" + (f", {look:,} to look at" if look else "")


class KeyLine(Strict):
    """What a shade means, and how many devices have it."""

    text: str
    """As in a cell."""
    shade: Shade
    away: bool = False
    problem: bool = False
    count: int
    says: str
    filter: str = ""
    """What lists them; empty where no filter does."""


class DeviceMap(Strict):
    """All devices at a glance."""

    by: By
    tags: tuple[str, ...]
    """Tags that it can be grouped by, the ones of the most devices first."""
    group: str
    """The tag that it is grouped by; empty where it is by the beginnings of names."""
    groups: tuple[CellGroup, ...]
    key: tuple[KeyLine, ...]


def device_map(fleet: FleetNow, by: By, group: str = "") -> DeviceMap:
    """Return the map of all devices, by the model that they run or by its accuracy there.

    `group` is a tag; without it, and where no device has it, names that begin alike are together.
    """
    mean = fleet_share(fleet.devices)
    usual = _usual(fleet.devices)
    cells = {one.name: _cell(fleet, one, by, mean, usual) for one in fleet.devices}
    tags = Counter(tag for device in fleet.devices for tag in device.tags)
    group = group if group in tags else ""
    key = _models_key if by == "model" else _accuracy_key
    return DeviceMap(
        by=by,
        tags=tuple(tag for tag, _ in tags.most_common(_MOST_TAGS)),
        group=group,
        groups=_by_tag(fleet.devices, cells, group) if group else _by_name(fleet.devices, cells),
        key=(*key(fleet, list(cells.values()), mean), *_states_key(fleet)),
    )


def _by_name(devices: Sequence[FleetDevice], cells: Mapping[str, Cell]) -> tuple[CellGroup, ...]:
    groups: dict[str, list[Cell]] = {}
    for device in devices:
        groups.setdefault(_stem(device.name), []).append(cells[device.name])
    if len(groups) > MOST_GROUPS or len(groups) > len(cells) / 2:
        groups = {"": list(cells.values())}
    return tuple(CellGroup(name=name, cells=tuple(found)) for name, found in groups.items())


def _by_tag(
    devices: Sequence[FleetDevice], cells: Mapping[str, Cell], tag: str
) -> tuple[CellGroup, ...]:
    """Return a group for each value, in their order; with very many, the rest in one group."""
    groups: dict[str, list[Cell]] = {}
    for device in devices:
        groups.setdefault(device.tags.get(tag, ""), []).append(cells[device.name])
    without = groups.pop("", [])
    values = sorted(groups, key=lambda one: (len(one) if one.isdecimal() else 0, one))
    found = [
        CellGroup(name=value, cells=tuple(groups[value]), filter=f"tag:{tag}={value}")
        for value in values[:MOST_GROUPS]
    ]
    rest = [cell for value in values[MOST_GROUPS:] for cell in groups[value]]
    if rest:
        found.append(CellGroup(name="others", cells=tuple(rest)))
    if without:
        found.append(CellGroup(name=f"no {tag}", cells=tuple(without)))
    return tuple(found)


def fleet_share(devices: Sequence[FleetDevice]) -> float | None:
    """Return the share of held-out samples that devices' models are right for, over all."""
    counts = [one.accuracy.all for one in devices if one.accuracy and one.accuracy.all]
    total = sum(count.total for count in counts)
    return sum(count.correct for count in counts) / total if total else None


def share_there(device: FleetDevice) -> float | None:
    """Return how well a device's model does there; of pixels its mean over classes."""
    if device.accuracy is None:
        return None
    if device.accuracy.mean_iou is not None:
        return device.accuracy.mean_iou
    return device.accuracy.all.share if device.accuracy.all else None


def _stem(name: str) -> str:
    found = _STEM.fullmatch(name)
    return (found.group(1) if found else "") or name


def _cell(
    fleet: FleetNow, device: FleetDevice, by: By, mean: float | None, usual: int | None
) -> Cell:
    share = share_there(device)
    if device.state == "revoked":
        text = "×"
    elif by == "model":
        text = "–" if device.active_version is None else str(device.active_version)
    else:
        text = "–" if share is None else f"{100 * share:.0f}"
    runs = "no model" if device.active_version is None else f"model {device.active_version}"
    right = "" if share is None else f", {percent(share)} right"
    said = remark(device, fleet.time)
    return Cell(
        device=device.name,
        text=text,
        shade=_model_shade(device.active_version, usual) if by == "model" else _shade(share, mean),
        away=device.state not in {"online", "unknown"},
        problem=needs_look(device),
        says=f"{device.name}: {runs}{right}" + (f"; {said}" if said else ""),
    )


def _model_shade(version: int | None, usual: int | None) -> Shade:
    if version is None or usual is None:
        return "none"
    if version == usual:
        return "current"
    return "newest" if version > usual else "older"


def _usual(devices: Sequence[FleetDevice]) -> int | None:
    """Return the version that most devices run; the newer one of two."""
    counts = Counter(one.active_version for one in devices if one.active_version is not None)
    return max(counts, key=lambda version: (counts[version], version), default=None)


def _shade(share: float | None, mean: float | None) -> Shade:
    if share is None or mean is None:
        return "none"
    if share >= mean:
        return "newest"
    return "current" if share >= mean - _BELOW else "older"


def _models_key(fleet: FleetNow, _cells: Sequence[Cell], _mean: float | None) -> list[KeyLine]:
    here = [device for device in fleet.devices if device.state in {"online", "unknown"}]
    usual = _usual(fleet.devices)
    counts = Counter(device.active_version for device in here)
    ordered = sorted(counts, key=lambda version: -1 if version is None else version, reverse=True)
    return [
        KeyLine(
            text="–" if version is None else str(version),
            shade=_model_shade(version, usual),
            count=counts[version],
            says=f"{'runs' if counts[version] == 1 else 'run'} "
            + ("no model yet" if version is None else f"model {version}"),
            filter=f"model:{'none' if version is None else version}",
        )
        for version in ordered
    ]


def _accuracy_key(_fleet: FleetNow, cells: Sequence[Cell], mean: float | None) -> list[KeyLine]:
    counts = Counter(cell.shade for cell in cells if not cell.away)
    if mean is None:
        return [KeyLine(text="–", shade="none", count=counts["none"], says="not measured yet")]
    words: tuple[tuple[Shade, str, str], ...] = (
        ("newest", f"{100 * mean:.0f}", f"at the fleet's {percent(mean)} or above"),
        ("current", f"{100 * (mean - _BELOW):.0f}", "up to 3 points below it"),
        ("older", f"{100 * (mean - 2 * _BELOW):.0f}", "further below it"),
        ("none", "–", "not measured yet"),
    )
    return [
        KeyLine(text=text, shade=shade, count=counts[shade], says=says)
        for shade, text, says in words
        if counts[shade]
    ]


def _states_key(fleet: FleetNow) -> list[KeyLine]:
    states = Counter(device.state for device in fleet.devices)
    found = []
    for state, text, says in (
        ("away", "a", "away, with what was seen last"),
        ("never seen", "–", "never seen"),
        ("doubled", "2", "with two installations"),
        ("too old", "<", "too old to be led"),
        ("too new", ">", "too new to be led"),
        ("revoked", "×", "shut out"),
    ):
        if states[state]:  # type: ignore[index]
            found.append(
                KeyLine(
                    text=text,
                    shade="none",
                    away=True,
                    count=states[state],  # type: ignore[index]
                    says=says,
                    filter=f"state:{state.replace(' ', '-')}",
                )
            )
    look = sum(map(needs_look, fleet.devices))
    if look:
        says = f"{plural(look, 'device')} to look at, first in the list below"
        found.append(
            KeyLine(text="!", shade="none", problem=True, count=look, says=says, filter="problem")
        )
    return found
