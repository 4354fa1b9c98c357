"""Needs about devices that are away: one by one, as an outage, and where a stage waits for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from shlex import quote

from fleetledger.coordinator.core.phrases import count_of, some, span
from fleetledger.coordinator.reports.answers import CoordinatorRun, FleetDevice, Need, StageNow

PATIENCE_NS = 60 * 10**9
"""So long something may last before somebody is told."""
_DAY_NS = 86_400 * 10**9
_TOGETHER_NS = 20 * 10**9
"""Devices that go away so soon one after the other have a common cause."""
_OUTAGE_NS = 300 * 10**9
"""Time over which one outage is noticed: brokers miss each device at its own next keep-alive."""
_FEWEST_TOGETHER = 3
_ABSENT = frozenset({"away", "never seen"})


def absences(
    run: CoordinatorRun, devices: Sequence[FleetDevice], stage: StageNow | None, time_ns: int
) -> Iterator[Need]:
    """Yield what is to be said of devices that are away, and of what waits for them.

    Nothing is said while they may still come back after a start of the coordinator.
    """
    if run.since is None or time_ns - run.since < PATIENCE_NS:
        return
    gone = [device for device in devices if _is_absent(device, time_ns)]
    together, alone = _outages(gone)
    for outage in together:
        yield _of_outage(outage, devices)
    sites, alone = _sites(alone, devices)
    for tag_lost, lost in sites:
        yield _of_site(tag_lost, lost)
    if alone:
        yield _of_devices(alone, time_ns)
    if stage is not None:
        yield from _of_stage(stage, {device.name: device for device in devices}, time_ns)


def _is_absent(device: FleetDevice, time_ns: int) -> bool:
    since = device.absent_since
    return device.state in _ABSENT and since is not None and time_ns - since >= PATIENCE_NS


def _outages(
    gone: Sequence[FleetDevice],
) -> tuple[list[list[FleetDevice]], list[FleetDevice]]:
    """Return groups of devices that went away together, and the other ones."""
    groups: list[list[FleetDevice]] = []
    alone: list[FleetDevice] = []
    for device in sorted(gone, key=lambda one: (one.absent_since or 0, one.name)):
        if device.away_since is None:
            alone.append(device)
        elif groups and _together(groups[-1], device.away_since):
            groups[-1].append(device)
        else:
            groups.append([device])
    alone += [device for group in groups if len(group) < _FEWEST_TOGETHER for device in group]
    alone.sort(key=lambda one: (one.absent_since or 0, one.name))
    return [group for group in groups if len(group) >= _FEWEST_TOGETHER], alone


def _together(group: Sequence[FleetDevice], away_ns: int) -> bool:
    first, last = group[0].away_since or 0, group[-1].away_since or 0
    return away_ns - last <= _TOGETHER_NS and away_ns - first <= _OUTAGE_NS


def _sites(
    gone: Sequence[FleetDevice], devices: Sequence[FleetDevice]
) -> tuple[list[tuple[str, list[FleetDevice]]], list[FleetDevice]]:
    """Return tags of which every device is away, with these, the largest first; and the others."""
    having = Counter(tag for one in devices if one.state != "revoked" for tag in one.tags.items())
    lost = Counter(tag for device in gone for tag in device.tags.items())
    whole = [tag for tag, count in lost.items() if _FEWEST_TOGETHER <= count == having[tag]]
    rest, found = list(gone), []
    for tag in sorted(whole, key=lambda tag: (-lost[tag], tag)):
        members = [device for device in rest if tag in device.tags.items()]
        if len(members) == lost[tag] < len(devices):
            found.append(("=".join(tag), members))
            rest = [device for device in rest if device not in members]
    return found, rest


def _of_site(tag: str, gone: Sequence[FleetDevice]) -> Need:
    return Need(
        key=f"site:{tag}",
        urgency="now",
        sentence=f"All {count_of(len(gone))} of {tag} are away.",
        more="They may share a cause, such as their network or power.",
        since=gone[0].absent_since,
        devices=tuple(device.name for device in gone),
        command=f"fleetledger device list --tag {quote(tag)}",
    )


def _of_outage(outage: Sequence[FleetDevice], devices: Sequence[FleetDevice]) -> Need:
    first, last = outage[0].away_since or 0, outage[-1].away_since or 0
    tag = _common_tag(outage, devices)
    what = count_of(len(outage)) + (f" of {tag}" if tag else "")
    within = max(1, -(-(last - first) // 10**9))
    return Need(
        key=f"outage:{first}",
        urgency="now",
        sentence=f"{what} went away within {within} s.",
        more="They may share a cause, such as their network or power.",
        since=first,
        devices=tuple(device.name for device in outage),
        command=f"fleetledger device list --tag {quote(tag)}" if tag else "fleetledger device list",
    )


def _common_tag(outage: Sequence[FleetDevice], devices: Sequence[FleetDevice]) -> str:
    """Return the tag that all of an outage have and the fewest others; empty where none."""
    common = set(outage[0].tags.items())
    for device in outage[1:]:
        common &= set(device.tags.items())
    if not common:
        return ""
    having = {tag: sum(tag in device.tags.items() for device in devices) for tag in common}
    name, value = min(common, key=lambda tag: (having[tag], tag))
    return f"{name}={value}"


def _of_devices(gone: Sequence[FleetDevice], time_ns: int) -> Need:
    longest = gone[0]
    long = time_ns - (longest.absent_since or 0) >= _DAY_NS
    told = some(_words(device, time_ns) for device in gone)
    return Need(
        key="absent",
        urgency="today",
        sentence=f"Not here: {told}."
        + (f" If {longest.name} does not come back, retire it." if long else ""),
        since=longest.absent_since,
        devices=tuple(device.name for device in gone),
        command=f"fleetledger device retire {longest.name}" if long else "fleetledger agent status",
    )


def _words(device: FleetDevice, time_ns: int) -> str:
    if device.state == "online":
        return f"{device.name} (here, and has not answered)"
    if device.absent_since is None:
        return device.name
    since = span(time_ns - device.absent_since)
    if device.state == "never seen":
        return f"{device.name} (admitted {since} ago, and never came)"
    return f"{device.name} (away for {since})"


def _of_stage(stage: StageNow, devices: dict[str, FleetDevice], time_ns: int) -> Iterator[Need]:
    """Yield for whom the open stage, or its round, waits for more than a moment."""
    current = stage.round
    missing = stage.missing if current is None else current.missing
    opened = stage.opened if current is None else current.opened
    if not missing or time_ns - opened < PATIENCE_NS:
        return
    awaited = [devices[name] for name in missing if name in devices]
    wait = stage.wait if current is None else current.wait
    what = f"Stage {stage.number}" if current is None else f"Round {current.number}"
    told = some(_words(device, time_ns) for device in awaited)
    yield Need(
        key=what.lower(),
        urgency="today",
        sentence=f"{what} has waited for {span(time_ns - opened)}, just now for {told}.",
        more=wait.sentence,
        devices=tuple(device.name for device in awaited),
        index=stage.index if current is None else current.index,
        command="fleetledger coordinator close-stage",
    )
