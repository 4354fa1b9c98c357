"""The fleet inspected while the pages go on: one inspection at a time, on a thread of its own.

POST /inspection/begin     begin, unless one is under way or nothing has changed; see `/inspection`
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.reports.inspection import InspectionReport
from fleetledger.coordinator.settings import load
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.strict import Strict


class InspectionNow(Strict):
    """An inspection, under way or done."""

    state: Literal["running", "done", "failed"]
    began_ns: int
    done: int = 0
    """Devices whose sums were read."""
    of: int = 0
    report: InspectionReport | None = None
    """What `ledger inspect` shows; None before it has ended."""
    found: str = ""
    """Why nothing could be told."""


class Inspecting:
    """The newest inspection, and the thread that it is on; what is known of it is always whole."""

    def __init__(self, home: Path, now_ns: Callable[[], int]) -> None:
        self._home, self._now_ns = home, now_ns
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.now: InspectionNow | None = None
        """None before the first."""

    def begin(self) -> None:
        """Begin one, unless one is under way, or the newest is of the same sum.

        Raises `LedgerError` where there is no ledger.
        """
        with self._lock, ledger_of(self._home) as ledger:
            now = self.now
            if now is not None and (now.state == "running" or is_current(now, ledger)):
                return
            self.now = InspectionNow(state="running", began_ns=self._now_ns())
            self._thread = threading.Thread(target=self._inspect, name="inspection", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until none is under way."""
        if self._thread is not None:
            self._thread.join()

    def _inspect(self) -> None:
        from fleetledger.coordinator.models.inspection import (  # noqa: PLC0415 - methods are heavy
            inspect_ledger,
        )

        assert self.now is not None
        try:
            place = load(self._home).blobs or blob_folder(self._home)
            with ledger_of(self._home) as ledger, ledger.snapshot():
                report = inspect_ledger(Blobs(ledger, BlobStore(place)), progress=self._read)
            change: dict[str, object] = {"state": "done", "report": report}
        except Exception as error:  # noqa: BLE001 - a thread that ends must say so
            known = isinstance(error, FleetledgerError)
            told = str(error) if known else f"a mistake in this program: {type(error).__name__}"
            change = {"state": "failed", "found": told}
        self.now = self.now.model_copy(update=change)

    def _read(self, done: int, of: int) -> None:
        assert self.now is not None
        self.now = self.now.model_copy(update={"done": done, "of": of})


def is_current(now: InspectionNow, ledger: LedgerReader) -> bool:
    """Return whether an inspection is of the sum that a ledger has."""
    if now.report is None:
        return False
    state = state_of(ledger)
    lineage = state.lineages.backbone or state.lineages.beneath
    if lineage is None or str(lineage.digest) != now.report.lineage:
        return False
    changed = max(state.contributions.counted.sum_of(lineage.digest).changed, state.classes.changed)
    return changed < now.report.ledger_size


def inspection_route(inspecting: Inspecting) -> Route:
    """Return the route that begins one, for whoever may see the pages: it changes nothing."""

    def begin(_request: Request) -> Response:
        inspecting.begin()
        return RedirectResponse("/inspection", 303)

    return Route("/inspection/begin", begin, methods=["POST"])
