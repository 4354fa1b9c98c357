"""A coordinator's home whose devices gave statistics of digits, some of them dishonest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.classes.entries import ClassNamed
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.entries import DeviceAdmitted
from fleetledger.schemas.contributions import Part, PartKey
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.core.harness import BACKBONE
from tests.promises.one_liar import CLASSES, Digits, Samples

WIDTH = 150


@cache
def digits(**settings: object) -> Digits:
    return Digits.behind(WIDTH, **settings)


def rotated(samples: Samples) -> Samples:
    """Return samples that are labelled with the next digit."""
    return samples[0], (samples[1] + 1) % 10


def dealt(devices: int, liars: Iterable[int] = (), seed: int = 0) -> dict[str, Samples]:
    """Return the samples of devices; those of `liars` are labelled wrongly."""
    wrong = set(liars)
    return {
        f"dev-{place}": rotated(one) if place in wrong else one
        for place, one in enumerate(digits().dealt(devices, 1.0, seed), 1)
    }


def write_home(
    home: Path, fleet: Mapping[str, Samples], stages: int = 1, **settings: object
) -> list[int]:
    """Write a home to which each device gave a part for each stage; return their entries."""
    made = digits(**settings)
    home.mkdir(exist_ok=True)
    store = BlobStore(blob_folder(home))
    backbone = BACKBONE.model_copy(
        update={"feature_width": 64, "settings": made.told.model_dump(mode="json")}
    )
    bodies = [(backbone, None)]
    bodies += [(ClassNamed(name=name, index=at), None) for at, name in enumerate(CLASSES)]
    bodies += [(DeviceAdmitted(device=DeviceId(device)), None) for device in fleet]
    begin = len(bodies)
    for device, (h, y) in fleet.items():
        for stage in range(1, stages + 1):
            some = slice(stage - 1, None, stages)
            counts = np.bincount(y[some], minlength=10)
            payload = made.payload((h[some], y[some]))
            store.put(payload)
            part = Part(
                key=PartKey(stage=stage, part=0),
                revision=0,
                payload_kind="statistics",
                method="stsa",
                lineage=BACKBONE.frozen.digest,
                payload=Digest.of(payload),
                payload_bytes=len(payload),
                samples={CLASSES[c]: int(n) for c, n in enumerate(counts) if n},
            )
            bodies.append((ContributionAccepted(part=part), DeviceId(device)))
    drafts = [
        EntryDraft(body.kind, "test", body.model_dump(mode="json"), device, body.blobs, 10**9)
        for body, device in bodies
    ]
    with Ledger.open(ledger_path(home)) as ledger:
        ledger.append(drafts)
    return list(range(begin, len(bodies)))
