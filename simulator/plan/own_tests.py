"""A test part of every device, drawn as its training data are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.labels import Indices
from fleetledger.simulator.datasets.samples import SampleSet, domains_of
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.plan.streams import random_stream


def deal_tests(plan: FleetPlan, split: Split, by_owner: bool) -> list[dict[DeviceId, Indices]]:
    """Return the test samples that come to each device with each stage, ascending.

    Samples of one class and domain (and owner, with `by_owner`) are dealt in the shares in which
    the plan deals the training samples of these; so a sample is on one device, and what nobody
    learns is on none.
    """
    kinds = _kinds(split, by_owner)
    takers: dict[int, list[tuple[int, DeviceId, int]]] = defaultdict(list)
    for place, stage in enumerate(plan.stages):
        for device, part in stage.devices.items():
            found, times = np.unique(kinds[0][part.indices], return_counts=True)
            for kind, often in zip(found.tolist(), times.tolist(), strict=True):
                takers[kind].append((place, device, often))
    random = random_stream(plan.seed, "own test")
    parts: list[dict[DeviceId, list[Indices]]] = [defaultdict(list) for _ in plan.stages]
    for kind in np.unique(kinds[1]).tolist():
        members = random.permutation(np.flatnonzero(kinds[1] == kind))
        taken = takers.get(kind, [])
        held = np.cumsum([often for _, _, often in taken])
        cuts = np.rint(held / held[-1] * len(members)).astype(np.int64) if taken else held
        for (place, device, _), share in zip(taken, np.split(members, cuts[:-1]), strict=False):
            parts[place][device].append(share)
    return [
        {device: np.sort(np.concatenate(shares)) for device, shares in part.items()}
        for part in parts
    ]


def _kinds(split: Split, by_owner: bool) -> tuple[Indices, Indices]:
    """Return numbers, equal for samples of one kind, of both parts: (N,) and (M,)."""
    train, test = split.train, split.test
    told = [np.concatenate([train.labels, test.labels])]
    for of in (_domains, _owners) if by_owner else (_domains,):
        one, other = of(train), of(test)
        if one is not None and other is not None:
            told.append(np.concatenate([one, other]))
    _, kinds = np.unique(np.stack(told), axis=1, return_inverse=True)
    flat: Indices = kinds.reshape(-1).astype(np.int64)
    return flat[: len(train)], flat[len(train) :]


def _domains(samples: SampleSet) -> NDArray[np.int64] | None:
    found = domains_of(samples)
    if found is None:
        return None
    order = {name: number for number, name in enumerate(sorted(found.names))}
    renumbered = np.array([order[name] for name in found.names], np.int64)
    return np.asarray(renumbered[found.of_sample], np.int64)


def _owners(samples: SampleSet) -> NDArray[np.int64] | None:
    return samples.owners


def so_far(parts: list[dict[DeviceId, Indices]], stage: int) -> Mapping[DeviceId, Indices]:
    """Return what has come to each device by a stage."""
    found: dict[DeviceId, list[Indices]] = defaultdict(list)
    for part in parts[:stage]:
        for device, indices in part.items():
            found[device].append(indices)
    return {device: np.concatenate(shares) for device, shares in found.items()}
