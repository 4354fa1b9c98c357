"""Whether a coordinator does its work: what a service manager or a load balancer asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fleetledger.coordinator.core.phrases import span
from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.snapshot import CoordinatorNow, LiveSnapshot, serves
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.message import Strict


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
