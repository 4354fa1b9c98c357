"""One cell of the study: a fleet, an attack and a share of bad devices, and what finds them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.papers.inspection.attacks import ATTACKS, TARGET
from benchmarks.papers.inspection.coalition import crafted
from benchmarks.papers.inspection.fleet import Fleet
from fleetledger.learning.numerics.inspection import Inspection, InspectionRules, inspect_units
from fleetledger.learning.numerics.leave_out import UnitMoments
from fleetledger.methods.stsa.aggregate import StsaAggregate

CRAFTED = "crafted"
HIDDEN = "crafted, knows inspection"
NONE = "none"
NAMES = (*ATTACKS, CRAFTED, HIDDEN)
FEATURES = 192
"""Features of each model that a fleet of many classes is judged by."""
MANY = 10
SHARES = (0.05, 0.15, 0.3, 0.4)

Sums = Mapping[int, StsaAggregate]


def told(fleet: Fleet, attack: str, bad: Sequence[int]) -> Sums:
    """Return what intake takes of each device; those that it refuses are left out."""
    sums = dict(enumerate(fleet.honest))
    if attack == CRAFTED:
        return {**sums, **crafted(fleet, bad)}
    if attack == HIDDEN:
        return {**sums, **crafted(fleet, bad, lambda tried: flagged(fleet, tried))}
    for device in bad:
        made = ATTACKS[attack].told(fleet, device)
        if made.aggregate is None:
            del sums[device]
        else:
            sums[device] = made.aggregate
    return sums


def inspected(fleet: Fleet, sums: Sums) -> tuple[list[int], Inspection]:
    """Return the devices of some sums, and the verdicts on them in their order."""
    devices, units = sorted(sums), []
    for device in devices:
        moments = fleet.moments(sums[device])
        units.append(UnitMoments.of(moments.gram, moments.sums, fleet.counts(sums[device])))
    ridge = fleet.pictures.told.settings.ridge_value
    return devices, inspect_units(units, ridge, rules_of(fleet))


def flagged(fleet: Fleet, sums: Sums) -> set[int]:
    """Return the devices that inspection flags."""
    devices, found = inspected(fleet, sums)
    return {devices[place] for place in (*found.flagged, *found.unlike)}


def rules_of(fleet: Fleet) -> InspectionRules:
    """Return the product's rules by all features; of many classes by fewer, for the time."""
    many = len(fleet.pictures.names) > MANY
    return replace(InspectionRules(), features=FEATURES if many else fleet.pictures.told.columns)


def measured(fleet: Fleet, attack: str, share: float) -> dict[str, Any]:
    """Return the figures of one cell.

    Accuracies and the trigger's success are in percent: `before` of all that intake takes,
    `bounded` without what the coordinator's bounds set aside, `after` without what inspection
    flags, and `clean` of the honest devices alone. Inspection looks at all that intake takes.
    """
    bad = set(fleet.bad(share)) if attack != NONE else set()
    sums = told(fleet, attack, sorted(bad)) if bad else dict(enumerate(fleet.honest))
    aside = fleet.set_aside(sums)
    began = time.perf_counter()
    devices, found = inspected(fleet, sums)
    seconds = time.perf_counter() - began
    harmful = {devices[place] for place in found.flagged}
    unlike = {devices[place] for place in found.unlike}
    named = harmful | unlike
    refused = bad - sums.keys()
    accuracies = {
        name: fleet.measured([one for device, one in sums.items() if device not in out], TARGET)
        for name, out in (("before", set()), ("bounded", aside), ("after", named))
    }
    honest = [one for device, one in enumerate(fleet.honest) if device not in bad]
    accuracies["clean"] = fleet.measured(honest, TARGET)
    return {
        "bad": len(bad),
        "refused": len(refused),
        "aside": [len(aside & bad), len(aside - bad)],
        "harmful": [len(harmful & bad), len(harmful - bad)],
        "unlike": [len(unlike & bad), len(unlike - bad)],
        "flagged": [len(named & bad), len(named - bad)],
        "warning": found.camps is not None,
        "accuracy": {name: round(both[0], 2) for name, both in accuracies.items()},
        "trigger": {name: round(both[1], 2) for name, both in accuracies.items()},
        "passes": found.passes,
        "seconds": round(seconds, 1),
    }
