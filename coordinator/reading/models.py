"""Models as people compare them: what each was made from, where it runs, how well it does there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.core.formatting import natural
from fleetledger.coordinator.ledger.reader import LedgerReader


@dataclass(frozen=True)
class VersionFacts:
    """A version of the model, with what devices say of it."""

    version: int
    state: str
    solved_index: int
    solved_ns: int
    exported_index: int | None
    lineage: str
    class_names: tuple[str, ...]
    contributions: int
    source: str | None
    """The ONNX file that it was imported from; None where the fleet learned it."""
    aggregate: str
    head: str
    manifest: str | None
    difference: float | None
    """Largest difference of a score of the exported files from the coordinator's own."""
    agreement: float | None
    running: int
    """Devices that it runs on."""
    measured: int
    """Devices that measured it."""
    correct: int
    total: int
    mean_iou: float | None
    """Of a model of pixels: mean of the devices' mean IoU."""

    @property
    def accuracy(self) -> float | None:
        """Share that it was right for where it was measured; of pixels, the mean IoU."""
        if self.mean_iou is not None:
            return self.mean_iou
        return self.correct / self.total if self.total else None


_MODELS = """
SELECT model.*, coalesce(running.devices, 0) AS running, coalesce(seen.devices, 0) AS measured,
    coalesce(seen.correct, 0) AS correct, coalesce(seen.total, 0) AS total, seen.mean_iou
FROM model
LEFT JOIN (SELECT active_version AS version, count(*) AS devices FROM device GROUP BY 1)
    AS running USING (version)
LEFT JOIN (SELECT version, count(*) AS devices, sum(correct) AS correct, sum(total) AS total,
    avg(mean_iou) AS mean_iou FROM measured GROUP BY 1) AS seen USING (version)
"""


def newest_models(ledger: LedgerReader, before: int, limit: int) -> list[VersionFacts]:
    """Return versions below one, newest first."""
    query = _MODELS + " WHERE version < ? ORDER BY version DESC LIMIT ?"
    return [_facts(row) for row in ledger.db.query(query, [before, limit])]


def one_model(ledger: LedgerReader, version: int) -> VersionFacts | None:
    """Return a version; None where there is none."""
    rows = ledger.db.query(_MODELS + " WHERE version = ?", [version])
    return next(map(_facts, rows), None)


def of_lineage(ledger: LedgerReader, lineage: str, around: int, limit: int) -> list[VersionFacts]:
    """Return the versions of a lineage that are nearest to one, oldest first."""
    query = _MODELS + " WHERE lineage = ? ORDER BY abs(version - ?), version DESC LIMIT ?"
    found = [_facts(row) for row in ledger.db.query(query, [lineage, around, limit])]
    return sorted(found, key=lambda model: model.version)


@dataclass(frozen=True)
class ClassPair:
    """A class under two versions, on the devices that measured both."""

    name: str
    correct: int
    total: int
    correct_before: int
    total_before: int


_PAIRED = """
SELECT result.key, entry.idx = measured.idx AS now,
    sum(json_extract(result.value, '$.correct')), sum(json_extract(result.value, '$.total'))
FROM measured
JOIN measured AS before ON before.device = measured.device AND before.version = ?
JOIN entry ON entry.idx IN (measured.idx, before.idx), json_each(entry.body, '$.results') AS result
WHERE measured.version = ? GROUP BY 1, 2
"""


def class_pairs(ledger: LedgerReader, version: int, before: int) -> tuple[int, list[ClassPair]]:
    """Return on how many devices both versions were measured, and each class there."""
    both = ledger.db.execute(
        "SELECT count(*) FROM measured JOIN measured AS before USING (device)"
        " WHERE measured.version = ? AND before.version = ?",
        [version, before],
    ).fetchone()[0]
    meanings = state_of(ledger).classes.meanings
    counts: dict[str, list[int]] = {}
    for name, now, correct, total in ledger.db.execute(_PAIRED, [before, version]):
        place = 0 if now else 2
        found = counts.setdefault(_meant(meanings, name), [0, 0, 0, 0])
        found[place] += correct
        found[place + 1] += total
    return both, [ClassPair(name, *found) for name, found in sorted(counts.items())]


def _meant(meanings: dict[str, str | None], name: str) -> str:
    while (meaning := meanings.get(name)) is not None:
        name = meaning
    return name


@dataclass(frozen=True)
class ProviderRow:
    """Devices that run a version with one provider of ONNX Runtime, and that refused it."""

    provider: str
    running: int
    refused: int


def providers(ledger: LedgerReader, version: int) -> list[ProviderRow]:
    """Return where a version passed the self-test of devices, and where it did not."""
    rows = ledger.db.execute(
        "SELECT coalesce(json_extract(entry.body, '$.provider'), nullif(provider, ''), 'unknown'),"
        " sum(active_version = ?1), sum(model_version = ?1 AND model_state <> 'active') FROM device"
        " LEFT JOIN measured ON measured.device = device.device AND measured.version = ?1"
        " LEFT JOIN entry ON entry.idx = measured.idx"
        " WHERE active_version = ?1 OR (model_version = ?1 AND model_state <> 'active')"
        " GROUP BY 1 ORDER BY 2 DESC, 1",
        [version],
    )
    return [ProviderRow(name, int(on or 0), int(off or 0)) for name, on, off in rows.fetchall()]


@dataclass(frozen=True)
class MeasuredThere:
    """How well a version does on a device."""

    device: str
    index: int
    correct: int
    total: int
    mean_iou: float | None


def measured_on(ledger: LedgerReader, version: int, after: int, limit: int) -> list[MeasuredThere]:
    """Return where a version was measured, the weakest first, from a place on."""
    rows = ledger.db.execute(
        "SELECT device, idx, correct, total, mean_iou FROM measured WHERE version = ?"
        " ORDER BY coalesce(mean_iou, correct * 1.0 / max(total, 1)), device LIMIT ? OFFSET ?",
        [version, limit, after],
    )
    return [MeasuredThere(*row) for row in rows.fetchall()]


def refused_by(ledger: LedgerReader, version: int) -> list[tuple[str, int, str, str]]:
    """Return who did not keep a version: device, entry, what became of it, why."""
    rows = ledger.db.execute(
        "SELECT device, model_index, model_state, coalesce(model_reason, '') FROM device"
        " WHERE model_version = ? AND model_state <> 'active'",
        [version],
    )
    found = [(str(name), int(idx), str(state), str(why)) for name, idx, state, why in rows]
    return sorted(found, key=lambda row: natural(row[0]))


def stages_of(ledger: LedgerReader) -> list[tuple[int, int, int]]:
    """Return each stage with the entry that opened it, and its number of classes."""
    found = sorted(state_of(ledger).stages.by_number.items())
    return [(number, stage.opened_index, len(stage.class_names)) for number, stage in found]


def retractions(ledger: LedgerReader) -> list[int]:
    """Return the entries by which something left the sum for good."""
    rows = ledger.db.execute(
        "SELECT DISTINCT left_index FROM contribution WHERE state = 'retracted' ORDER BY 1"
    )
    return [int(index) for (index,) in rows.fetchall()]


def released_by(ledger: LedgerReader, version: int) -> list[tuple[int, int, str]]:
    """Return the releases of a version, newest first: number, entry, key."""
    rows = ledger.db.execute(
        "SELECT number, idx, key FROM release WHERE version = ? ORDER BY number DESC", [version]
    )
    return [(int(number), int(index), str(key)) for number, index, key in rows.fetchall()]


def _facts(row: dict[str, Any]) -> VersionFacts:
    return VersionFacts(
        version=row["version"],
        state=row["state"],
        solved_index=row["solved_index"],
        solved_ns=row["solved_ns"],
        exported_index=row["exported_index"],
        lineage=row["lineage"],
        class_names=tuple(json.loads(row["class_names"])),
        contributions=row["contributions"],
        source=row["source"],
        aggregate=row["aggregate"],
        head=row["head"],
        manifest=row["manifest"],
        difference=row["parity_difference"],
        agreement=row["parity_agreement"],
        running=row["running"],
        measured=row["measured"],
        correct=row["correct"],
        total=row["total"],
        mean_iou=row["mean_iou"],
    )
