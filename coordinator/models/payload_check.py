"""Checks of payloads by their method, and verdicts of checks that ran elsewhere."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetledger.methods.errors import MethodError
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.methods.statistics.sides import StatisticsAssignment
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import ClassName, Digest

_WORK_PER_BYTE = 8192
"""Multiplications of a matrix product that take about as long as a byte of JSON at its worst."""
_REMEMBERED = 4096
"""Verdicts that wait to be asked for."""


@dataclass(frozen=True)
class PayloadVerdict:
    """What a method says of a payload under its settings."""

    payload: Digest
    settings: Digest
    """By `settings_digest`."""
    samples: Mapping[ClassName, int]
    fault: str = ""
    """What is wrong with it; empty where nothing is."""


def settings_digest(method: str, settings: Mapping[str, Any]) -> Digest:
    """Return the digest of what a payload is checked by."""
    return Digest.of(canonical_json({"method": method, "settings": dict(settings)}))


class PayloadCheck:
    """Has methods check payloads; one thread uses it.

    The assignment of a lineage is read once and kept until another lineage's is asked for.
    """

    def __init__(self) -> None:
        self._settings: Mapping[str, Any] | None = None
        self._assignment: StatisticsAssignment | None = None

    def __call__(
        self, method: str, settings: Mapping[str, Any], payload: bytes
    ) -> Mapping[ClassName, int]:
        """Return a payload's samples per class name, or raise the method's error."""
        assignment = self.load(method, settings)
        return statistics_coordinator(method).check(assignment, payload).samples_per_class

    def load(self, method: str, settings: Mapping[str, Any]) -> StatisticsAssignment:
        """Return what payloads are checked by; raise the method's error."""
        if self._assignment is None or self._settings is not settings:
            side = statistics_coordinator(method)
            self._settings, self._assignment = settings, side.read_assignment(settings)
        return self._assignment


class CheckCost:
    """Cost of a method's check, by its settings alone, so that it is known without making one."""

    def __init__(self) -> None:
        self._known: tuple[Mapping[str, Any], int] | None = None

    def __call__(self, method: str, settings: Mapping[str, Any]) -> int:
        """Return the cost of a payload's check as bytes of JSON, as `reading_cost` counts."""
        known = self._known
        if known is None or known[0] is not settings:
            self._known = known = settings, _work(method, settings) // _WORK_PER_BYTE
        return known[1]


def _work(method: str, settings: Mapping[str, Any]) -> int:
    side = statistics_coordinator(method)
    try:
        return side.check_work(side.read_assignment(settings))
    except MethodError:  # then no check begins, and that it cannot is said by the check
        return 0


class Verdicts:
    """Verdicts of other processes of this coordinator, until they are asked for; of one thread.

    A check is a function of payload, method and settings, so whoever has made it, its verdict holds
    wherever digests of all three are the same.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Digest, Digest], PayloadVerdict] = OrderedDict()
        self._settings: Mapping[str, Any] | None = None
        self._digest: Digest | None = None

    def note(self, verdict: PayloadVerdict) -> None:
        """Remember a verdict, and forget the oldest where there are too many."""
        self._known[verdict.payload, verdict.settings] = verdict
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def take(
        self, method: str, settings: Mapping[str, Any], payload: Digest
    ) -> PayloadVerdict | None:
        """Return the verdict of a payload under these settings once; None where there is none."""
        if not self._known:
            return None
        if self._digest is None or self._settings is not settings:
            self._settings, self._digest = settings, settings_digest(method, settings)
        return self._known.pop((payload, self._digest), None)
