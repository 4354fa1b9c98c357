"""What a run's ledger tells: bytes of weights and of gradients, and which tasks were noticed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coordinator.core import entries
from coordinator.core.entries import EntryBody, read_entry
from coordinator.ledger.reader import LedgerReader
from coordinator.paths import ledger_path
from schemas.rounds import Observation
from schemas.values import DeviceId
from simulator.plan.fleet_plan import FleetPlan

Told = tuple[DeviceId | None, EntryBody]


def entries_of(home: Path) -> list[Told]:
    """Return who told what, in order."""
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        found = (ledger.entry(index) for index in range(ledger.size))
        return [(entry.device, read_entry(entry.kind, entry.body)) for entry in found]


def traffic(told: Sequence[Told], set_bytes: int) -> dict[str, Any]:
    """Return payload bytes: weights that devices sent, and gradients that the proxy used.

    The paper compares these: 4,537 MB a task is ten rounds of ten answers of ResNet-18. A set
    is the gradients of one class of one device, of `set_bytes` bytes.
    """
    opened = {body.number: body for _, body in told if isinstance(body, entries.RoundOpened)}
    sets: dict[int, int] = {}
    models = 0
    for _, body in told:
        if isinstance(body, entries.ContributionAccepted):
            models += body.payload_bytes
        elif isinstance(body, entries.OldModelChosen):
            sets[opened[body.number].stage] = body.gradients  # of the task so far
    gradients = sum(sets.values()) * set_bytes
    return {
        "model_bytes": models,
        "gradient_sets": sum(sets.values()),
        "gradient_bytes": gradients,
        "gradient_percent": round(100 * gradients / models, 3),
    }


def noticed(told: Sequence[Told], plan: FleetPlan) -> dict[str, int]:
    """Count the tasks that began on devices, which of them were noticed, and false alarms."""
    opened = {body.number: body for _, body in told if isinstance(body, entries.RoundOpened)}
    rounds: dict[tuple[DeviceId, int], list[int]] = defaultdict(list)
    for device, body in told:
        seen, number = _observation(body)
        if device is not None and number is not None and seen is not None and seen.transition:
            asked = opened[number]
            rounds[device, asked.stage].append(asked.round_of_stage)
    counted: Counter[str] = Counter()
    for stage in plan.stages[1:]:
        for device, met in stage.devices.items():
            alarms = rounds[device, stage.number]
            if met.indices.size:
                counted["began"] += 1
                how = "missed" if not alarms else "at_once" if alarms[0] == 1 else "late"
                counted[how] += 1
                counted["false_alarms"] += len(alarms[1:])
            else:
                counted["false_alarms"] += len(alarms)
    names = ("began", "at_once", "late", "missed", "false_alarms")
    return {name: counted[name] for name in names}


def _observation(body: EntryBody) -> tuple[Observation | None, int | None]:
    if isinstance(body, entries.NothingReported):
        return body.observation, body.round
    if isinstance(body, entries.ContributionAccepted) and body.answer is not None:
        return body.answer.observation, body.round
    return None, None
