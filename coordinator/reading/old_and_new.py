"""How well a model does on devices, on the classes it knew before and on those that came last."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.models.queries import of_measured


@dataclass(frozen=True)
class CorrectRatios:
    """Shares from 0 to 1 of held-out samples that a model was right for, over all devices.

    Of a model of pixels the mean over classes of intersection over union. None where nothing was
    measured of such classes.
    """

    all: float | None
    old: float | None
    """Of classes that came in a stage before the newest that the model knows."""
    new: float | None
    """Of classes that came in that stage."""


@dataclass(frozen=True)
class ClassCount:
    """What devices measured of a class: right answers and samples, or intersection and union."""

    correct: int
    total: int
    of_pixels: bool


def correct_ratios(ledger: LedgerReader, version: int) -> CorrectRatios:
    """Return how well a version does where it was measured last, by old and new classes."""
    return ratios_of(ledger, [version])[version]


_KNOWN: dict[tuple[object, ...], CorrectRatios] = {}
"""Ratios that were computed, by all that they follow from; those of old versions never change."""
_MOST_KNOWN = 1024


def ratios_of(ledger: LedgerReader, versions: Sequence[int]) -> dict[int, CorrectRatios]:
    """Return the same of each of several versions; what was measured long ago is read once."""
    names = json.dumps([_meanings(ledger), first_stages(ledger)], sort_keys=True)
    models = state_of(ledger).models
    measured = {version: models.measured_all(version) for version in versions}
    keys = {
        version: (str(ledger.path), names, version, found.devices, found.index)
        for version, found in measured.items()
        if found.devices
    }
    fresh = [version for version, key in keys.items() if key not in _KNOWN]
    counted, newest = _counts(ledger, fresh), _newest(ledger, fresh)
    if len(_KNOWN) + len(fresh) > _MOST_KNOWN:
        _KNOWN.clear()
    for version in fresh:
        counts, last = counted.get(version, {}), newest.get(version, frozenset())
        _KNOWN[keys[version]] = CorrectRatios(
            all=_ratio(counts.values()),
            old=_ratio(count for name, count in counts.items() if name not in last),
            new=_ratio(count for name, count in counts.items() if name in last),
        )
    nothing = CorrectRatios(None, None, None)
    return {v: _KNOWN[keys[v]] if v in keys else nothing for v in versions}


_COUNTS = of_measured(""", told AS MATERIALIZED ( -- a body is long, and is read once for each
    SELECT measured.version, json_extract(entry.body, '$.results') AS results,
        coalesce(json_extract(entry.body, '$.answers'), 'sample') = 'pixels' AS of_pixels
    FROM measured JOIN entry USING (idx)
)
SELECT told.version, result.key, sum(json_extract(result.value, '$.correct')),
    sum(json_extract(result.value, '$.total')), max(told.of_pixels)
FROM told, json_each(told.results) AS result GROUP BY 1, 2
""")


def class_counts(ledger: LedgerReader, version: int) -> dict[str, ClassCount]:
    """Return what devices measured of each class last, by its present name."""
    return _counts(ledger, [version]).get(version, {})


def _counts(ledger: LedgerReader, versions: Sequence[int]) -> dict[int, dict[str, ClassCount]]:
    meanings = _meanings(ledger)
    found: defaultdict[int, dict[str, ClassCount]] = defaultdict(dict)
    rows = ledger.db.execute(_COUNTS, [json.dumps(versions)])
    for version, name, correct, total, of_pixels in rows:
        meant = _meant(meanings, name)
        before = found[version].get(meant, ClassCount(0, 0, False))
        found[version][meant] = ClassCount(
            before.correct + correct, before.total + total, before.of_pixels or bool(of_pixels)
        )
    return found


def newest_classes(ledger: LedgerReader, version: int) -> frozenset[str]:
    """Return the present names of the classes that came last of those that a model knows."""
    return _newest(ledger, [version]).get(version, frozenset())


def _newest(ledger: LedgerReader, versions: Sequence[int]) -> dict[int, frozenset[str]]:
    models = state_of(ledger).models.by_version
    meanings, first = _meanings(ledger), first_stages(ledger)
    found = {}
    for version in models.keys() & set(versions):
        names = models[version].made.class_names
        known = {_meant(meanings, name) for name in names} & first.keys()
        last = max((first[name] for name in known), default=None)
        found[version] = frozenset(name for name in known if first[name] == last)
    return found


def names_of_newest(ledger: LedgerReader, version: int) -> frozenset[str]:
    """Return the same classes by all names that they ever had."""
    meanings, newest = _meanings(ledger), newest_classes(ledger, version)
    return newest | frozenset(name for name in meanings if _meant(meanings, name) in newest)


def first_stages(ledger: LedgerReader) -> dict[str, int]:
    """Return the stage that first asked for each class, by its present name."""
    meanings, first = _meanings(ledger), dict[str, int]()
    for number, stage in sorted(state_of(ledger).stages.by_number.items()):
        for name in stage.class_names:
            first.setdefault(_meant(meanings, name), number)
    return first


def _meanings(ledger: LedgerReader) -> Mapping[str, str | None]:
    return state_of(ledger).classes.meanings


def _meant(meanings: Mapping[str, str | None], name: str) -> str:
    while (meaning := meanings.get(name)) is not None:
        name = meaning
    return name


def _ratio(found: Iterable[ClassCount]) -> float | None:
    counts = [count for count in found if count.total]
    if not counts:
        return None
    if any(count.of_pixels for count in counts):
        return sum(count.correct / count.total for count in counts) / len(counts)
    return sum(count.correct for count in counts) / sum(count.total for count in counts)
