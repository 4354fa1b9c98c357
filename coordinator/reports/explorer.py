"""The ledger as a file of its own for SQLite explorers: its entries, and what they come to.

    entries, and a view for each kind      what was recorded, with the columns of its body
    devices, models, stages, ...           what it comes to: the lines of the commands' reports
    who_gave_what, accuracy_per_class, ... questions to begin with

The file is written whole when it is asked for, and follows nothing afterwards.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from sqlite_utils import Database

from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.reports.contributions import ContributionFilter, class_facts, given
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.rollouts.lookup import summaries
from fleetledger.coordinator.reports.stages import all_stages
from fleetledger.coordinator.topics.models.queries import models
from fleetledger.coordinator.topics.releases.views import releases
from fleetledger.runtime.times import iso_time
from fleetledger.schemas.contributions import Part
from fleetledger.schemas.message import Message

FILE_NAME = "explore.db"
_ALL = 2**31
_KEYS = {
    "devices": "name",
    "models": "version",
    "stages": "stage",
    "rounds": "number",
    "classes": "index",
    "contributions": "index",
    "rollouts": "number",
    "releases": "number",
}
"""Tables, with the field of their lines that tells them apart."""
_ENTRY = ("entry", "time", "kind", "actor", "device", "body")
_VIEWS: Mapping[str, str] = {
    "accuracy_per_class": """
        SELECT json_extract(body, '$.evaluation.version') AS version, device, result.key AS class,
            json_extract(result.value, '$.correct') AS correct,
            json_extract(result.value, '$.total') AS total, entry, time
        FROM entries, json_each(body, '$.evaluation.results') AS result WHERE entry IN (
            SELECT max(entry) FROM entries WHERE kind = 'device.evaluated'
            GROUP BY json_extract(body, '$.evaluation.version'), device)""",
    "accuracy_per_version": """
        SELECT version, class, sum(correct) AS correct, sum(total) AS total,
            round(1.0 * sum(correct) / sum(total), 4) AS accuracy, count(*) AS devices
        FROM accuracy_per_class GROUP BY version, class ORDER BY version DESC, accuracy""",
    "who_gave_what": """
        SELECT device, stage, count(*) AS contributions, sum(samples) AS samples,
            sum(payload_bytes) AS bytes, min(time) AS first, max(time) AS last
        FROM contributions WHERE state IN ('held', 'answer')
        GROUP BY device, stage ORDER BY stage DESC, samples DESC""",
    "who_gave_which_class": """
        SELECT device, class.key AS class, sum(class.value) AS samples
        FROM contributions, json_each(classes) AS class WHERE state IN ('held', 'answer')
        GROUP BY 1, 2 ORDER BY 1, 3 DESC""",
    "problems": """
        SELECT entry, time, device, json_extract(body, '$.about') AS about,
            json_extract(body, '$.text') AS text
        FROM entries WHERE kind = 'device.problem' ORDER BY entry DESC""",
    "kinds_per_day": """
        SELECT substr(time, 1, 10) AS day, kind, count(*) AS entries
        FROM entries GROUP BY day, kind ORDER BY day DESC, entries DESC""",
}


def write_explored(home: Path, now_ns: int, path: Path) -> None:
    """Write the file anew; raise `LedgerError`, and `OSError` where it cannot be written."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is no folder; make it, or choose another one")
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with ledger_of(home) as ledger, ledger.snapshot():
        _write(Database(fresh), ledger, now_ns)
    fresh.replace(path)


def commands(path: Path) -> tuple[str, ...]:
    """Return how to open the file in explorers."""
    file = shlex.quote(os.fspath(path))
    return (
        f"wrote {path}: the ledger as it is now; write it again to follow",
        f"  datasette {file} --open",
        f"  sqlite-utils rows {file} devices --table",
        f"  sqlite-utils rows {file} accuracy_per_class --csv",
        f"tables: entries, {', '.join(_KEYS)}",
        f"views: {', '.join(_VIEWS)}, and one for each kind of entry",
    )


def _write(db: Database, ledger: LedgerReader, now_ns: int) -> None:
    entries = (
        dict(zip(_ENTRY, (row[0], iso_time(row[1]), *row[2:6]), strict=True))
        for row in ledger.rows()
    )
    db.table("entries").insert_all(entries, pk="entry")
    db.table("entries").create_index(("kind", "device"), if_not_exists=True)
    for name, lines in _lists(ledger, now_ns):
        db.table(name).insert_all(map(_flat, lines), pk=_KEYS[name], alter=True)
    for name, query in {**_of_kinds(), **_VIEWS}.items():
        db.create_view(name, query)
    db.close()


def _lists(ledger: LedgerReader, now_ns: int) -> Iterator[tuple[str, Iterable[object]]]:
    yield "devices", fleet_now(ledger, None, now_ns).devices
    yield "models", models(state_of(ledger).models)
    yield "stages", all_stages(ledger)
    yield "rounds", state_of(ledger).rounds.facts.values()
    yield "classes", class_facts(ledger)
    yield "contributions", given(ledger, ContributionFilter(), _ALL)
    yield "rollouts", summaries(ledger, now_ns, limit=_ALL)
    yield "releases", releases(ledger)


def _of_kinds() -> dict[str, str]:
    """Return a view for each kind of entry, with a column for each field of body and message."""
    found = {}
    for kind, body in ENTRY_KINDS.items():
        columns = "".join(
            f", json_extract(body, '{path}') AS \"{name}\""
            for name, path in _columns(body.model_fields).items()
            if name not in {"entry", "time", "actor", "device"}
        )
        name = kind.replace(".", "_").replace("-", "_")
        of_kind = f"FROM entries WHERE kind = '{kind}'"
        found[name] = f"SELECT entry, time, actor, device{columns} {of_kind}"
    return found


_EMBEDDED = (Message, Part)


def _columns(fields: Mapping[str, Any], before: str = "$") -> dict[str, str]:
    """Return the path of each field by its name; embedded messages and parts give their own."""
    found: dict[str, str] = {}
    for name, field in fields.items():
        path, inner = f'{before}."{name}"', field.annotation
        if isinstance(inner, type) and issubclass(inner, _EMBEDDED):
            for within, its_path in _columns(inner.model_fields, path).items():
                taken = within in fields
                found[f"{name}_{within}" if taken else within] = its_path
        else:
            found[name] = path
    return found


def _flat(line: object) -> dict[str, Any]:
    """Return a line as columns: times in words, what has parts as JSON."""
    plain: dict[str, Any] = TypeAdapter(type(line)).dump_python(line, mode="json")
    return {name.removesuffix("_ns"): _cell(name, value) for name, value in plain.items()}


def _cell(name: str, value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    if name.endswith("_ns") and isinstance(value, int):
        return iso_time(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
