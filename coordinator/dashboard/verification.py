"""The ledger verified while the pages go on: one walk at a time, on a connection of its own.

POST /ledger/verify     begin, unless one is under way; then see `/ledger`
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.keys import note_reader
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import VerificationReport, verify
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.reports.reports import VerifyReport
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.strict import Strict


class VerificationNow(Strict):
    """A walk over the ledger, under way or done."""

    state: Literal["running", "fits", "does not fit", "failed"]
    began_ns: int
    ended_ns: int | None = None
    size: int
    """Entries that the ledger had when it began."""
    walked: int = 0
    report: VerifyReport | None = None
    """What `ledger verify` shows; None before it has ended."""
    found: str = ""
    """What did not fit first, or why nothing could be told."""


class Verification:
    """The walk, and the thread that it is on; what is known of it is always whole."""

    def __init__(self, home: Path, now_ns: Callable[[], int]) -> None:
        self._home, self._now_ns = home, now_ns
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.now: VerificationNow | None = None
        """None before the first."""

    def begin(self) -> None:
        """Begin a walk, unless one is under way; raise `LedgerError` where there is no ledger."""
        with self._lock:
            if self.now is not None and self.now.state == "running":
                return
            with LedgerReader.open_read_only(ledger_path(self._home)) as ledger:
                size = ledger.size
            self.now = VerificationNow(state="running", began_ns=self._now_ns(), size=size)
            self._thread = threading.Thread(target=self._walk, name="verification", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until no walk is under way."""
        if self._thread is not None:
            self._thread.join()

    def _walk(self) -> None:
        assert self.now is not None
        began = self.now
        try:
            with LedgerReader.open_read_only(ledger_path(self._home)) as ledger:
                ended = _told(began, self._verified(ledger))
        except Exception as error:  # noqa: BLE001 - a walk that ends must say so
            ended = began.model_copy(update={"state": "failed", "found": _failure(error)})
        self.now = ended.model_copy(update={"ended_ns": self._now_ns()})

    def _verified(self, ledger: LedgerReader) -> VerificationReport:
        settings = load(self._home)
        blobs = Blobs(ledger, BlobStore(settings.blobs or blob_folder(self._home)))
        read_note = note_reader(self._home, settings.fleet)
        return verify(ledger, blobs, self._walked, read_note, Prunings())

    def _walked(self, count: int) -> None:
        assert self.now is not None
        if count % 100 == 0:
            self.now = self.now.model_copy(update={"walked": count})


def verification_route(verification: Verification) -> Route:
    """Return the route that begins a walk, for whoever may see the pages: it changes nothing."""

    def begin(_request: Request) -> Response:
        verification.begin()
        return RedirectResponse("/ledger#verify", 303)

    return Route("/ledger/verify", begin, methods=["POST"])


def _told(began: VerificationNow, report: VerificationReport) -> VerificationNow:
    return began.model_copy(
        update={
            "state": "fits" if report.ok else "does not fit",
            "size": max(began.size, report.entries),
            "walked": report.entries,
            "report": VerifyReport.of(report),
            "found": "" if report.ok else str(report),
        }
    )


def _failure(error: Exception) -> str:
    if isinstance(error, FleetledgerError):
        return str(error)
    return f"a mistake in this program: {type(error).__name__}"
