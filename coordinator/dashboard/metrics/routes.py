"""`/metrics`, `/livez` and `/readyz`, for an application to mount."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetledger.coordinator.core.state_fold import StateKeeper
from fleetledger.coordinator.dashboard.metrics.exposition import expose, families
from fleetledger.coordinator.dashboard.metrics.readiness import readiness
from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.live.file import read_live


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
