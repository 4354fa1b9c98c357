"""Views of the ledger's tables for whoever asks with SQL: plain names, times that people read.

They lie in the ledger's database beside the tables, and its one writer makes them when it opens it.
A time is ISO 8601 in UTC; where SQLite's calendar does not reach, it is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping


def _query(text: str) -> str:
    """Return a query in which `ISO(column)` is what SQLite makes a time of nanoseconds by."""
    return re.sub(
        r"ISO\(([\w.]+)\)",
        r"strftime('%Y-%m-%dT%H:%M:%SZ', \1 / 1000000000, 'unixepoch')",
        " ".join(text.split()),
    )


_VIEWS = {
    "entries": """
        SELECT idx AS entry, ISO(time_ns) AS time, kind, actor, device, body
        FROM entry""",
    "devices": """
        SELECT device.device, ISO(admitted.time_ns) AS admitted,
            ISO(born_ns) AS last_start, ISO(silent_ns) AS silent_since, provider,
            active_version AS runs_model, model_state, model_reason, evaluated_version,
            correct, total, round(1.0 * correct / total, 4) AS accuracy, mean_iou,
            (SELECT count(*) FROM contribution WHERE contribution.device = device.device
                AND state IN ('held', 'answer')) AS contributions,
            (SELECT coalesce(sum(samples), 0) FROM contribution
                WHERE contribution.device = device.device
                AND state IN ('held', 'answer')) AS samples,
            bytes_up, bytes_down, admitted_index AS entry
        FROM device LEFT JOIN entry AS admitted ON admitted.idx = admitted_index""",
    "contributions": """
        SELECT contribution.idx AS entry, ISO(entry.time_ns) AS time,
            contribution.device, stage, part, revision, state, samples, payload_bytes AS bytes,
            payload
        FROM contribution JOIN entry USING (idx)""",
    "problems": """
        SELECT idx AS entry, ISO(time_ns) AS time, device,
            json_extract(body, '$.about') AS about, json_extract(body, '$.text') AS text
        FROM entry WHERE kind = 'device.problem'""",
    "releases": """
        SELECT number, version, ISO(expires_ns) AS expires, key, action AS pushed_by_entry,
            idx AS entry
        FROM release""",
}
SQL_VIEWS: Mapping[str, str] = {name: _query(text) for name, text in _VIEWS.items()}
"""View to its query."""

REFERENCES: Mapping[str, str] = {
    "device": "device.device",
    "idx": "entry.idx",
    "admitted_index": "entry.idx",
    "changed_index": "entry.idx",
    "solved_index": "entry.idx",
    "planned_index": "entry.idx",
    "newest_index": "entry.idx",
    "action": "entry.idx",
    "rollout": "rollout.number",
    "release_number": "release.number",
    "root.version": "",
    "contribution_class.idx": "contribution.idx",
}
"""Column, or table and column, to what it names; explorers make links of it, nothing enforces it.

An empty text stands for a column that names nothing, though others of its name do.
"""
