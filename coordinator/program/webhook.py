"""Posts what began and ended to need a person to a web address, beside a serving coordinator.

A thread looks every few seconds at what `coordinator status` would say, and posts the difference to
what the address was told last. A post that fails is tried again with growing pauses; what changes
meanwhile is in the next attempt, so that nothing piles up. What the address was told is kept in the
home, so that a coordinator that starts again tells it nothing twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import Field

from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.reports.absence import PATIENCE_NS
from fleetledger.coordinator.reports.answers import Need
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.needs import at_home
from fleetledger.coordinator.settings import WebhookSection
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import iso_time
from fleetledger.transport.errors import TlsError

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

MOST_TOLD = 50
"""Needs named in one post, of those that began and of those that ended; the rest is counted."""
ANSWER_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0
"""Seconds between attempts, doubled from the one to the other."""
FILE_NAME = "webhook.json"


class Told(Strict):
    """Needs that an address knows to be open."""

    address: str = ""
    """SHA-256 of its URL, which may be a secret."""
    open: dict[str, Need] = Field(default={})
    """By key."""

    @classmethod
    def read(cls, home: Path, url: str) -> Told:
        """Return what a home's file says of an address; nothing where it says nothing of it."""
        address = hashlib.sha256(url.encode()).hexdigest()
        try:
            found = cls.model_validate_json((home / FILE_NAME).read_bytes())
        except (OSError, ValueError):
            return cls(address=address)
        return found if found.address == address else cls(address=address)

    def difference(self, now: Mapping[str, Need]) -> tuple[list[Need], list[Need]]:
        """Return the needs that began or became more, and those that ended."""
        began = [need for key, need in now.items() if _is_more(need, self.open.get(key))]
        return began, [need for key, need in self.open.items() if key not in now]

    def write(self, home: Path) -> None:
        """Keep it in the home; where the disk refuses it, a restart tells all again."""
        with contextlib.suppress(OSError):
            write_private(home / FILE_NAME, self.model_dump_json(indent=1).encode())


def _is_more(need: Need, told: Need | None) -> bool:
    """Return whether a need is new, is urgent since, or is about further devices."""
    if told is None or (need.urgency == "now" and told.urgency != "now"):
        return True
    return not set(need.devices) <= set(told.devices)


def body(fleet: str, time_ns: int, began: Iterable[Need], ended: Iterable[Need]) -> dict[str, Any]:
    """Return the JSON object of a post; `text` says it all for a chat."""
    opened, closed = list(began), list(ended)
    lines = [f"{need.urgency}: {need.sentence}" for need in opened[:MOST_TOLD]]
    lines += [f"over: {need.sentence}" for need in closed[:MOST_TOLD]]
    return {
        "fleet": fleet,
        "time": iso_time(time_ns),
        "opened": [need.model_dump(mode="json") for need in opened[:MOST_TOLD]],
        "closed": [need.model_dump(mode="json") for need in closed[:MOST_TOLD]],
        "not_listed": max(0, len(opened) - MOST_TOLD) + max(0, len(closed) - MOST_TOLD),
        "text": "\n".join((f"fleet {fleet}", *lines)),
    }


def post(settings: WebhookSection, content: Mapping[str, Any]) -> None:
    """Post an object; raise `OSError`, `TlsError` or `HTTPException` unless the answer is 2xx."""
    parts = urlsplit(settings.url)
    assert parts.hostname is not None, "the settings were checked"
    if parts.scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=ANSWER_SECONDS, context=_context(settings.ca_file)
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=ANSWER_SECONDS)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request(
            "POST",
            path,
            json.dumps(content, ensure_ascii=False).encode(),
            {"Content-Type": "application/json", "User-Agent": "fleetledger"},
        )
        status = connection.getresponse().status
    except OSError as error:
        if why := getattr(error, "verify_message", ""):  # of the host's certificate
            raise TlsError(
                f"webhook.url: the certificate of {parts.hostname} is not believed ({why}); give "
                "that of the authority that signed it, or its own if it signed itself, as "
                "webhook.ca_file"
            ) from error
        raise
    finally:
        connection.close()
    if status not in range(200, 300):  # a redirect may lead anywhere, and is none of the operator's
        raise http.client.HTTPException(f"it answered {status}")


def _context(ca_file: Path | None) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - only who posts by HTTPS pays for it

    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise TlsError(
            f"webhook.ca_file: {ca_file}: cannot be used ({error}); give the CA's certificate, in "
            "PEM"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class Webhook:
    """The thread that looks and posts."""

    def __init__(self, home: Path, fleet: str, settings: WebhookSection) -> None:
        """`settings.ca_file` is relative to `home`."""
        file = settings.ca_file
        self._settings = settings.model_copy(update={"ca_file": file and home / file})
        self._home, self._fleet = home, fleet
        self._told = Told.read(home, settings.url)
        self._failing = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)

    def start(self) -> None:
        """Begin to look, for the first time after `seconds`."""
        self._thread.start()

    def stop(self) -> None:
        """End; a post that is under way has its time."""
        self._stopped.set()
        self._thread.join(2 * ANSWER_SECONDS)

    def _work(self) -> None:
        pause = self._settings.seconds
        while not self._stopped.wait(pause):
            try:
                self.poll()
                pause = self._settings.seconds
                self._noted(None)
            except (LedgerError, sqlite3.Error) as error:
                log.debug("what needs a person is not read now: %s", error)
            except (OSError, http.client.HTTPException, TlsError) as error:
                pause = min(2 * max(pause, _FIRST_PAUSE / 2), _LONGEST_PAUSE)
                self._noted(error)

    def poll(self) -> None:
        """Post what began and ended since the last time; raise as `post` does."""
        now = time.time_ns()
        with ledger_of(self._home) as ledger:
            fleet = fleet_now(ledger, read_live(self._home), now, self._fleet)
        current = {need.key: at_home(need, self._home) for need in fleet.needs}
        started = fleet.coordinator.since
        if started is not None and now - started < PATIENCE_NS:
            current = self._told.open | current  # nobody knows yet who is away, and what is over
        began, ended = self._told.difference(current)
        if began or ended:
            post(self._settings, body(self._fleet, now, began, ended))
        if current != self._told.open:
            self._told = self._told.model_copy(update={"open": current})
            self._told.write(self._home)

    def _noted(self, error: Exception | None) -> None:
        """Log the first failure, and that it is over."""
        if (error is not None) == self._failing:
            return
        self._failing = error is not None
        place = urlsplit(self._settings.url).hostname
        if error is None:
            log.info("webhook: %s takes posts again", place, extra=about("webhook.told"))
        else:
            log.warning(
                "webhook: %s does not take a post, which is tried again: %s",
                place,
                error,
                extra=about("webhook.failed"),
            )
