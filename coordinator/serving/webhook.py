"""Posts what began and ended to need a person to a web address, beside a serving coordinator.

A thread looks every few seconds at what `coordinator status` would say, and posts the difference to
what the address was told last. A post that fails is tried again with growing pauses; what changes
meanwhile is in the next attempt, so that nothing piles up. After a start the address is told all
that is open.
"""

from __future__ import annotations

import http.client
import json
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from coordinator.errors import LedgerError
from coordinator.ledger.reader import ledger_of
from coordinator.live.file import read_live
from coordinator.reading.answers import Need
from coordinator.reading.fleet import fleet_now
from coordinator.reading.needs import at_home
from coordinator.settings import WebhookSection
from schemas.log_lines import about
from schemas.times import iso_time
from transport.errors import TlsError

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

MOST_TOLD = 50
"""Needs named in one post, of those that began and of those that ended; the rest is counted."""
ANSWER_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0
"""Seconds between attempts, doubled from the one to the other."""
_NUMBERS = re.compile(r"\d[\d.,:]*")

Key = tuple[tuple[str, ...], str | None, str]


def key_of(need: Need) -> Key:
    """Return what stays the same of a need while counts and times in its sentence change."""
    return need.devices, need.command, _NUMBERS.sub("", need.sentence)


@dataclass
class Told:
    """Needs that the address knows to be open."""

    open: dict[Key, Need] = field(default_factory=dict)

    def difference(self, now: Iterable[Need]) -> tuple[dict[Key, Need], dict[Key, Need]]:
        """Return the needs that began and those that ended since."""
        current = {key_of(need): need for need in now}
        began = {key: need for key, need in current.items() if key not in self.open}
        ended = {key: need for key, need in self.open.items() if key not in current}
        return began, ended

    def take(self, began: dict[Key, Need], ended: Mapping[Key, Need]) -> None:
        """Note what the address was told."""
        self.open = {key: need for key, need in self.open.items() if key not in ended} | began


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
        self._told = Told()
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
                self._look()
                pause = self._settings.seconds
                self._noted(None)
            except (LedgerError, sqlite3.Error) as error:
                log.debug("what needs a person is not read now: %s", error)
            except (OSError, http.client.HTTPException, TlsError) as error:
                pause = min(2 * max(pause, _FIRST_PAUSE / 2), _LONGEST_PAUSE)
                self._noted(error)

    def _look(self) -> None:
        now = time.time_ns()
        with ledger_of(self._home) as ledger:
            needs = fleet_now(ledger, read_live(self._home), now, self._fleet).needs
        began, ended = self._told.difference(at_home(need, self._home) for need in needs)
        if began or ended:
            post(self._settings, body(self._fleet, now, began.values(), ended.values()))
            self._told.take(began, ended)

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
