"""`/metrics`, `/livez` and `/readyz`, for an application to mount: metrics and readiness."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import exposition
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetledger.coordinator.core.phrases import span
from fleetledger.coordinator.core.state_fold import StateKeeper
from fleetledger.coordinator.dashboard.metrics.families import gauge
from fleetledger.coordinator.dashboard.metrics.fleet import device_families, fleet_families
from fleetledger.coordinator.dashboard.metrics.ledger import accepted, ledger_families
from fleetledger.coordinator.dashboard.metrics.process import info_family, process_families
from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.live.snapshot import CoordinatorNow, LiveSnapshot, serves
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict


class ReadyCheck(Strict):
    """One thing that was looked at."""

    name: str
    ok: bool
    text: str
    """What was found, in words."""


class Readiness(Strict):
    """Whether all is well, and what was looked at."""

    ready: bool
    checks: tuple[ReadyCheck, ...]


def readiness(home: Path, live: LiveSnapshot | None, time_ns: int) -> Readiness:
    """Look at the ledger and at what the coordinator in `home` said last."""
    checks = (_ledger(home), *_coordinator(live.coordinator if live else None, time_ns))
    return Readiness(ready=all(check.ok for check in checks), checks=checks)


def _ledger(home: Path) -> ReadyCheck:
    try:
        with ledger_of(home) as ledger:
            return ReadyCheck(
                name="ledger",
                ok=True,
                text=f"readable, {count_of(ledger.size, 'entry', 'entries')}",
            )
    except LedgerError as error:
        return ReadyCheck(name="ledger", ok=False, text=str(error))


def _coordinator(now: CoordinatorNow | None, time_ns: int) -> Iterator[ReadyCheck]:
    if now is None:
        yield ReadyCheck(name="coordinator", ok=False, text="none has served here yet")
        return
    up = serves(now, time_ns)
    ago = f"said so {span(max(0, time_ns - now.written_ns))} ago"
    text = "serves" if up else "ended in order" if now.stopped else "does not serve, or is not well"
    yield ReadyCheck(name="coordinator", ok=up, text=f"{text}; {ago}")
    broken = now.connection or "not connected to the broker"
    yield ReadyCheck(
        name="broker",
        ok=up and now.connected,
        text="unknown, since no coordinator serves"
        if not up
        else "connected"
        if now.connected
        else broken,
    )
    hinders = now.hindered
    text = "nothing was refused" if hinders is None else str(hinders)
    yield ReadyCheck(name="commit", ok=hinders is None, text=text)


def families(
    ledger: LedgerReader,
    live: LiveSnapshot | None,
    time_ns: int,
    *,
    method: str = "",
    per_device: bool = False,
) -> Iterator[Metric]:
    """Yield every family; devices are named only where `per_device` is asked for."""
    with ledger.snapshot():
        if live is not None:
            yield info_family(live, method)
        yield from fleet_families(ledger, live, time_ns)
        yield from ledger_families(ledger)
        yield gauge(
            "coordinator_free_disk_bytes",
            "Free disk where the ledger lies.",
            shutil.disk_usage(ledger.path.parent).free,
        )
        yield from process_families(live, accepted(ledger), time_ns)
        if per_device:
            yield from device_families(ledger, live, time_ns)


@dataclass(frozen=True)
class Exposition:
    """Metrics as text, with the type of its content."""

    content: bytes
    content_type: str


def expose(found: Iterable[Metric], accept: str = "") -> Exposition:
    """Return metrics as OpenMetrics, or as Prometheus' text where `accept` asks for that alone."""
    registry = _Collected(tuple(found))
    accepted_types = {part.partition(";")[0].strip() for part in accept.split(",")}
    if "text/plain" in accepted_types and "application/openmetrics-text" not in accepted_types:
        return Exposition(exposition.generate_latest(registry), exposition.CONTENT_TYPE_PLAIN_0_0_4)
    content = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
    return Exposition(content, openmetrics.CONTENT_TYPE_LATEST)


@dataclass(frozen=True)
class _Collected:
    """What prometheus_client takes for a registry."""

    found: tuple[Metric, ...]

    def collect(self) -> Iterable[Metric]:
        return self.found


@dataclass(frozen=True)
class Metered:
    """The coordinator that is asked about."""

    states: StateKeeper
    """State of its ledger."""
    now_ns: Callable[[], int]
    method: str
    """Of the fleet, by its settings."""
    per_device: bool = False
    """Name devices in labels."""


def metric_routes(metered: Metered) -> list[Route]:
    """Return the three routes; their functions wait for files, so they run in threads."""
    home = metered.states.home

    def metrics(request: Request) -> Response:
        live, time_ns = read_live(home), metered.now_ns()
        try:
            with metered.states.reading() as ledger:
                found = tuple(
                    families(
                        ledger,
                        live,
                        time_ns,
                        method=metered.method,
                        per_device=metered.per_device,
                    )
                )
        except LedgerError as error:
            return PlainTextResponse(f"{error}\n", 503)
        exposed = expose(found, request.headers.get("accept", ""))
        return Response(exposed.content, headers={"content-type": exposed.content_type})

    def ready(_request: Request) -> Response:
        found = readiness(home, read_live(home), metered.now_ns())
        status = 200 if found.ready else 503
        return Response(found.model_dump_json(indent=2), status, media_type="application/json")

    return [
        Route("/metrics", metrics),
        Route("/livez", _alive),
        Route("/readyz", ready),
    ]


def _alive(_request: Request) -> Response:
    return PlainTextResponse("alive\n")
