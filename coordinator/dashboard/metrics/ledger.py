"""What the ledger says, in queries that stay quick with a hundred thousand entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from prometheus_client.core import Metric

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.dashboard.metrics.families import counter, gauge, gauges
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.old_and_new_classes import correct_ratios
from fleetledger.coordinator.reports.rollouts.lookup import unfinished
from fleetledger.coordinator.topics.rollouts.state import OPEN

_STATES = (
    *("held", "answer", "late", "replaced", "withdrawn", "retracted"),
    *("masked", "summed", "unopened", "lost"),
)


def ledger_families(ledger: LedgerReader) -> Iterator[Metric]:
    """Yield what is known of entries, contributions, stages and models."""
    yield counter("ledger_entries_total", "Entries of the ledger.", ledger.size)
    yield gauge("ledger_bytes", "Size of the ledger's database with its log.", _bytes(ledger.path))
    yield _contributions(ledger)
    state = state_of(ledger)
    yield gauge("stages_open", "Stages that are open.", int(state.stages.open is not None))
    stopped = int(state.rounds.void.stopped is not None)
    yield gauge("rounds_stopped", "1 where rounds stopped by themselves.", stopped)
    yield gauge(
        "devices_doubled",
        "Devices whose name two installations have, and that wait for the operator.",
        len(state_of(ledger).devices.doubled),
    )
    yield from _models(ledger)
    yield from _rollouts(ledger)


def accepted(ledger: LedgerReader) -> int:
    """Return how many contributions were ever accepted."""
    return sum(_contributions_by_end(ledger).values())


def _contributions_by_end(ledger: LedgerReader) -> Counter[str]:
    found = Counter[str](dict.fromkeys(_STATES, 0))
    for stage in state_of(ledger).contributions.given.values():
        found.update({end: one.count for end, one in stage.sums.by_end.items()})
    return found


def _contributions(ledger: LedgerReader) -> Metric:
    return gauges(
        "ledger_contributions",
        "Contributions of the ledger by what became of them.",
        ("state",),
        {(end,): count for end, count in _contributions_by_end(ledger).items()},
    )


def _models(ledger: LedgerReader) -> Iterator[Metric]:
    models = state_of(ledger).models
    desired, newest = models.desired_of_all, models.newest_version
    roles = {"desired": desired, "newest": newest}
    yield gauges(
        "model_version",
        "Version of the model that all devices should run, and the newest one.",
        ("role",),
        {(role,): version for role, version in roles.items() if version is not None},
    )
    yield gauges(
        "model_devices",
        "Devices by the version that they run, and by what they said of a model last.",
        ("version", "state"),
        {(str(version), state): count for (version, state), count in _by_version(ledger)},
    )
    watched = {version for version in (desired, newest, *models.running) if version is not None}
    yield from _correct(ledger, desired, sorted(watched))
    yield gauge("models_held", "1 where new models wait for the operator.", int(models.held))


def _by_version(ledger: LedgerReader) -> list[tuple[tuple[int, str], int]]:
    """Return devices by the version that they run and what they said last."""
    state = state_of(ledger)
    said = [state.models.of(name) for name in state.devices.admitted]
    found = ((one.active_version, one.model_state or "unknown") for one in said)
    return sorted(Counter((at, what) for at, what in found if at is not None).items())


def _rollouts(ledger: LedgerReader) -> Iterator[Metric]:
    """Yield how open rollouts stand; without one all are zero, so that alerts end."""
    found = unfinished(ledger, 0)  # their waits, which are told by the clock, are no metric
    stages = Counter(one.stage for one in found)
    yield gauges(
        "rollouts_open",
        "Rollouts that something is still to come of, by how they stand.",
        ("state",),
        {(stage,): stages[stage] for stage in OPEN},
    )
    waits = sum(
        one.stage == "paused" or one.waits_for in {"approval", "signature"} for one in found
    )
    yield gauge("rollouts_waiting", "Rollouts that need a person before they go on.", waits)
    newest = next((one for one in found if one.stage not in {"planned", "approved"}), None)
    if newest is None:
        return
    yield gauge(
        "rollout_version", "Version of the model that the open rollout brings.", newest.version
    )
    yield gauge(
        "rollout_group", "Its newest group that was opened; 0 before the first.", newest.group or 0
    )
    yield gauges(
        "rollout_devices",
        "Devices of its groups that were opened, that ever ran the version, failed, are away.",
        ("state",),
        {
            ("reached",): newest.devices,
            ("ran",): newest.ran,
            ("failed",): newest.failed,
            ("unreached",): newest.unreached,
        },
    )


def _correct(
    ledger: LedgerReader, desired: int | None, versions: Sequence[int]
) -> Iterator[Metric]:
    """Yield how well versions do: what devices run, what they should run, and the newest."""
    ratios = {
        (version, classes): ratio
        for version in versions
        for classes, ratio in asdict(correct_ratios(ledger, version)).items()
        if ratio is not None
    }
    yield gauges(
        "model_correct_ratio",
        "Share of held-out samples that a model was right for on devices; of pixels, mean IoU.",
        ("version", "classes"),
        {(str(version), classes): ratio for (version, classes), ratio in ratios.items()},
    )
    yield gauges(
        "desired_model_correct_ratio",
        "The same of the version that all devices should run, whichever it is.",
        ("classes",),
        {(classes,): ratio for (version, classes), ratio in ratios.items() if version == desired},
    )


def _bytes(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return path.stat().st_size + (log.stat().st_size if log.is_file() else 0)
