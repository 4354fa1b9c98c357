"""When certificates end: told a month before, and for as long as the file is not replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from fleetledger.runtime.problems import CERTIFICATE, OpenProblem
from fleetledger.transport.clock import Clock
from fleetledger.transport.tls import TlsSettings

SOON = timedelta(days=30)
LOOK_SECONDS = 60.0


@dataclass(frozen=True)
class WatchedCertificate:
    """A file with certificates, and what their end means."""

    file: Path
    whose: str
    """The subject of the sentence, such as `the broker's certificate`."""
    consequence: str
    """What happens then, and the way out."""


class CertificateWatch:
    """Reads the files every minute, so one that was renewed is not told any more."""

    def __init__(self, watched: Callable[[], Iterable[WatchedCertificate]], clock: Clock) -> None:
        self._watched = watched
        self._clock = clock
        self._due = clock.seconds()
        self._found: list[OpenProblem] = []

    def problems(self) -> list[OpenProblem]:
        """Return what ends within a month, or has ended."""
        if self._clock.seconds() >= self._due:
            self._due = self._clock.seconds() + LOOK_SECONDS
            self._found = list(ending(self._watched(), self._clock.time_ns()))
        return self._found


def ending(watched: Iterable[WatchedCertificate], time_ns: int) -> Iterator[OpenProblem]:
    """Yield a problem for each file whose first certificate to end does so within a month."""
    now = datetime.fromtimestamp(time_ns / 1e9, tz=timezone.utc)
    for one in watched:
        ends = end_of(one.file)
        if ends is not None and ends - now < SOON:
            over = ends <= now
            text = (
                f"{os.fspath(one.file)}: {one.whose} {'ended' if over else 'ends'} "
                f"{ends:%Y-%m-%d %H:%M} UTC; {one.consequence}"
            )
            yield OpenProblem(CERTIFICATE, text, over, key=f"{one.file} {over}")


def ends_soon(file: Path, time_ns: int) -> bool:
    """Return whether a certificate ends within a month, or has ended."""
    return next(ending([WatchedCertificate(file, "", "")], time_ns), None) is not None


def end_of(file: Path) -> datetime | None:
    """Return when the first of a file's certificates ends; None where it has none to read."""
    from cryptography import x509  # noqa: PLC0415 - for those who have a certificate

    try:
        found = x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError):
        return None
    return min(one.not_valid_after_utc for one in found)


def certificates_of(
    tls: TlsSettings | None, home: Path, way_out: str
) -> Iterator[WatchedCertificate]:
    """Yield what a program's own `[broker.tls]` names; the system's CAs are the system's."""
    if tls is None:
        return
    if tls.certificate_file is not None:
        yield WatchedCertificate(
            home / tls.certificate_file,
            "the certificate",
            f"the broker lets nobody in by it after that; {way_out}",
        )
    if tls.ca_file is not None:
        yield WatchedCertificate(
            home / tls.ca_file,
            "the authority's certificate",
            f"the broker is believed no longer after that; {way_out}",
        )
