"""What the command line shows of what the fleet runs and can go back to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator.core.fleet_models import earlier
from coordinator.core.wording import some
from coordinator.errors import CommandError
from coordinator.ledger.reader import LedgerReader
from coordinator.paths import ledger_path
from coordinator.projections import TABLES

HELD = (
    "models are held: new ones wait for `fleetledger model push VERSION`; `fleetledger model hold "
    "--release` lets them go out by themselves again"
)


@dataclass(frozen=True)
class Measured:
    """A version, and how well it did where it was measured."""

    version: int
    devices: int
    accuracy: float | None
    """Share of held-out samples of all devices that it was right for; of pixels, mean of the
    devices' mean IoU."""
    of_pixels: bool

    @property
    def text(self) -> str:
        """What an operator is told of it."""
        if self.accuracy is None:
            return f"model {self.version} (measured nowhere)"
        kind = "mean IoU" if self.of_pixels else "accuracy"
        on = f"{self.devices} device{'s' if self.devices > 1 else ''}"
        return f"model {self.version} ({kind} {100 * self.accuracy:.1f} % on {on})"


@dataclass(frozen=True)
class GoingBack:
    """What going back would do, before it is done."""

    leaving: Measured
    to: Measured
    canaries: dict[int, tuple[str, ...]]
    """Devices that were told to run a version of their own, by that version."""


def held(home: Path) -> bool:
    """Whether solved models wait for the operator."""
    with _ledger(home) as ledger:
        return bool(ledger.db.execute("SELECT count(*) FROM model_hold").fetchone()[0])


def canaries(home: Path) -> dict[int, tuple[str, ...]]:
    """Return the devices that were told to run a version of their own, by that version."""
    with _ledger(home) as ledger:
        return _canaries(ledger)


def going_back(home: Path, to: int | None = None) -> GoingBack:
    """Return what `model back` would do; raise `CommandError` where it has nowhere to go.

    Whether `to` is a version to go back to is left to the coordinator's rules.
    """
    with _ledger(home) as ledger:
        rows = ledger.db.execute("SELECT version FROM fleet_model ORDER BY place").fetchall()
        stack = [version for (version,) in rows]
        below = earlier(stack)
        if not below:
            raise CommandError(
                "model: nothing to go back to; `fleetledger model list` shows the versions, "
                "`fleetledger model push VERSION` makes one that of all devices"
            )
        return GoingBack(
            _measured(ledger, stack[-1]), _measured(ledger, to or below[0]), _canaries(ledger)
        )


def told_canaries(found: dict[int, tuple[str, ...]]) -> list[str]:
    """Return a line for each version that some devices were told to run."""
    return [f"model {version} is tried on {some(devices)}" for version, devices in found.items()]


def _canaries(ledger: LedgerReader) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for row in ledger.db.query("SELECT device, version FROM canary ORDER BY version, device"):
        found[row["version"]] = (*found.get(row["version"], ()), row["device"])
    return found


def _measured(ledger: LedgerReader, version: int) -> Measured:
    (row,) = ledger.db.query(
        "SELECT count(*) AS devices, sum(correct) AS correct, sum(total) AS total,"
        " avg(mean_iou) AS mean_iou FROM measured WHERE version = ?",
        [version],
    )
    accuracy = row["mean_iou"]
    if accuracy is None and row["total"]:
        accuracy = row["correct"] / row["total"]
    return Measured(version, row["devices"], accuracy, row["mean_iou"] is not None)


@contextmanager
def _ledger(home: Path) -> Iterator[LedgerReader]:
    with LedgerReader.open_read_only(ledger_path(home), TABLES) as ledger:
        yield ledger
