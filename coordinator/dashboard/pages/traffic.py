"""How many bytes and messages pass, of which kind, and through which devices."""

from __future__ import annotations

from itertools import groupby

from fleetledger.coordinator.core.phrases import natural
from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, Sources, count_of
from fleetledger.coordinator.live.day import traffic_points
from fleetledger.coordinator.live.snapshot import DeviceNow, LiveSnapshot, TrafficPoint, serves
from fleetledger.runtime.strict import Strict
from fleetledger.transport.pages.words import plural, size

SHOWN = 40
_HOUR_NS = 3600 * 10**9


class KindLine(Strict):
    """What passed of a kind of message, since the coordinator began."""

    kind: str
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    share: float = 0.0
    """Of all bytes."""


class DeviceLine(Strict):
    """What passed a device, as it says itself."""

    device: str
    online: bool
    bytes_up: int
    bytes_down: int
    outbox: int | None


class RefusedLine(Strict):
    """Messages that were not believed, or not read."""

    reason: str
    count: int


class TrafficPage(PageModel):
    """Bytes and messages."""

    serves: bool
    since_ns: int | None
    """When the coordinator began that counted."""
    bytes_in: int
    bytes_out: int
    day: tuple[TrafficPoint, ...]
    """The last one, over restarts of the coordinator."""
    kinds: tuple[KindLine, ...]
    refused: tuple[RefusedLine, ...]
    devices: tuple[DeviceLine, ...]
    more: int | None

    @property
    def hours(self) -> list[TrafficPoint]:
        """What passed in each hour of the day."""
        return [
            TrafficPoint(
                time_ns=hour * _HOUR_NS,
                bytes_in=sum(point.bytes_in for point in points),
                bytes_out=sum(point.bytes_out for point in points),
            )
            for hour, points in (
                (hour, list(found))
                for hour, found in groupby(self.day, lambda point: point.time_ns // _HOUR_NS)
            )
        ]


def read(sources: Sources, asked: Asked) -> TrafficPage:
    """Return what passed."""
    live, place = sources.live, count_of(asked.query.get("devices")) or 0
    kinds = () if live is None else _kinds(live)
    devices = [] if live is None else sorted(live.devices.values(), key=_weight)
    running = live is not None and serves(live.coordinator, sources.now_ns)
    came, went = (sum(k.bytes_in for k in kinds), sum(k.bytes_out for k in kinds))
    return TrafficPage(
        title=_title(live, kinds, came, went),
        serves=running,
        since_ns=None if live is None else live.coordinator.started_ns,
        bytes_in=came,
        bytes_out=went,
        day=sources.day(traffic_points),
        kinds=kinds,
        refused=() if live is None else _refused(live),
        devices=tuple(map(_device, devices[place : place + SHOWN])),
        more=place + SHOWN if len(devices) > place + SHOWN else None,
    )


def _title(live: LiveSnapshot | None, kinds: tuple[KindLine, ...], came: int, went: int) -> str:
    if live is None:
        return "Nothing is known of the traffic: no coordinator has served yet."
    if not came + went:
        return "No message has passed since the coordinator began."
    most = f"most of it is {kinds[0].kind}" if kinds else ""
    count = sum(kind.messages_in + kind.messages_out for kind in kinds)
    return f"{size(came)} came in and {size(went)} went out in {plural(count, 'message')}; {most}."


def _kinds(live: LiveSnapshot) -> tuple[KindLine, ...]:
    found: dict[str, dict[str, int]] = {}
    for counter in live.counters:
        if counter.name not in {"messages", "traffic_bytes"}:
            continue
        what = "messages" if counter.name == "messages" else "bytes"
        direction = counter.labels.get("direction")
        if direction in {"in", "out"}:
            line = found.setdefault(counter.labels.get("kind", "other"), {})
            name = f"{what}_{direction}"
            line[name] = line.get(name, 0) + int(counter.value)
    lines = [KindLine(kind=kind, **counts) for kind, counts in found.items()]
    total = sum(line.bytes_in + line.bytes_out for line in lines) or 1
    shared = [
        line.model_copy(update={"share": (line.bytes_in + line.bytes_out) / total})
        for line in lines
    ]
    return tuple(sorted(shared, key=lambda line: (-line.share, line.kind)))


def _refused(live: LiveSnapshot) -> tuple[RefusedLine, ...]:
    return tuple(
        RefusedLine(reason=counter.labels.get("reason", ""), count=int(counter.value))
        for counter in live.counters
        if counter.name == "messages_refused" and counter.value
    )


def _weight(device: DeviceNow) -> tuple[int, tuple[tuple[int, int, str], ...]]:
    return -((device.bytes_up or 0) + (device.bytes_down or 0)), natural(device.device)


def _device(device: DeviceNow) -> DeviceLine:
    return DeviceLine(
        device=device.device,
        online=device.online,
        bytes_up=device.bytes_up or 0,
        bytes_down=device.bytes_down or 0,
        outbox=device.outbox,
    )
