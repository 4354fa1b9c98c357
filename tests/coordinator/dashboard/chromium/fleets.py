"""Fleets whose pages are hard to lay out: empty, small, large, ended long ago, with long names."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.speed.fleet_view.history import History, make_home
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.dashboard.app import make_app
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.live.file import LiveFile
from fleetledger.coordinator.live.meters import TRAFFIC_BYTES
from fleetledger.coordinator.live.snapshot import (
    CoordinatorNow,
    CounterNow,
    DeviceNow,
    LiveSnapshot,
)
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.devices.entries import DeviceBorn, DeviceProblem, DeviceTagged
from fleetledger.schemas.health import DeviceHealth, ThermalZone
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.transport.pages.doors import Doors
from fleetledger.transport.pages.people import Person, Role
from fleetledger.transport.pages.server import ListenAddress, listen, server_of
from tests.coordinator.dashboard.served import settled
from tests.coordinator.reports.rollouts.stories import finished, forgetting

SECOND = 10**9
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
TEN_MINUTES = 10 * MINUTE
_POINTS = 12
_LISTS = ("/", "/rollouts", "/models", "/stages", "/contributions", "/classes", "/ledger", "/trust")
_LISTS += ("/inspection", "/traffic", "/problems", "/devices/nobody")
_LETTERS = "conveyor-north-camera-above-the-second-sorting-table-behind"


class NumberedHistory(History):
    """A hundred devices whose names end in numbers of one, two and three digits."""

    @property
    def names(self) -> list[DeviceId]:
        """The devices' ids."""
        return [DeviceId(f"device-{number}") for number in range(1, self.devices + 1)]


class LongHistory(History):
    """Devices and classes whose names have sixty letters."""

    @property
    def names(self) -> list[DeviceId]:
        """The devices' ids."""
        return [DeviceId(f"{_LETTERS[:57]}{number:03}") for number in range(self.devices)]


@dataclass(frozen=True)
class Fleet:
    """A home, and the time at which its pages are looked at."""

    home: Path
    now_ns: int
    paths: tuple[str, ...]
    """Of its pages."""


def empty(home: Path) -> Fleet:
    """Return a fleet whose coordinator has yet to begin its ledger."""
    home.mkdir()
    return Fleet(settled(home), time.time_ns(), ("/", "/models"))


def five(home: Path) -> Fleet:
    """Return five devices at two sites that learn for the fourth time; one is away."""
    return _learning(home, History(devices=5, entries=180, senders=0), away=1)


def numbered(home: Path) -> Fleet:
    """Return `device-1` to `device-100`."""
    fleet = _learning(home, NumberedHistory(devices=100, entries=1500, senders=0), away=7)
    return replace(fleet, paths=("/", "/?all=yes&group=site", "/traffic", "/models/3", "/stages/3"))


def long_names(home: Path) -> Fleet:
    """Return devices, tags, classes and problems with words of sixty letters."""
    fleet = _learning(home, LongHistory(devices=4, entries=150, senders=0), away=1)
    with ledger_of(home) as ledger:
        devices = tuple(LongHistory(devices=4).names)
        assert ledger.size
    text = f"{'/'.join(['srv', *_LETTERS.split('-')])}: it is full; remove something"
    _add(
        home,
        fleet.now_ns - HOUR,
        [
            (DeviceTagged(devices=devices[:2], tags={"place": _LETTERS}), None),
            (DeviceProblem(about="data", text=text), devices[0]),
        ],
    )
    return fleet


def stopped(home: Path) -> Fleet:
    """Return two hundred devices, of which a group forgot a class: the rollout is paused."""
    tale = forgetting()
    settled(tale.write(home))
    now_ns = tale.now_ns + HOUR
    sites = {name: tale.devices[n::4] for n, name in enumerate(("alder", "birch", "elm", "hazel"))}
    tags = [(DeviceTagged(devices=some, tags={"site": at}), None) for at, some in sites.items()]
    _add(home, now_ns - 40 * MINUTE, [*tags, *map(_born, tale.devices)])
    _live(home, tale.devices, now_ns, away=sites["hazel"][:4])
    away = ("/?map=accuracy&group=site", "/act/rollout-back?rollout=7")
    return Fleet(home, now_ns, (*_paths(tale.devices[0]), "/rollouts/7", *away))


def ended(home: Path) -> Fleet:
    """Return a fleet whose coordinator was stopped two years ago."""
    tale = finished()
    settled(tale.write(home))
    _add(home, tale.now_ns + MINUTE, map(_born, tale.devices))
    _live(home, tale.devices, tale.now_ns + HOUR, ended=True)
    now_ns = tale.now_ns + 2 * 365 * 24 * HOUR
    return Fleet(home, now_ns, (*_paths(tale.devices[0]), "/rollouts/7"))


FLEETS = (empty, five, numbered, long_names, stopped, ended)


@contextmanager
def served(fleet: Fleet, role: Role = Role.OPERATOR) -> Iterator[tuple[str, dict[str, str]]]:
    """Serve a fleet's pages in this process; yield their address, and a cookie to come in by."""
    doors = Doors.of(fleet.home, lambda: fleet.now_ns)
    app = make_app(fleet.home, now_ns=lambda: fleet.now_ns, doors=doors)
    listening = ListenAddress()
    with listen(listening) as listener:
        url = listening.url(listener.getsockname()[1])
        server = server_of(app, listening, app.state.follower.stop)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            session = doors.sessions.make(Person("ana", role), fleet.now_ns)
            yield url, {"name": doors.cookie, "value": session, "url": url}
        finally:
            server.should_exit = True
            thread.join()


def _paths(device: DeviceId) -> tuple[str, ...]:
    return (*_LISTS, f"/devices/{device}", f"/act/push-model?devices={device}")


def _learning(home: Path, history: History, away: int) -> Fleet:
    make_home(history, home)
    now_ns, names = time.time_ns(), history.names
    sites = [(names[::2], "orchard"), (names[1::2], "press-house")]
    tagged = [(DeviceTagged(devices=some, tags={"site": at}), None) for some, at in sites]
    _add(home, now_ns - HOUR, tagged)
    _live(home, names, now_ns, away=names[-away:])
    return Fleet(home, now_ns, (*_paths(names[-1]), "/models/3", "/stages/3"))


def _born(device: DeviceId) -> tuple[EntryBody, DeviceId]:
    run = BootId(f"{sum(device.encode()):016x}")
    able = Capabilities(
        agent_version="0.1.0",
        python="3.11",
        machine="aarch64",
        features=frozenset({"numpy", "onnxruntime"}),
        memory_mib=4096,
    )
    return DeviceBorn(boot=run, installation=run, capabilities=able), device


def _add(home: Path, time_ns: int, said: Iterable[tuple[EntryBody, DeviceId | None]]) -> None:
    with Ledger.open(ledger_path(home)) as ledger:
        ledger.append(
            [
                EntryDraft(
                    body.kind,
                    device or "operator",
                    body.model_dump(mode="json"),
                    device,
                    (),
                    time_ns,
                )
                for body, device in said
            ]
        )


def _live(
    home: Path,
    names: Sequence[DeviceId],
    now_ns: int,
    away: Collection[DeviceId] = (),
    *,
    ended: bool = False,
) -> None:
    """Write what was known of the devices in the last hours, every ten minutes."""
    file = LiveFile(home)
    for back in range(_POINTS, -1, -1):
        at_ns, passed = now_ns - back * TEN_MINUTES, _POINTS - back
        gone = set(away if back < 2 else names[: back % 3])
        now = CoordinatorNow(
            fleet="orchard",
            version="0.1.0",
            pid=1,
            started_ns=now_ns - 24 * HOUR,
            written_ns=at_ns,
            connected=True,
            stopped=ended and back == 0,
        )
        devices = {
            name: _device(name, number, passed, at_ns).model_copy(
                update={"online": name not in gone}
            )
            for number, name in enumerate(names)
        }
        file.write(LiveSnapshot(coordinator=now, devices=devices, counters=_counters(passed)))
    file.close()


def _device(name: DeviceId, number: int, passed: int, time_ns: int) -> DeviceNow:
    health = DeviceHealth(
        temperatures=(ThermalZone(zone="cpu", celsius=45 + number % 40 + passed % 7),),
        free_disk_bytes=10**10,
        resident_bytes=10**8,
        inference_p95_seconds=0.02,
    )
    return DeviceNow(
        device=name,
        since_ns=time_ns - 20 * MINUTE,
        heard_ns=time_ns - (number % 50) * SECOND,
        outbox=number % 3,
        health=health,
        health_ns=time_ns,
    )


def _counters(passed: int) -> tuple[CounterNow, ...]:
    return tuple(
        CounterNow(
            name=TRAFFIC_BYTES.name,
            labels={"direction": direction, "kind": kind},
            value=size * (1 + passed * (1 + passed % 3)),
        )
        for direction, kind, size in (("in", "contribution", 40_000), ("out", "block.data", 90_000))
    )
