"""How often the gates of accuracy err where images come in bursts, devices differ, and some lie.

    python -m benchmarks.papers.rollout_gates.evidence  # 300 rollouts of each setting
    python -m benchmarks.papers.rollout_gates.evidence --rollouts 20 --only bursts

The product's own counts, evidence and gates decide. NumPy computes the same e-values beside them
and says after which reports a look is worth its time; where both differ the command ends.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.papers.rollout_gates.devices import name_of
from benchmarks.papers.rollout_gates.fleets import Floats, Reports, Setting, draw_reports, ends_of
from benchmarks.papers.rollout_gates.settings import (
    BETTER,
    PROMISES,
    SETTINGS,
    SMALL,
    BetterSetting,
    Promise,
)
from fleetledger.coordinator.topics.rollouts.evalues import (
    STAKES,
    log_evidence,
    reaches,
    reaches_but_for_one,
    signs,
)
from fleetledger.coordinator.topics.rollouts.evidence import Evidence, PairCounts
from fleetledger.coordinator.topics.rollouts.gates import GateFinding, ask, gate_of
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Scope, exact
from fleetledger.schemas.rollouts import ModelComparison, Pairs
from fleetledger.schemas.values import ClassName, Digest

RESULTS = RESULTS_FOLDER / "rollout_evidence.json"
ROLLOUTS = 300
LIMITS = GatePlan()
_CHECKED = 2
"""Rollouts of each setting that go through the gates themselves, report by report, too."""
_NEAR = 1e-6
_ONE_DEVICE = math.log(5) + _NEAR
"""Nats by which one device lowers evidence at most."""
_CHUNK = 3_000_000
"""Counts that are drawn at a time."""


@dataclass(frozen=True)
class Stop:
    """After how many reports a rollout was stopped, and whether a person was asked before."""

    reports: int | None
    asked: bool


def stop_of(reports: Reports, rollout: int, limits: GatePlan = LIMITS) -> Stop:
    """Return when a rollout is stopped by retention or a lost class, looked at after each report.

    Raises `AssertionError` where the product's evidence differs from that of NumPy.
    """
    said = reports.of(rollout)
    logs = _logs(said, limits)
    thresholds = _thresholds(logs.shape[1] - 1, limits)
    first: int | None = None
    for column, threshold in enumerate(thresholds):
        near = np.nonzero(logs[:, column] >= math.log(threshold) - _NEAR)[0]
        for place in near.tolist():
            if first is not None and place >= first:
                break
            counts = _counts(said, column, place + 1, limits)
            product = log_evidence(counts.losses, _liars(column, limits))
            assert abs(product - logs[place, column]) < _NEAR, (product, logs[place, column])
            if reaches(counts.losses, threshold, _liars(column, limits)):
                first = place
                break
    last = len(logs) if first is None else first
    ends = [end for end in ends_of(len(logs)) if end <= last]
    asked = any(
        _most_are_worse(said, end, limits) or _one_hides_it(said, logs, end, limits) for end in ends
    )
    return Stop(None if first is None else first + 1, asked)


def _liars(column: int, limits: GatePlan) -> Fraction:
    """Return the share of liars that is borne by all classes together (0), or by one of them."""
    return limits.liars_of_class if column else exact(limits.liars)


def _logs(said: Reports, limits: GatePlan) -> Floats:
    share = (said.worse - said.better) / np.maximum(said.images, 1)
    z = np.clip(share / limits.cap, -1, 1)
    held = said.images > 0
    liars = np.array([float(_liars(column, limits)) for column in range(said.images.shape[1])])
    capitals = [
        np.cumsum(np.log1p(float(stake) * z) - held * np.log1p(float(stake) * liars), axis=0)
        for stake in STAKES
    ]
    found: Floats = np.logaddexp.reduce(capitals) - math.log(len(STAKES))
    return found


def _thresholds(classes: int, limits: GatePlan) -> list[Fraction]:
    assert limits.retention is not None
    assert limits.no_class_lost is not None
    return [exact(limits.retention)] + [exact(limits.no_class_lost) * classes] * classes


def _counts(said: Reports, column: int, end: int, limits: GatePlan) -> PairCounts:
    found, cap = PairCounts(), exact(limits.cap)
    columns = (one[:end, column].tolist() for one in (said.images, said.worse, said.better))
    for n, b, c in zip(*columns, strict=True):
        found.count(Pairs(both=n - b - c, only_active=b, only_candidate=c), cap)
    return found


def _most_are_worse(said: Reports, end: int, limits: GatePlan) -> bool:
    net = np.sign(said.worse - said.better)[:end, 0][said.images[:end, 0] > 0]
    votes = {Fraction(sign): int((net == sign).sum()) for sign in (-1, 0, 1)}
    return reaches(signs(votes), _thresholds(1, limits)[0])


def _one_hides_it(said: Reports, logs: Floats, end: int, limits: GatePlan) -> bool:
    return any(
        logs[end - 1, column] > math.log(threshold) - _ONE_DEVICE
        and reaches_but_for_one(
            _counts(said, column, end, limits).losses, threshold, _liars(column, limits)
        )
        for column, threshold in enumerate(_thresholds(logs.shape[1] - 1, limits))
    )


def comparison_of(reports: Reports, rollout: int, device: int) -> ModelComparison:
    """Return what a device reports, as it would come over the wire."""
    rows = (
        one[rollout, device, 1:].tolist() for one in (reports.images, reports.worse, reports.better)
    )
    return ModelComparison(
        number=0,
        rollout=1,
        group=1,
        mode="run",
        candidate=Digest.of(b"candidate"),
        candidate_version=2,
        active=Digest.of(b"active"),
        active_version=1,
        classes={
            ClassName(f"class-{number}"): Pairs(both=n - b - c, only_active=b, only_candidate=c)
            for number, (n, b, c) in enumerate(zip(*rows, strict=True))
            if n
        },
    )


def check(reports: Reports, rollout: int, stop: Stop) -> None:
    """Take the rollout through the gates themselves; raise `AssertionError` if they differ."""
    devices, classes = reports.images.shape[1], reports.images.shape[2] - 1
    evidence = Evidence(LIMITS)
    scope = Scope(group=2, mode="run", members=devices, classes=classes)
    for device in range(devices if stop.reports is None else stop.reports):
        evidence.compare(device, name_of(device), comparison_of(reports, rollout, device))
        at = stop.reports is not None and device + 1 >= stop.reports - 1
        if at or device % 50 == 0:
            found = (
                ask(gate_of(name), LIMITS, evidence, scope)
                for name in ("retention", "no_class_lost")
            )
            fails = any(one is not None and one.outcome == "fail" for one in found)
            assert fails == (device + 1 == stop.reports), (rollout, device, stop)


def measure_setting(setting: Setting, rollouts: int) -> dict[str, Any]:
    """Return shares of rollouts that were stopped, at all and by which group, or asked about."""
    size = max(1, min(rollouts, _CHUNK // (setting.devices * (setting.classes + 1))))
    stops: list[Stop] = []
    while len(stops) < rollouts:
        reports = draw_reports(setting, min(size, rollouts - len(stops)), len(stops))
        found = [stop_of(reports, rollout) for rollout in range(len(reports.images))]
        if not stops:
            for rollout in range(min(_CHECKED, len(found))):
                check(reports, rollout, found[rollout])
        stops += found
    ends = ends_of(setting.devices)
    told = [stop.reports for stop in stops if stop.reports is not None]
    exposed = [next(end for end in ends if (stop.reports or ends[-1]) <= end) for stop in stops]
    return {
        "rollouts": len(stops),
        "stopped": len(told),
        "by_group_2": sum(one <= ends[min(1, len(ends) - 1)] for one in told),
        "by_group_3": sum(one <= ends[min(2, len(ends) - 1)] for one in told),
        "asked": sum(stop.asked for stop in stops),
        "exposed_mean": mean(exposed),
    }


def findings(
    setting: Setting, rollouts: int, limits: GatePlan, *, judges: bool
) -> Iterator[GateFinding]:
    """Yield what a gate says of each rollout once all devices have reported."""
    reports = draw_reports(setting, rollouts, 0)
    members = setting.devices
    scope = Scope(group=2, mode="shadow" if judges else "run", members=members, classes=1)
    for rollout in range(rollouts):
        evidence = Evidence(limits)
        for device in range(members):
            evidence.compare(device, name_of(device), comparison_of(reports, rollout, device))
        finding = ask(gate_of("better" if judges else "retention"), limits, evidence, scope)
        assert finding is not None
        yield finding


def measure_small(setting: Setting, rollouts: int) -> dict[str, Any]:
    """Return what retention says in a small fleet, by what is known of alike images."""
    found: dict[str, Any] = {"rollouts": rollouts}
    for alike in (None, 1, setting.copies):
        limits = GatePlan(alike=alike, min_images=1)
        said = list(findings(setting, rollouts, limits, judges=False))
        key = "unset" if alike is None else str(alike)
        found[f"alike_{key}"] = {
            "fails": sum(one.outcome == "fail" for one in said),
            "asks": sum(one.outcome == "inconclusive" and not one.too_little for one in said),
            "too_few": sum(one.too_little for one in said),
        }
    return found


def measure_better(setting: BetterSetting, rollouts: int) -> dict[str, Any]:
    """Return how often an adapter passes."""
    said = findings(setting.setting, rollouts, GatePlan(better=100.0), judges=True)
    return {"rollouts": rollouts, "passed": sum(one.outcome == "pass" for one in said)}


def measure(rollouts: int, only: str = "") -> dict[str, Any]:
    """Return the counts of all settings whose names hold a word, printed as they come."""
    found: dict[str, Any] = {}

    def store(setting: Setting, counts: dict[str, Any]) -> None:
        found[setting.name] = {"setting": asdict(setting), **counts}
        print(f"{setting.name}: {json.dumps(counts)}", flush=True)

    for setting in SETTINGS:
        if only in setting.name:
            store(setting, measure_setting(setting, rollouts))
    for small in SMALL:
        if only in small.name:
            store(small, measure_small(small, rollouts))
    for one in BETTER:
        if only in one.name:
            store(one.setting, measure_better(one, rollouts))
    return found


def broken(found: dict[str, Any], promises: Sequence[Promise] = PROMISES) -> list[Promise]:
    """Return the promises about settings that were measured, and that do not hold."""
    return [one for one in promises if one.setting in found and not one.holds(found[one.setting])]


def table(found: dict[str, Any]) -> str:
    """Return the shares of rollouts of settings with groups as Markdown."""
    columns = ("stopped", "by_group_2", "by_group_3", "asked")
    lines = [
        "| candidate | stopped | by group 2 | by group 3 | asked | devices exposed, mean |",
        "| --- " * (len(columns) + 2) + "|",
    ]
    for name, counts in found.items():
        if "stopped" in counts:
            shares = (f"{100 * counts[key] / counts['rollouts']:.1f} %" for key in columns)
            lines.append(f"| {name} | {' | '.join(shares)} | {counts['exposed_mean']:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS)
    parser.add_argument("--only", default="", help="measure settings whose names hold this")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = measure(options.rollouts, options.only)
    old = json.loads(options.out.read_text()) if options.out.exists() and options.only else {}
    settings = {**old.get("settings", {}), **found}
    print(table(found))
    for promise in broken(settings):
        print("does not hold:", promise)
    report = {
        "claim": "rollout_evidence",
        "machine": describe_machine("numpy", "pydantic"),
        "limits": LIMITS.model_dump(mode="json"),
        "settings": settings,
        "promises": [asdict(one) for one in PROMISES],
        "broken": [asdict(one) for one in broken(settings)],
    }
    options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
