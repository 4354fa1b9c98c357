"""The roster: the keys of the devices that the root's owners take for devices.

Whoever leads a masked cohort could invent members, and so learn what the others gave. So devices
believe a member's key where the roster has it that their root names, and who signs the root looks
at the roster before.
"""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import TrustError
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.trust.root_drafts import FOLDER
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas.cohorts import DeviceRoster
from fleetledger.schemas.roots import RootDocument
from fleetledger.schemas.values import Digest


def enrolled_devices(home: Path) -> DeviceRoster:
    """Return the devices that are admitted and have a key; raise `TrustError` for none."""
    with ledger_of(home) as ledger:
        state = state_of(ledger)
    found = {device: state.keys.of(device).key for device in sorted(state.devices.admitted)}
    keys = {device: key for device, key in found.items() if key is not None}
    if not keys:
        raise TrustError(
            "devices: none has a key; invite them with `fleetledger coordinator enrol DEVICE`"
        )
    return DeviceRoster(fleet=load(home).fleet, keys=keys)


def kept_roster(home: Path, version: int) -> tuple[Path, Digest]:
    """Write the roster for a root's next version, for its owners to look at; return its digest.

    It lies beside the root, and among the blobs, from where devices get it.
    """
    data = enrolled_devices(home).canonical_bytes()
    file = home / FOLDER / f"devices-{version}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, data)
    return file, _blobs(home).put(data)


def check_has_roster(home: Path, root: RootDocument) -> None:
    """Raise `TrustError` where a root names a roster that this home does not have."""
    if root.devices is not None and not _blobs(home).has(root.devices):
        raise TrustError(
            f"devices: the roster {root.devices.short} that the root names is not in this home; "
            "make the draft here, with `fleetledger trust rotate --devices`"
        )


def _blobs(home: Path) -> BlobStore:
    return BlobStore(load(home).blobs or blob_folder(home))
