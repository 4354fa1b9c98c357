"""What the command line shows, read from the ledger's projections while the coordinator runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.errors import CommandError
from coordinator.ledger.reader import LedgerReader
from coordinator.paths import ledger_path
from coordinator.projections import TABLES
from schemas.keys import VerifyKey

_ROUNDS = """
SELECT round.*, answers.bytes_up FROM round LEFT JOIN (
    SELECT stage, part, avg(payload_bytes) AS bytes_up FROM contribution
    WHERE state IN ('answer', 'late') GROUP BY stage, part
) AS answers ON answers.stage = round.stage AND answers.part = round.number
ORDER BY number
"""


@dataclass(frozen=True)
class ClassRow:
    """A registered class."""

    index: int
    name: str
    aliases: tuple[str, ...]
    samples: int


@dataclass(frozen=True)
class StageRow:
    """A stage, with why it was opened and closed."""

    stage: int
    class_names: tuple[str, ...]
    contributions: int
    opened: str
    closed: str


@dataclass(frozen=True)
class RoundRow:
    """A round of training: who was asked, what counted, what came of it."""

    number: int
    stage: int
    round_of_stage: int
    phase: str
    follows: int | None
    """The round whose answers a later phase goes on from."""
    asked: int
    counted: int | None
    missing: int | None
    images: int | None
    drift: float | None
    """Mean distance of the answers from their mean, relative to the length of the step."""
    bytes_down: int
    """The weights that each device of the cohort was given."""
    bytes_up: int | None
    """The mean size of the answers, late ones among them; None before the first."""
    state: str
    looking: int
    """Devices that were asked only to look at their images."""
    seen: str
    """What devices saw that looked, in words; empty where none did."""


@dataclass(frozen=True)
class DeclinedRow:
    """A device that gave no answer to a round, and said why."""

    round: int
    device: str
    reason: str


@dataclass(frozen=True)
class OldModelRow:
    """What the proxy made of what a round gave; models are named by the rounds that gave them."""

    round: int
    state: str
    score: float | None
    compared: int | None
    best: int | None
    """The one with the best score of the present task."""
    previous: int | None
    """The old model of devices in the present task."""
    current: int | None
    """The old model of devices that enter the next one."""


@dataclass(frozen=True)
class ReportRow:
    """Something new that a device reported."""

    device: str
    text: str
    class_names: tuple[str, ...]


@dataclass(frozen=True)
class DeviceRow:
    """An admitted device."""

    device: str
    contributions: int
    samples: int
    active_version: int | None
    model_state: str
    accuracy: float | None
    """Share of held-out samples that the model is right for; of a model of pixels the mean over
    classes, the background among them, of intersection over union."""
    of_pixels: bool
    """Whether `accuracy` is the latter."""
    key: str = ""
    """Hash of its key, or `invited` or `revoked`; empty where it has none."""
    silent_ns: int | None = None
    """Since when nothing came of it that could be believed, in nanoseconds since 1970."""


@dataclass(frozen=True)
class TwinsRow:
    """A device whose name two installations have, each named by a run of it."""

    device: str
    one: str
    other: str


@dataclass(frozen=True)
class ModelRow:
    """A version of the model."""

    version: int
    state: str
    class_names: tuple[str, ...]
    contributions: int
    running_on: int
    descends: tuple[str, ...]
    """Devices of whose retracted answers to rounds it descends."""


def classes(home: Path) -> list[ClassRow]:
    """Return the registered classes in the order of their indices."""
    with _ledger(home) as ledger:
        rows = list(ledger.db.query("SELECT name, class_index, meaning FROM class"))
        counted = ledger.db.execute(
            "SELECT name, sum(c.samples) FROM contribution_class c"
            " JOIN contribution USING (idx) WHERE state = 'held' GROUP BY name"
        )
        samples: dict[str, int] = dict(counted.fetchall())
    meanings = {row["name"]: row["meaning"] for row in rows}
    aliases: dict[str, list[str]] = {}
    for name in meanings:
        aliases.setdefault(_meant(meanings, name), []).append(name)
    found = [
        ClassRow(
            row["class_index"],
            row["name"],
            tuple(sorted(set(aliases[row["name"]]) - {row["name"]})),
            sum(samples.get(name, 0) for name in aliases[row["name"]]),
        )
        for row in rows
        if row["meaning"] is None
    ]
    return sorted(found, key=lambda row: row.index)


def stages(home: Path) -> list[StageRow]:
    """Return the stages, oldest first."""
    with _ledger(home) as ledger:
        rows = list(
            ledger.db.query(
                "SELECT stage.*, (SELECT count(*) FROM contribution"
                " WHERE contribution.stage = stage.stage AND state = 'held') AS held"
                " FROM stage ORDER BY stage"
            )
        )
    return [
        StageRow(
            row["stage"],
            tuple(json.loads(row["class_names"])),
            row["held"],
            f"by {row['opened_by']}",
            _closed(row),
        )
        for row in rows
    ]


def reports(home: Path) -> list[ReportRow]:
    """Return what devices have reported as new since the newest stage was opened."""
    with _ledger(home) as ledger:
        rows = list(
            ledger.db.query(
                "SELECT * FROM transition"
                " WHERE idx > coalesce((SELECT max(opened_index) FROM stage), -1) ORDER BY idx"
            )
        )
    return [
        ReportRow(row["device"], _report(row), tuple(json.loads(row["class_names"])))
        for row in rows
    ]


def rounds(home: Path) -> list[RoundRow]:
    """Return the rounds, oldest first."""
    with _ledger(home) as ledger:
        rows = list(ledger.db.query(_ROUNDS))
        seen: dict[int, list[dict[str, Any]]] = {}
        for row in ledger.db.query("SELECT * FROM observation ORDER BY device"):
            seen.setdefault(row["round"], []).append(row)
    return [
        RoundRow(
            number=row["number"],
            stage=row["stage"],
            round_of_stage=row["round_of_stage"],
            phase=row["phase"],
            follows=row["follows"],
            asked=row["asked"],
            counted=row["counted"],
            missing=row["missing"],
            images=row["samples"],
            drift=row["client_drift"],
            bytes_down=row["weights_bytes"],
            bytes_up=None if row["bytes_up"] is None else round(row["bytes_up"]),
            state=_round_state(row),
            looking=row["looking"],
            seen=_seen(seen.get(row["number"], [])),
        )
        for row in rows
    ]


def stopped(home: Path) -> str | None:
    """Return why the open stage asks for no more rounds; None where nothing has stopped it."""
    with _ledger(home) as ledger:
        found = ledger.db.execute("SELECT reason FROM stopped").fetchone()
    return None if found is None else str(found[0])


def declined(home: Path) -> list[DeclinedRow]:
    """Return who gave no answer to rounds and said why, oldest first."""
    with _ledger(home) as ledger:
        rows = list(ledger.db.query("SELECT * FROM declined ORDER BY idx"))
    return [DeclinedRow(row["round"], row["device"], row["reason"]) for row in rows]


def old_models(home: Path) -> list[OldModelRow]:
    """Return what a proxy scored and chose, oldest first; nothing where there is none."""
    with _ledger(home) as ledger:
        rows = list(ledger.db.query("SELECT * FROM old_model ORDER BY idx"))
    return [
        OldModelRow(
            row["round"],
            row["state"],
            row["score"],
            row["compared"],
            row["best_round"],
            row["previous_round"],
            row["current_round"],
        )
        for row in rows
    ]


def devices(home: Path) -> list[DeviceRow]:
    """Return the admitted devices by name."""
    with _ledger(home) as ledger:
        rows = list(
            ledger.db.query(
                "SELECT device.*, device_key.key, device_key.state AS key_state,"
                " count(idx) AS held, coalesce(sum(samples), 0) AS samples"
                " FROM device LEFT JOIN contribution"
                " ON contribution.device = device.device AND contribution.state = 'held'"
                " LEFT JOIN device_key ON device_key.device = device.device"
                " GROUP BY device.device ORDER BY device.device"
            )
        )
    return [
        DeviceRow(
            row["device"],
            row["held"],
            row["samples"],
            row["active_version"],
            " ".join(filter(None, (row["model_state"], row["model_reason"]))),
            _accuracy(row),
            row["mean_iou"] is not None,
            _key(row),
            None if row["key_state"] == "revoked" else row["silent_ns"],
        )
        for row in rows
    ]


def left_out(home: Path) -> list[str]:
    """Return what is left out of the sum because a device gave more than its share, in words."""
    with _ledger(home) as ledger:
        rows = ledger.db.execute("SELECT text FROM left_out ORDER BY device").fetchall()
    return [text for (text,) in rows]


def twins(home: Path) -> list[TwinsRow]:
    """Return the devices whose name two installations have, and that wait for the operator."""
    with _ledger(home) as ledger:
        rows = list(
            ledger.db.query("SELECT * FROM device_twins WHERE kept IS NULL ORDER BY device")
        )
    return [TwinsRow(row["device"], row["one"], row["other"]) for row in rows]


def last_entry_ns(home: Path) -> int | None:
    """Return the time of the newest entry; None where there is none."""
    with _ledger(home) as ledger:
        return ledger.entry(ledger.size - 1).time_ns if ledger.size else None


def _key(row: dict[str, Any]) -> str:
    key = row["key"]
    return row["key_state"] or "" if key is None else VerifyKey(key).key_hash.hex()


def _accuracy(row: dict[str, Any]) -> float | None:
    if row["mean_iou"] is not None:
        return float(row["mean_iou"])
    return row["correct"] / row["total"] if row["total"] else None


def models(home: Path) -> list[ModelRow]:
    """Return the versions, oldest first."""
    with _ledger(home) as ledger:
        rows = list(
            ledger.db.query(
                "SELECT model.*, (SELECT count(*) FROM device"
                " WHERE active_version = model.version) AS running_on"
                " FROM model ORDER BY version"
            )
        )
        descends = {row["version"]: _descends(ledger, row["version"]) for row in rows}
    return [
        ModelRow(
            row["version"],
            row["state"],
            tuple(json.loads(row["class_names"])),
            row["contributions"],
            row["running_on"],
            descends[row["version"]],
        )
        for row in rows
    ]


def model_facts(home: Path, version: int) -> list[tuple[str, object]]:
    """Return what is known of one version; raise `CommandError` if there is none."""
    with _ledger(home) as ledger:
        rows = list(ledger.db.query("SELECT * FROM model WHERE version = ?", [version]))
        running = ledger.db.execute(
            "SELECT device FROM device WHERE active_version = ? ORDER BY device", [version]
        ).fetchall()
        descends = _descends(ledger, version)
    if not rows:
        raise CommandError(f"version: {version} is not a model; see `fleetledger model list`")
    row = dict(rows[0])
    row["class_names"] = ", ".join(json.loads(row["class_names"]))
    row["running_on"] = ", ".join(device for (device,) in running) or "no device"
    if descends:
        row["descends"] = f"from answers of {', '.join(descends)}, retracted"
    return [(name, value) for name, value in row.items() if value is not None]


def _descends(ledger: LedgerReader, version: int) -> tuple[str, ...]:
    rows = ledger.db.execute(
        "SELECT device FROM descent WHERE version = ? ORDER BY device", [version]
    )
    return tuple(device for (device,) in rows.fetchall())


@contextmanager
def _ledger(home: Path) -> Iterator[LedgerReader]:
    with LedgerReader.open_read_only(ledger_path(home), TABLES) as ledger:
        yield ledger


def _meant(meanings: dict[str, str | None], name: str) -> str:
    while (meaning := meanings[name]) is not None:
        name = meaning
    return name


def _round_state(row: dict[str, Any]) -> str:
    """Return the state, with the reason where nothing came of the round."""
    state = str(row["state"])
    return f"{state}: {row['reason']}" if state in {"came to nothing", "failed"} else state


def _seen(rows: list[dict[str, Any]]) -> str:
    """Return what some devices saw in a round."""
    if not rows:
        return ""
    entropy = sum(row["entropy"] * row["images"] for row in rows) / sum(r["images"] for r in rows)
    begins = ", ".join(row["device"] for row in rows if row["transition"])
    told = f"entropy {entropy:.3f} on {len(rows)} device{'s' if len(rows) > 1 else ''}"
    return f"{told}; new task: {begins}" if begins else told


def _report(row: dict[str, Any]) -> str:
    if row["why"] == "class name":
        return "new class folders"
    return (
        f"unsure about {row['images']} images: {row['uncertainty']:.3f}, "
        f"so far {row['baseline']:.3f} (model {row['model_version']})"
    )


def _closed(row: dict[str, Any]) -> str:
    if row["closed_ns"] is None:
        return "open"
    return f"{row['closed_because']}; {row['answered']} of {row['expected']} devices answered"
