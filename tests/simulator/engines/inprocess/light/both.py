"""The same fleet with both gears of light agents, and what their ledgers say.

Agents are told what to do where nothing asks for more; else they act by themselves. In both ways
they leave the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus, ModelExported
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.records import StageRecord
from tests.simulator.rounds.small import Watching

MEASURED_GATES = ("latency", "memory")
OF_AGENTS = (DeviceModelStatus,)
"""What only agents that install models say."""
_LEFT_OUT = {
    "round.closed": {"counted"},
    "weights.averaged": {"inputs", "seconds"},
    "model.solved": {"ledger_size", "weights_index", "seconds"},
    "model.exported": {"manifest"},
    "old-model.chosen": {"answer"},
}
"""Indices and seconds; a manifest tells both."""


@dataclass
class Learned:
    """What came of a run."""

    records: list[StageRecord]
    ledger: list[tuple[Entry, EntryBody]]
    models: list[dict[str, bytes]]
    """Files of each stage's model, without their manifest."""

    def bodies(self, kind: type[EntryBody]) -> list[Any]:
        return [body for _, body in self.ledger if isinstance(body, kind)]


def learn(
    make: Callable[..., InProcessEngine | LightEngine],
    what: Prepared,
    folder: Path,
    on_round: Callable[[int], None] = lambda _: None,
) -> Learned:
    engine = make(what, folder, Watching(on_round))
    records, models = [], []
    try:
        for stage in what.plan.stages:
            records.append(engine.learn(stage))
            files = engine.model_folder(records[-1]).iterdir()
            models.append({f.name: f.read_bytes() for f in files if f.name != "manifest.json"})
        ledger = [
            (entry, read_entry(entry.kind, entry.body))
            for entry in engine._fleet.coordinator.engine.ledger.entries()
        ]
        return Learned(records, ledger, models)
    finally:
        engine.close()


def both(what: Prepared, folder: Path) -> tuple[Learned, Learned]:
    """Let the same fleet learn with agents that act by themselves, and with those that are told."""
    timed = learn(InProcessEngine, what, folder / "timed")
    return timed, learn(LightEngine, what, folder / "light")


def told(ledger: Sequence[tuple[Entry, EntryBody]]) -> list[tuple[Any, ...]]:
    """Return what entries say, without what is measured, and manifests by the model's version.

    Devices speak in an order that only the clock decides: what they say between two entries of
    others is sorted. Looks come last, for which no round waits.
    """
    names: dict[str, str] = {}
    for _, body in ledger:
        if isinstance(body, ModelExported):
            names[body.manifest.digest] = f"manifest {body.version}"
            names[body.manifest.list_digest] = f"blocks of manifest {body.version}"
    said_of = re.compile("|".join(names) or "$.")
    lines: list[tuple[Any, ...]] = []
    group: list[tuple[Any, ...]] = []
    looks: list[tuple[Any, ...]] = []
    for entry, _ in ledger:
        text = json.dumps(_unmeasured(entry), sort_keys=True)
        text = said_of.sub(lambda found: names[found[0]], text)
        one = (entry.kind, entry.actor, str(entry.device), text, len(entry.blobs))
        if entry.kind == "nothing.reported" and '"entropy"' in text:
            looks.append(one)
        elif entry.device is not None:
            group.append(one)
        else:
            lines += [*sorted(group), one]
            group = []
    return [*lines, *sorted(group), *sorted(looks)]


def _unmeasured(entry: Entry) -> dict[str, Any]:
    dropped = _LEFT_OUT.get(entry.kind, set()) - {"manifest"}
    left = {name: value for name, value in entry.body.items() if name not in dropped}
    if entry.kind == "model.solved":
        left.pop("inputs", None)  # indices
    if entry.kind == "model.compared":
        left["comparison"] = {
            name: value
            for name, value in left["comparison"].items()
            if name not in ("cost_active", "cost_candidate", "seconds")
        }
    if entry.kind == "transition.reported" and left["transition"].get("uncertainty"):
        seen = left["transition"]["uncertainty"] | {"within_seconds": 0.0}  # by its pace
        left["transition"] = left["transition"] | {"uncertainty": seen}
    if entry.kind == "rollout.measured":
        left.pop("entries", None)
        left["gates"] = [gate for gate in left["gates"] if gate["gate"] not in MEASURED_GATES]
    return left


def said(ledger: Sequence[tuple[Entry, EntryBody]]) -> list[tuple[Any, ...]]:
    """Return what entries say, without indices and seconds; what devices say in a round, sorted."""
    told: list[tuple[Any, ...]] = []
    group: list[tuple[Any, ...]] = []
    for entry, body in ledger:
        if isinstance(body, OF_AGENTS):
            continue
        left = {k: v for k, v in entry.body.items() if k not in _LEFT_OUT.get(entry.kind, ())}
        one = (entry.kind, entry.actor, entry.device, repr(left), len(entry.blobs))
        if entry.device is not None:
            group.append(one)
            continue
        told.extend(sorted(group, key=repr))
        told.append(one)
        group = []
    return [*told, *sorted(group, key=repr)]


def means(learned: Learned) -> list[tuple[Digest, Digest, float]]:
    """Return the digests of every round's sum and weights, and its drift."""
    return [
        (body.aggregate, body.weights.digest, body.client_drift)
        for body in learned.bodies(WeightsAveraged)
    ]


def by_round(ledger: Sequence[tuple[Entry, EntryBody]]) -> list[tuple[Any, ...]]:
    """Return the same with what comes when it may at the end: looks, and the proxy's choices.

    No round waits for a device that only looks, and no stage for a score of its last round.
    """
    told = said(ledger)
    later = [one for one in told if one[0] == "old-model.chosen" or "'entropy'" in one[3]]
    later = [one for one in later if one[0] != "contribution.accepted"]
    return [one for one in told if one not in later] + sorted(later, key=repr)
