"""What Datasette is told of the ledger: titles, descriptions, units, and queries to begin with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.reading.sql_views import SQL_VIEWS

DATABASE = "ledger"
"""As Datasette calls `ledger.db`."""


@dataclass(frozen=True)
class CannedQuery:
    """A question that the ledger answers; `:names` in it are asked for."""

    title: str
    sql: str
    description: str = ""


QUERIES: Mapping[str, CannedQuery] = {
    "who_gave_what": CannedQuery(
        "Who gave what",
        "SELECT device, stage, count(*) AS contributions, sum(samples) AS samples,"
        " sum(bytes) AS bytes, min(time) AS first, max(time) AS last"
        " FROM contributions WHERE state IN ('held', 'answer')"
        " GROUP BY device, stage ORDER BY stage DESC, samples DESC",
        "What counts now; what was withdrawn, replaced or retracted is left out.",
    ),
    "who_gave_which_class": CannedQuery(
        "Who gave which class",
        "SELECT contributions.device, contribution_class.name AS class,"
        " sum(contribution_class.samples) AS samples"
        " FROM contributions JOIN contribution_class ON contribution_class.idx = entry"
        " WHERE state IN ('held', 'answer') GROUP BY 1, 2 ORDER BY 1, 3 DESC",
    ),
    "devices_that_refused": CannedQuery(
        "Devices on which a model does not run, and why",
        "SELECT device, model_state, model_reason, runs_model FROM devices"
        " WHERE model_state IS NOT NULL AND model_state <> 'active' ORDER BY device",
    ),
    "devices_silent": CannedQuery(
        "Devices of which nothing came for long",
        "SELECT device, silent_since, last_start, runs_model, contributions FROM devices"
        " WHERE silent_since IS NOT NULL OR last_start IS NULL ORDER BY silent_since",
        "As the ledger has it; who is online just now is in `fleetledger coordinator status`.",
    ),
    "timeline_of_a_device": CannedQuery(
        "Timeline of one device",
        "SELECT entry, time, kind, body FROM entries WHERE device = :device"
        " ORDER BY entry DESC LIMIT 500",
        "Every entry that the device made.",
    ),
    "problems_newest": CannedQuery(
        "Problems that devices reported",
        "SELECT time, device, about, text, entry FROM problems ORDER BY entry DESC LIMIT 500",
    ),
    "what_does_not_count": CannedQuery(
        "What was given and does not count",
        "SELECT contributions.entry, time, device, stage, part, state, samples"
        " FROM contributions WHERE state NOT IN ('held', 'answer') ORDER BY entry DESC",
    ),
    "kinds_per_day": CannedQuery(
        "Entries of each kind per day",
        "SELECT substr(time, 1, 10) AS day, kind, count(*) AS entries FROM entries"
        " GROUP BY day, kind ORDER BY day DESC, entries DESC",
    ),
    "traffic": CannedQuery(
        "Bytes of each device, as it counted them at its newest evaluation",
        "SELECT device, bytes_up, bytes_down, contributions FROM devices ORDER BY bytes_up DESC",
    ),
}

_DESCRIPTIONS: Mapping[str, tuple[str, str]] = {
    "entries": ("Entries", "Everything, in order. `fleetledger ledger show` says it in words."),
    "devices": ("Devices", "Every admitted device, and what it runs."),
    "contributions": ("Contributions", "What devices gave, part by part."),
    "problems": ("Problems", "What devices reported that their owners should mend."),
    "releases": ("Releases", "Signed releases of models."),
}
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "contribution": {
        "idx": "The entry of the ledger.",
        "state": "'held', or 'answer' to a round: it counts.",
        "payload": "SHA-256 of what was given.",
    },
    "device": {
        "correct": "Right answers on held-out samples; of pixels, summed intersections.",
        "total": "Held-out samples; of pixels, summed unions.",
        "bytes_up": "Sent since the agent began, as of its newest evaluation.",
    },
    "entry": {"idx": "The number of the entry.", "leaf": "RFC 6962 leaf hash of its bytes."},
}
_UNITS: Mapping[str, Mapping[str, str]] = {
    "contribution": {"payload_bytes": "byte"},
    "device": {"bytes_up": "byte", "bytes_down": "byte"},
    "entry": {"time_ns": "nanosecond"},
}
_INNER = ("node", "projection", "checkpoint", "blob")


def metadata(fleet: str) -> dict[str, object]:
    """Return what Datasette's `--metadata` takes."""
    tables: dict[str, dict[str, object]] = {}
    for name in SQL_VIEWS:
        title, text = _DESCRIPTIONS[name]
        tables[name] = {"title": title, "description": text}
    for name in sorted({*_COLUMNS, *_UNITS}):
        tables[name] = {
            "columns": dict(_COLUMNS.get(name, {})),
            "units": dict(_UNITS.get(name, {})),
        }
    tables |= {name: {"hidden": True} for name in _INNER}
    title = f"Fleet {fleet}"
    return {
        "title": title,
        "description": "An append-only ledger: who gave what, which models came of it, and where"
        " they run.",
        "databases": {
            DATABASE: {
                "title": title,
                "description": "Begin with the queries; views have plain names and times, tables"
                " are what they are made of.",
                "queries": {
                    name: {"title": query.title, "description": query.description, "sql": query.sql}
                    for name, query in QUERIES.items()
                },
                "tables": tables,
            }
        },
    }


def commands(ledger: Path, written: Path) -> tuple[str, ...]:
    """Return how to open a ledger, of which `metadata` was written, in explorers."""
    file, told = shlex.quote(str(ledger)), shlex.quote(str(written))
    return (
        f"wrote {written}; the ledger may be written meanwhile, explorers only read it:",
        f"  datasette {file} --metadata {told} --open",
        f"  sqlite-utils rows {file} devices --table",
        f"views: {', '.join(SQL_VIEWS)}",
    )
